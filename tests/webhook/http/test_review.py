"""AdmissionReviews decoded: what rules come to see of every kind of good call."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
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
_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
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
    "options": review(_POD)["request"]["options"],
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
                resource=_RESOURCE,
                requestResource=_RESOURCE,
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
    request = {"uid": "1", "kind": kind, "resource": _RESOURCE, "operation": "CREATE", "object": {}}
    sent = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

    assert _decode(json.dumps(sent).encode()) == asdict(
        AdmissionRequest(uid="1", kind=_POD_KIND, resource=_PODS, operation="CREATE", object={})
    )


def test_optional_fields_that_are_null_have_their_zero_value() -> None:
    """A null is as good as an absent field, as it is in the API server's own decoder."""
    nothing = dict.fromkeys(("subResource", "name", "namespace", "oldObject", "options", "requestKind"))
    nothing |= dict.fromkeys(("requestResource", "requestSubResource"))
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


def test_a_deep_object_that_is_no_bomb_is_decoded() -> None:
    """Two hundred levels, more than any API type has, are no trouble."""
    deep: Any = "x"
    for _ in range(100):
        deep = [{"a": deep}]

    assert _DECODER.decode(body({"spec": deep})).object == {"spec": deep}


_NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_SIMPLE = st.none() | st.booleans() | _NUMBERS | st.text(max_size=8)
_VALUES = st.recursive(
    _SIMPLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEPT = ("name", "generateName", "namespace", "uid", "labels", "annotations")
_KEPT += ("ownerReferences", "deletionTimestamp", "finalizers")
_METADATA = st.fixed_dictionaries({}, optional=dict.fromkeys(_KEPT, _VALUES)) | _SIMPLE | st.lists(_SIMPLE)


@settings(max_examples=200)
@example(metadata="x", spec="all", name="Zürich \N{GRINNING FACE} \x00 \u2028", ascii_only=False)
@example(metadata={"labels": ["a.coreweave.cloud/b"]}, spec=[1, 2.5, True, None], name="", ascii_only=True)
@given(metadata=_METADATA, spec=_VALUES, name=st.text(max_size=20), ascii_only=st.booleans())
def test_what_is_sent_is_what_rules_see(metadata: Any, spec: Any, name: str, *, ascii_only: bool) -> None:
    """Whatever the fields that rules read hold, even of the wrong shape, and however it is written, it arrives so."""
    obj = {"metadata": metadata, "spec": spec}
    sent = json.dumps(review(obj, obj, name=name, namespace=name), ensure_ascii=ascii_only).encode()

    decoded = _DECODER.decode(sent)

    assert (decoded.object, decoded.old_object) == (obj, obj)
    assert (decoded.name, decoded.namespace) == (name, name)
