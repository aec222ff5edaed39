"""Calls that are no proper AdmissionReviews: each has a text of its own, and nothing but `ReviewError` comes out."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import Json, pod
from support.service.reviews import UID, body, review

from webhook.http.review import Decoder, ReviewError

_DECODER = Decoder({"metadata", "spec"})
_GOOD = body(pod(labels={"app": "a"}), pod())
_NO_JSON = "The body is not JSON: {}. Send an AdmissionReview of admission.k8s.io/v1."
_TOO_DEEP = "The body is nested too deeply to be read."
_DEEP = 200_000
_CALLS: dict[str, Json] = yaml.safe_load(Path(__file__).with_name("calls.yaml").read_text(encoding="utf-8"))


def _text(sent: bytes) -> str:
    """What the caller reads; the status is 400."""
    with pytest.raises(ReviewError) as caught:
        _DECODER.decode(sent)
    assert caught.value.status == 400
    return str(caught.value)


@pytest.mark.parametrize("case", _CALLS)
def test_what_is_no_good_review_is_refused(case: str) -> None:
    """Each is told what it is, or which field is wrong and what was found; calls.yaml has all of them."""
    call = _CALLS[case]
    good = review(pod())
    request = {key: value for key, value in good["request"].items() if key != call.get("without")}
    sent = json.dumps({**good, "request": {**request, **call.get("request", {})}, **call.get("review", {})})

    assert _text(call.get("body", sent).encode()) == call["text"]


def _damaged(old: bytes, new: bytes) -> bytes:
    return _GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        pytest.param(b"", "Input data was truncated", id="empty"),
        pytest.param(b"a: b\n", "JSON is malformed: invalid character (byte 0)", id="yaml"),
        pytest.param(_GOOD.decode().encode("utf-16"), "JSON is malformed: invalid character (byte 0)", id="utf-16"),
        pytest.param(_GOOD[:-1], "Input data was truncated", id="cut-off"),
        pytest.param(
            _GOOD + b"\0", f"JSON is malformed: trailing characters (byte {len(_GOOD) + 1})", id="something-behind"
        ),
        pytest.param(
            _damaged(b'"app"', b'"a\0p"'),
            f"JSON is malformed: invalid character (byte {_GOOD.index(b'app') + 1})",
            id="nul-in-a-key",
        ),
        pytest.param(
            _damaged(b'"app"', b'"a\xffp"'),
            "'utf-8' codec can't decode byte 0xff in position 1: invalid start byte",
            id="no-utf-8-in-a-key",
        ),
        pytest.param(
            _damaged(b'"alice"', b'"\xc3"'),
            "'utf-8' codec can't decode byte 0xc3 in position 0: unexpected end of data",
            id="cut-off-character",
        ),
        pytest.param(
            _damaged(UID.encode(), b"\xed\xa0\x80"),
            "'utf-8' codec can't decode byte 0xed in position 0: invalid continuation byte",
            id="raw-surrogate-in-the-uid",
        ),
        # What breaks off after the first mistake in it is still only a bad call.
        pytest.param(b'{"request": null', "Input data was truncated", id="cut-off-behind-a-null-request"),
        pytest.param(b'{"request": null, x}', "JSON is malformed: object keys must be strings (byte 18)", id="no-key"),
        pytest.param(
            b'{"request": null, "kind": "\xff"}',
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
            id="no-text-behind-a-null-request",
        ),
    ],
)
def test_what_is_no_json_is_refused(sent: bytes, cause: str) -> None:
    """The refusal says why, and with bytes that are no text where they stand."""
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
        pytest.param(_inside(_DEEP)[0].values[0].replace(b"k8s.io/v1", b"k8s.io/v2"), id="arrays-in-spec-of-v2"),
        pytest.param(b'{"a":' * _DEEP, id="objects-alone"),
        pytest.param(b'{"request":' * _DEEP, id="requests"),
        pytest.param(b'{"x":' + b"[" * _DEEP, id="arrays-alone"),
    ],
)
def test_a_depth_bomb_is_refused(sent: bytes) -> None:
    """Nesting without end is refused wherever it stands, in fields that nobody reads too, before it costs anything."""
    assert _text(sent) == _TOO_DEEP


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
