"""AdmissionReviews decoded: what rules come to see of every kind of good call."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict
from support.builders import Json, pod
from support.service.reviews import UID, body, review

from policies.engine.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo
from webhook.http.review import Decoder

_DECODER = Decoder({"metadata", "spec"})
_ALICE = UserInfo(
    "alice", "2f1c", ("dev", "system:authenticated"), {"authentication.kubernetes.io/credential-id": ("JTI=4c5d",)}
)
_POD = pod(labels={"app": "a"}, metadata={"namespace": "default"})
_POD_KIND = GroupVersionKind("", "v1", "Pod")
_PODS = GroupVersionResource("", "v1", "pods")
_DECODED: Json = {
    "uid": UID,
    "kind": _POD_KIND,
    "resource": _PODS,
    "sub_resource": "",
    "name": "trainer",
    "namespace": "default",
    "operation": "CREATE",
    "user_info": _ALICE,
    "object": _POD,
    "old_object": None,
    "dry_run": False,
    "options": {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "fieldManager": "kubectl-client-side-apply",
    },
    "request_kind": _POD_KIND,
    "request_resource": _PODS,
    "request_sub_resource": "",
}


def _decode(sent: bytes) -> Json:
    return asdict(_DECODER.decode(sent))


@pytest.mark.parametrize(
    ("sent", "differs"),
    [
        pytest.param(body(_POD), {}, id="create"),
        pytest.param(
            body(_POD, {**_POD, "spec": {}}), {"operation": "UPDATE", "old_object": {**_POD, "spec": {}}}, id="update"
        ),
        pytest.param(
            body(None, _POD, operation="DELETE"),
            {"operation": "DELETE", "object": None, "old_object": _POD},
            id="delete",
        ),
        pytest.param(
            body(
                {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["sh"]},
                operation="CONNECT",
                subResource="exec",
                kind={"group": "", "version": "v1", "kind": "PodExecOptions"},
                resource={"group": "", "version": "v1", "resource": "pods"},
                requestKind={"group": "", "version": "v1", "kind": "PodExecOptions"},
                requestResource={"group": "", "version": "v1", "resource": "pods"},
                requestSubResource="exec",
                name="trainer",
            ),
            {
                "operation": "CONNECT",
                "sub_resource": "exec",
                "kind": GroupVersionKind("", "v1", "PodExecOptions"),
                "request_kind": GroupVersionKind("", "v1", "PodExecOptions"),
                "request_sub_resource": "exec",
                "object": {"apiVersion": "v1", "kind": "PodExecOptions"},
            },
            id="connect",
        ),
        pytest.param(
            body(None, operation="CONNECT", name="trainer"),
            {"operation": "CONNECT", "object": None},
            id="connect-without-object",
        ),
        pytest.param(
            body(_POD, _POD, subResource="status"),
            {"operation": "UPDATE", "old_object": _POD, "sub_resource": "status"},
            id="subresource",
        ),
        pytest.param(body(_POD, dryRun=True), {"dry_run": True}, id="dry-run"),
        pytest.param(
            body({**_POD, "metadata": {"generateName": "trainer-"}}, name=""),
            {"name": "", "object": {**_POD, "metadata": {"generateName": "trainer-"}}},
            id="generate-name",
        ),
        pytest.param(
            body({**_POD, "metadata": {"name": "trainer", "namespace": ""}}, namespace="team"),
            {"namespace": "team", "object": {**_POD, "metadata": {"name": "trainer", "namespace": ""}}},
            id="empty-namespace-in-the-object",
        ),
        pytest.param(
            body({**_POD, "metadata": {"name": "trainer"}}, namespace="team"),
            {"namespace": "team", "object": {**_POD, "metadata": {"name": "trainer"}}},
            id="no-namespace-in-the-object",
        ),
        pytest.param(
            body(_POD, newInTheNextRelease={"a": [1, None]}, userInfo={"username": "alice", "new": {}}),
            {"user_info": UserInfo("alice")},
            id="unknown-new-fields",
        ),
        pytest.param(body(_POD, dryRun=None), {"dry_run": None}, id="dry-run-null"),
        pytest.param(b" \r\n\t" + body(_POD) + b"\n", {}, id="whitespace-around"),
        pytest.param(json.dumps(review(_POD), indent=2).encode(), {}, id="pretty-printed"),
    ],
)
def test_a_good_review_is_decoded(sent: bytes, differs: Json) -> None:
    """Each field of a good review arrives under its own name, whatever the operation."""
    assert _decode(sent) == _DECODED | differs


def test_fields_that_are_absent_have_their_zero_value() -> None:
    """A review with nothing but what is required is a good one."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {"uid": "1", "kind": kind, "resource": resource, "operation": "CREATE", "object": {}}
    sent = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

    assert _decode(json.dumps(sent).encode()) == asdict(
        AdmissionRequest(uid="1", kind=_POD_KIND, resource=_PODS, operation="CREATE", object={})
    )


