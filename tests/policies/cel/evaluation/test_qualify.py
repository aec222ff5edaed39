from __future__ import annotations

from typing import Any

import pytest

from policies.cel.errors import CelError
from policies.cel.evaluation.qualify import check_key, go_type, index_of, present, qualify, show_key
from policies.cel.patchtypes import JSONPatch
from policies.cel.types import INT
from policies.cel.values import ABSENT, INT_MAX, NONE, UINT_MAX, Duration, Timestamp, Uint


def _tried(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except CelError as error:
        return ("failed", error.message)


@pytest.mark.parametrize(
    ("value", "key", "expected"),
    [
        ([1, 2], 1, 2),
        ([1, 2], Uint(1), 2),
        ([1, 2], 1.0, 2),
        ([1, 2], 2, ("failed", "index out of bounds: 2")),
        ([1, 2], -1, ("failed", "index out of bounds: -1")),
        ([1, 2], True, ("failed", "unsupported index type 'bool' in list")),
        ([], 0, ("failed", "index out of bounds: 0")),
        ({"a": None}, "a", None),
        ({"a": None}, "b", ("failed", "no such key: b")),
        ({1: "x"}, 1.0, "x"),
        ({1: "x"}, Uint(1), "x"),
        ({1: "x"}, True, ("failed", "no such key: true")),
        ({1: "x"}, 1.5, ("failed", "no such key: 1.5")),
        ("text", "a", ("failed", "no such key: a")),
        (None, "a", ("failed", "no such key: a")),
        (5, 0, ("failed", "no such key: 0")),
        (JSONPatch(op="add"), "op", "add"),
        (JSONPatch(op="add"), "x", ("failed", "unsupported indexer: x")),
    ],
    ids=repr,
)
def test_qualify(value: Any, key: Any, expected: object) -> None:
    """Lists by index, maps by key across the kinds of numbers, messages by field; nothing else has parts."""
    assert _tried(qualify, value, key) == expected


@pytest.mark.parametrize(
    ("value", "key", "expected"),
    [
        ([1], 0, 1),
        ([1], 1, ABSENT),
        ([1], -1, ABSENT),
        ([1], "a", ("failed", "unsupported index type 'string' in list")),
        ({"a": None}, "a", None),
        ({"a": None}, "b", ABSENT),
        ("text", "a", ABSENT),
        (None, "a", ABSENT),
        (JSONPatch(op="add"), "op", "add"),
        (JSONPatch(op="add"), "path", ABSENT),
        (JSONPatch(op="add"), "x", ("failed", "unsupported field: x")),
    ],
    ids=repr,
)
def test_present(value: Any, key: Any, expected: object) -> None:
    """What is not there is ABSENT rather than an error, but null is there."""
    assert _tried(present, value, key) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (0, 0),
        (Uint(3), 3),
        (2.0, 2),
        (-0.0, 0),
        (0.5, ("failed", "unsupported index value 0.5 in list")),
        (float("inf"), ("failed", "unsupported index value +Inf in list")),
        (float("nan"), ("failed", "unsupported index value NaN in list")),
        (Uint(INT_MAX), INT_MAX),
        (Uint(UINT_MAX), ("failed", f"unsupported index value {UINT_MAX} in list")),
        ("a", ("failed", "unsupported index type 'string' in list")),
        (None, ("failed", "unsupported index type 'null' in list")),
    ],
    ids=repr,
)
def test_indices(key: Any, expected: object) -> None:
    """Integers and doubles without a fraction are indices, as far as an int64 reaches."""
    found = _tried(index_of, key)

    assert found == expected
    assert isinstance(found, tuple) or type(found) is int


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a", None),
        (1, None),
        (Uint(1), None),
        (True, None),
        (1.5, None),
        (None, ("failed", "invalid qualifier type: types.Null")),
        (b"a", ("failed", "invalid qualifier type: types.Bytes")),
        ([], ("failed", "invalid qualifier type: *types.baseList")),
        ({}, ("failed", "invalid qualifier type: *types.baseMap")),
        (Duration(1), ("failed", "invalid qualifier type: types.Duration")),
    ],
    ids=repr,
)
def test_keys(key: Any, expected: object) -> None:
    """Only texts, numbers and bools can be keys or indices at all."""
    assert _tried(check_key, key) == expected


@pytest.mark.parametrize(
    ("key", "shown"),
    [("a", "a"), (1, "1"), (Uint(1), "1"), (True, "true"), (False, "false"), (0.5, "0.5"), (1e21, "1e+21")],
)
def test_keys_in_messages(key: Any, shown: str) -> None:
    """A key is shown as Go shows it."""
    assert show_key(key) == shown


def test_names_of_types() -> None:
    """The reference's names of types in messages."""
    values: list[Any] = [None, True, 1, Uint(1), 1.0, "", b"", Duration(1), Timestamp(1), NONE, [], {}, INT]
    plain = ["Null", "Bool", "Int", "Uint", "Double", "String", "Bytes", "Duration", "Timestamp"]

    assert list(map(go_type, values)) == [
        *(f"types.{name}" for name in plain),
        "*types.Optional",
        "*types.baseList",
        "*types.baseMap",
        "*types.Type",
    ]
