"""AdmissionReviews decoded: what rules come to see of every kind of good call."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.builders import Json, pod
from support.service.reviews import body, review

from webhook.http.review import Decoder

_DECODER = Decoder({"metadata", "spec"})
_POD = pod(labels={"app": "a"}, metadata={"namespace": "default"})
_OPTIONS = {"apiVersion": "v1", "kind": "PodExecOptions"}
_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
_ABSENT = {
    **dict.fromkeys(("subResource", "name", "namespace", "requestSubResource"), ""),
    **dict.fromkeys(("object", "oldObject", "options", "requestKind", "requestResource")),
}
_NOBODY: Json = {"username": "", "uid": "", "groups": [], "extra": {}}


def _decode(sent: str) -> Json:
    """The request as rules see it, in the names of the API."""
    decoded: Json = json.loads(msgspec.json.encode(_DECODER.decode(sent.encode())))
    return {**decoded, "dryRun": bool(decoded["dryRun"])}


def _filled(values: Json, absent: Json) -> Json:
    """Values by the known names, where one that is absent or null has its zero value."""
    return {**absent, **{name: value for name, value in values.items() if value is not None and name != "new"}}


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(review(_POD), id="create"),
        pytest.param(review(_POD, {**_POD, "spec": {}}), id="update"),
        pytest.param(review(None, _POD, operation="DELETE"), id="delete"),
        pytest.param(
            review(
                _OPTIONS,
                operation="CONNECT",
                resource=_RESOURCE,
                subResource="exec",
                requestSubResource="exec",
                name="x",
            ),
            id="connect",
        ),
        pytest.param(review(None, operation="CONNECT", name="trainer"), id="connect-without-object"),
        pytest.param(review(_POD, _POD, subResource="status"), id="subresource"),
        pytest.param(review(_POD, dryRun=True), id="dry-run"),
        pytest.param(review({**_POD, "metadata": {"generateName": "trainer-"}}, name=""), id="generate-name"),
        pytest.param(review({**_POD, "metadata": {"name": "x"}}, namespace="team"), id="no-namespace-in-the-object"),
        pytest.param(review(_POD, new={"a": [1, None]}, userInfo={"username": "alice", "new": {}}), id="new-fields"),
        pytest.param(review(_POD, dryRun=None), id="dry-run-null"),
        pytest.param(review(_POD, userInfo=None), id="user-null"),
        pytest.param(
            review(_POD, **(_ABSENT | dict.fromkeys(_ABSENT) | {"object": _POD}), userInfo=dict.fromkeys(_NOBODY)),
            id="nulls",
        ),
    ],
)
def test_a_good_review_is_decoded(sent: Json) -> None:
    """Each field arrives under its own name, whatever the operation; one that is absent or null has its zero value."""
    request = sent["request"]
    present = {**sent, "request": {key: value for key, value in request.items() if value is not None}}
    user = _filled(request["userInfo"] or {}, _NOBODY)
    expected = {**_filled(request, _ABSENT), "userInfo": user, "dryRun": bool(request["dryRun"])}

    for written in (json.dumps(sent), json.dumps(present), f" \r\n\t{json.dumps(sent, indent=2)}\n"):
        assert _decode(written) == expected


@pytest.mark.parametrize(
    ("written", "twice"),
    [
        pytest.param('"uid": "7', '"uid": "first", "uid": "7', id="uid"),
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

    assert _decode(sent.replace(written, twice)) == _decode(sent)


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
_NAMES = ("name", "generateName", "namespace", "uid")
_KEPT = (*_NAMES, "labels", "annotations", "ownerReferences", "deletionTimestamp", "finalizers")
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