def test_optional_fields_that_are_null_have_their_zero_value() -> None:
    """A null is as good as an absent field, as it is in the API server's own decoder."""
    nothing = dict.fromkeys(
        (
            "subResource",
            "name",
            "namespace",
            "oldObject",
            "options",
            "requestKind",
            "requestResource",
            "requestSubResource",
        )
    )
    user = dict.fromkeys(("username", "uid", "groups", "extra"))

    assert _decode(body(_POD, **nothing, userInfo=user)) == _DECODED | {
        "name": "",
        "namespace": "",
        "user_info": UserInfo(),
        "options": None,
        "request_kind": None,
        "request_resource": None,
    }
    assert _decode(body(_POD, userInfo=None)) == _DECODED | {"user_info": UserInfo()}


@pytest.mark.parametrize(
    ("written", "twice"),
    [
        pytest.param(f'"uid": "{UID}"', f'"uid": "first", "uid": "{UID}"', id="uid"),
        pytest.param('"object": {', '"object": null, "object": {', id="object-null-first"),
        pytest.param('"metadata": {', '"metadata": [], "metadata": {', id="metadata-no-map-first"),
        pytest.param('"labels": {"app": "a"}', '"labels": {"old": "x"}, "labels": {"app": "a"}', id="labels"),
        pytest.param('"app": "a"', '"app": "first", "app": "a"', id="label"),
        pytest.param('"spec": {', '"spec": "first", "spec": {', id="spec"),
        pytest.param('"operation": "CREATE"', '"operation": "DELETE", "operation": "CREATE"', id="operation"),
    ],
)
def test_of_duplicate_keys_the_last_wins(written: str, twice: str) -> None:
    """A key that stands twice has its last value, as in the API server's decoder."""
    sent = body(_POD).decode()
    assert sent.count(written) == 1

    assert _decode(sent.replace(written, twice).encode()) == _DECODED


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"metadata": ["x"]}, id="metadata-a-list"),
        pytest.param({"metadata": "x"}, id="metadata-a-string"),
        pytest.param({"metadata": None}, id="metadata-null"),
        pytest.param({"metadata": {"labels": ["foo.coreweave.cloud/bar"]}}, id="labels-a-list"),
        pytest.param({"metadata": {"labels": {"a": {"b": "c"}, "d": None, "e": 1}}}, id="label-values-of-other-types"),
        pytest.param({"metadata": {}, "spec": {"tolerations": "all"}}, id="tolerations-a-string"),
        pytest.param({"metadata": {}, "spec": [1, 2.5, True, None]}, id="spec-a-list"),
        pytest.param(
            {"metadata": {"name": 7, "ownerReferences": {"controller": True}}}, id="other-fields-of-other-types"
        ),
        pytest.param({}, id="nothing-at-all"),
    ],
)
def test_an_odd_object_reaches_the_rules_as_it_is(odd: Json) -> None:
    """An object of the wrong shape is no bad call: rules see it unchanged and say what is wrong, in both places."""
    decoded = _DECODER.decode(body(odd, odd))

    assert decoded.object == odd
    assert decoded.old_object == odd


def test_text_keeps_every_character() -> None:
    """Escaped and raw characters of all planes, and an escaped NUL, arrive as they were sent."""
    text = "Zürich \N{GRINNING FACE} \x00 \u2028"
    obj = {"metadata": {"labels": {"a": text}}}

    raw = _DECODER.decode(json.dumps(review(obj), ensure_ascii=False).encode())
    escaped = _DECODER.decode(json.dumps(review(obj)).encode())

    assert raw.object == escaped.object == obj


def test_a_deep_object_that_is_no_bomb_is_decoded() -> None:
    """Two hundred levels, more than any API type has, are no trouble."""
    deep: Any = "x"
    for _ in range(100):
        deep = [{"a": deep}]

    assert _DECODER.decode(body({"spec": deep})).object == {"spec": deep}


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(labels=_VALUES, spec=_VALUES, name=st.text(max_size=20))
def test_what_is_sent_is_what_rules_see(labels: Any, spec: Any, name: str) -> None:
    """Whatever the fields that rules read hold, decoding changes nothing about them."""
    obj = {"metadata": {"name": name, "labels": labels}, "spec": spec}

    decoded = _DECODER.decode(body(obj, name=name, namespace=name))

    assert decoded.object == obj
    assert (decoded.name, decoded.namespace) == (name, name)
