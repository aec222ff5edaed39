"""Calls that are no proper AdmissionReviews: each has a text of its own, and nothing but `ReviewError` comes out."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import Json, pod
from support.service.reviews import UID, body, review

from webhook.http.review import Decoder, ReviewError

_DECODER = Decoder({"metadata", "spec"})
_GOOD = body(pod(labels={"app": "a"}), pod())
_WRONG_KIND = (
    "Expected apiVersion admission.k8s.io/v1 and kind AdmissionReview, found {} and {}. "
    "List v1 in the webhook's admissionReviewVersions."
)
_NO_JSON = "The body is not JSON: {}. Send an AdmissionReview of admission.k8s.io/v1."
_MALFORMED = "The AdmissionReview is malformed: {}."
_NO_REVIEW = "The body is JSON but no AdmissionReview: Expected `object`, got `{}`."
_TOO_DEEP = "The body is nested too deeply to be read."
_DEEP = 200_000


def _text(sent: bytes) -> str:
    """What the caller reads; the status is 400."""
    with pytest.raises(ReviewError) as caught:
        _DECODER.decode(sent)
    assert caught.value.status == 400
    return str(caught.value)


def _with(**changes: Any) -> bytes:
    """A good review with other fields at its top."""
    return json.dumps({**review(pod()), **changes}).encode()


def _request(**changes: Any) -> bytes:
    """A good review with other fields in its request; those that are `...` are left out."""
    request = {**review(pod())["request"], **changes}
    return _with(request={key: value for key, value in request.items() if value is not ...})


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        pytest.param(b"", _NO_JSON.format("Input data was truncated"), id="empty"),
        pytest.param(b"hello", _NO_JSON.format("JSON is malformed: invalid character (byte 0)"), id="not-json"),
        pytest.param(b"a: b\n", _NO_JSON.format("JSON is malformed: invalid character (byte 0)"), id="yaml"),
        pytest.param(_GOOD[:-1], _NO_JSON.format("Input data was truncated"), id="cut-off"),
        pytest.param(
            _GOOD + b"{}",
            _NO_JSON.format(f"JSON is malformed: trailing characters (byte {len(_GOOD) + 1})"),
            id="something-behind",
        ),
        pytest.param(
            _GOOD.decode().encode("utf-16"),
            _NO_JSON.format("JSON is malformed: invalid character (byte 0)"),
            id="utf-16",
        ),
        pytest.param(b"[]", _NO_REVIEW.format("array"), id="list"),
        pytest.param(b'"AdmissionReview"', _NO_REVIEW.format("str"), id="string"),
        pytest.param(b"null", _NO_REVIEW.format("null"), id="null"),
        pytest.param(b"1", _NO_REVIEW.format("int"), id="number"),
    ],
)
def test_what_is_no_json_object_is_refused(sent: bytes, text: str) -> None:
    """A body that is no JSON, or JSON of another type, is called that."""
    assert _text(sent) == text


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        pytest.param(b"{}", _WRONG_KIND.format("none", "none"), id="empty-object"),
        pytest.param(json.dumps(pod()).encode(), _WRONG_KIND.format('"v1"', '"Pod"'), id="a-pod"),
        pytest.param(
            _with(kind="ConversionReview"),
            _WRONG_KIND.format('"admission.k8s.io/v1"', '"ConversionReview"'),
            id="other-kind",
        ),
        pytest.param(_with(kind=""), _WRONG_KIND.format('"admission.k8s.io/v1"', "none"), id="empty-kind"),
        pytest.param(
            _with(apiVersion="admission.k8s.io/v1beta1"),
            _WRONG_KIND.format('"admission.k8s.io/v1beta1"', '"AdmissionReview"'),
            id="v1beta1",
        ),
        pytest.param(
            _with(apiVersion="admission.k8s.io/v1beta1", request={"uid": 1}),
            _WRONG_KIND.format('"admission.k8s.io/v1beta1"', '"AdmissionReview"'),
            id="v1beta1-and-malformed",
        ),
        pytest.param(_with(request=None), "The AdmissionReview has no request.", id="request-null"),
        pytest.param(
            json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}).encode(),
            "The AdmissionReview has no request.",
            id="no-request",
        ),
        pytest.param(
            json.dumps(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "1"}}
            ).encode(),
            "The AdmissionReview has no request.",
            id="an-answer",
        ),
    ],
)
def test_an_object_that_is_no_review_of_v1_is_refused(sent: bytes, text: str) -> None:
    """Another kind or version is named, with the remedy, before anything else that may be wrong."""
    assert _text(sent) == text


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        pytest.param(
            _with(request=[]), _MALFORMED.format("Expected `object`, got `array` - at `$.request`"), id="request-a-list"
        ),
        pytest.param(
            _request(uid=...), _MALFORMED.format("Object missing required field `uid` - at `$.request`"), id="no-uid"
        ),
        pytest.param(
            _request(uid=7), _MALFORMED.format("Expected `str`, got `int` - at `$.request.uid`"), id="uid-a-number"
        ),
        pytest.param(
            _request(uid=None), _MALFORMED.format("Expected `str`, got `null` - at `$.request.uid`"), id="uid-null"
        ),
        pytest.param(
            _request(uid=""),
            "request.uid is empty. The API server sends one with every review, and the answer must repeat it.",
            id="uid-empty",
        ),
        pytest.param(
            _request(kind=...), _MALFORMED.format("Object missing required field `kind` - at `$.request`"), id="no-kind"
        ),
        pytest.param(
            _request(resource="pods"),
            _MALFORMED.format("Expected `object`, got `str` - at `$.request.resource`"),
            id="resource-a-string",
        ),
        pytest.param(
            _request(operation="PATCH"),
            _MALFORMED.format("Invalid enum value 'PATCH' - at `$.request.operation`"),
            id="unknown-operation",
        ),
        pytest.param(
            _request(object=["x"]),
            _MALFORMED.format("Expected `object | null`, got `array` - at `$.request.object`"),
            id="object-a-list",
        ),
        pytest.param(
            _request(object=None),
            f"request.object is missing from the CREATE review with uid {UID}.",
            id="create-without-object",
        ),
        pytest.param(
            _request(object=..., operation="UPDATE", oldObject={}),
            f"request.object is missing from the UPDATE review with uid {UID}.",
            id="update-without-object",
        ),
        pytest.param(
            _request(operation="UPDATE"),
            f"request.oldObject is missing from the UPDATE review with uid {UID}.",
            id="update-without-old-object",
        ),
    ],
)
def test_a_malformed_request_is_refused(sent: bytes, text: str) -> None:
    """A review with something missing or of the wrong type is told which field and what was found."""
    assert _text(sent) == text


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        pytest.param(b'{"request": null', "Input data was truncated", id="cut-off"),
        pytest.param(b'{"request": null, x}', "JSON is malformed: object keys must be strings (byte 18)", id="no-key"),
        pytest.param(
            b'{"request": null, "kind": "\xff"}',
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
            id="no-text",
        ),
    ],
)
def test_what_is_broken_behind_a_null_request_is_refused(sent: bytes, cause: str) -> None:
    """A body whose JSON breaks off after the first mistake in it is still only a bad call."""
    assert _text(sent) == _NO_JSON.format(cause)


def _inside(depth: int) -> list[Any]:
    arrays, objects = "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth
    good = body(pod(labels={"app": "a"}), pod()).decode()
    places = {
        "spec": ('"object": {"apiVersion": "v1", ', '"object": {"apiVersion": "v1", "spec": %s, '),
        "skipped": ('"object": {"apiVersion": "v1", ', '"object": {"apiVersion": "v1", "status": %s, '),
        "labels": ('"app": "a"', '"app": %s'),
        "old-object": ('"oldObject": {"apiVersion": "v1", ', '"oldObject": {"apiVersion": "v1", "spec": %s, '),
        "options": ('"options": {', '"options": {"x": %s, '),
        "top": ('"apiVersion": "admission.k8s.io/v1"', '"apiVersion": "admission.k8s.io/v1", "x": %s'),
    }
    return [
        pytest.param(good.replace(written, deep % bomb, 1).encode(), id=f"{name}-in-{place}")
        for place, (written, deep) in places.items()
        for name, bomb in (("arrays", arrays), ("objects", objects))
    ]


@pytest.mark.parametrize(
    "sent",
    [
        *_inside(_DEEP),
        *(
            pytest.param(param.values[0].replace(b"k8s.io/v1", b"k8s.io/v2"), id=f"{param.id}-of-v2")
            for param in _inside(_DEEP)[:1]
        ),
        pytest.param(b'{"a":' * _DEEP, id="objects-alone"),
        pytest.param(b'{"request":' * _DEEP, id="requests"),
        pytest.param(b'{"x":' + b"[" * _DEEP, id="arrays-alone"),
    ],
)
def test_a_depth_bomb_is_refused(sent: bytes) -> None:
    """Nesting without end is refused wherever it stands, in fields that nobody reads too, before it costs anything."""
    assert _text(sent) == _TOO_DEEP


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        pytest.param(b"\0", "JSON is malformed: invalid character (byte 0)", id="nul-alone"),
        pytest.param(_GOOD + b"\0", f"JSON is malformed: trailing characters (byte {len(_GOOD) + 1})", id="nul-behind"),
        pytest.param(
            _GOOD.replace(b'"app"', b'"a\0p"', 1),
            f"JSON is malformed: invalid character (byte {_GOOD.index(b'app') + 1})",
            id="nul-in-a-key",
        ),
        pytest.param(
            _GOOD.replace(b'"app"', b'"a\xffp"', 1),
            "'utf-8' codec can't decode byte 0xff in position 1: invalid start byte",
            id="no-utf-8-in-a-key",
        ),
        pytest.param(
            _GOOD.replace(b'"alice"', b'"\xc3"', 1),
            "'utf-8' codec can't decode byte 0xc3 in position 0: unexpected end of data",
            id="cut-off-character",
        ),
        pytest.param(
            _GOOD.replace(UID.encode(), b"\xed\xa0\x80", 1),
            "'utf-8' codec can't decode byte 0xed in position 0: invalid continuation byte",
            id="raw-surrogate-in-the-uid",
        ),
    ],
)
def test_bytes_that_are_no_text_are_refused(sent: bytes, cause: str) -> None:
    """NUL bytes and bytes that are no UTF-8 are refused with the place where they stand."""
    assert _text(sent) == _NO_JSON.format(cause)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(r"\ud800", id="high"),
        pytest.param(r"\ud800x", id="high-before-a-letter"),
        pytest.param(r"\ud800\ud800", id="high-twice"),
        pytest.param(r"\udc00", id="low"),
        pytest.param(r"x\udc00\ud800", id="low-before-high"),
    ],
)
@pytest.mark.parametrize("field", ["app", "alice", UID])
def test_a_lone_surrogate_is_refused(written: str, field: str) -> None:
    """Half a surrogate pair is no character: the refusal says so, whichever field it stands in."""
    text = _text(_GOOD.replace(field.encode(), written.encode(), 1))

    assert text.startswith("The body is not JSON: ")
    assert "surrogate" in text


_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _decode(sent: bytes) -> None:
    """Decode; anything but a request or a ReviewError goes through."""
    with suppress(ReviewError):
        assert _DECODER.decode(sent).uid


def _paths(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a JSON value, its own first."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, child in children for path in _paths(child, (*at, key)))]


_REVIEW: Json = review(pod({"nvidia.com/gpu": 1}, labels={"app": "a"}), pod())


@settings(max_examples=400)
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\ue+-.0123456789nultrfas ', max_size=40).map(str.encode))
def test_any_bytes_lead_to_a_review_error_at_worst(sent: bytes) -> None:
    """Whatever bytes come in, decoding raises its own error and no other."""
    _decode(sent)


@settings(max_examples=400)
@given(path=st.sampled_from(_paths(_REVIEW)), value=_ANY_JSON)
def test_any_value_in_any_place_leads_to_a_review_error_at_worst(path: tuple[str | int, ...], value: Any) -> None:
    """A good review with one value replaced by any other is read or refused."""
    mutated = json.loads(json.dumps(_REVIEW))
    if not path:
        mutated = value
    else:
        parent = mutated
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = value
    _decode(json.dumps(mutated).encode())


@settings(max_examples=400)
@given(start=st.integers(0, len(_GOOD)), length=st.integers(0, 40), instead=st.binary(max_size=6))
def test_any_damage_leads_to_a_review_error_at_worst(start: int, length: int, instead: bytes) -> None:
    """A good review with some bytes cut out and others put in is read or refused."""
    _decode(_GOOD[:start] + instead + _GOOD[start + length :])
