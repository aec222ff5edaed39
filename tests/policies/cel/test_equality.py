from __future__ import annotations

from typing import Any

import pytest

from policies.cel.equality import contains, equal, find, same_number
from policies.cel.errors import CelError
from policies.cel.types import INT, LIST, STRING, list_of
from policies.cel.values import ABSENT, INT_MAX, NONE, UINT_MAX, Duration, Optional, Timestamp, Uint

NAN, INF = float("nan"), float("inf")


class Picky:
    """A library's value that can only be compared with its own kind."""

    def cel_equal(self, other: Any) -> bool:
        """Equal to all of its kind."""
        if not isinstance(other, Picky):
            raise CelError("no such overload")
        return True


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (None, None, True),
        (None, 0, False),
        (None, False, False),
        (True, True, True),
        (True, 1, False),
        (False, 0.0, False),
        (1, 1, True),
        (1, Uint(1), True),
        (1, 1.0, True),
        (Uint(1), 1.0, True),
        (1, "1", False),
        (-1, Uint(UINT_MAX), False),
        (0.0, -0.0, True),
        (NAN, NAN, False),
        (INF, INF, True),
        (2**53 + 1, float(2**53), True),  # as doubles they are the same
        (INT_MAX, float(2**63), True),
        (Uint(UINT_MAX), float(2**64), True),
        (INT_MAX, float(2**64), False),
        (INF, INT_MAX, False),
        ("a", "a", True),
        ("a", b"a", False),
        (b"a", b"a", True),
        ("é", "e\u0301", False),
        ([], [], True),
        ([], {}, False),
        ([1, "a"], [1.0, "a"], True),
        ([1], [1, 2], False),
        ([NAN], [NAN], False),
        ([True], [1], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({1: "a"}, {Uint(1): "a"}, True),
        ({1: "a"}, {True: "a"}, False),
        ({"a": None}, {"b": None}, False),
        ({"a": {"b": [1]}}, {"a": {"b": [1]}}, True),
        (Duration(1), Duration(1), True),
        (Duration(1), 1, False),
        (Duration(1), Timestamp(1), False),
        (Timestamp(1, 0), Timestamp(1, 3600), True),
        (INT, INT, True),
        (INT, STRING, False),
        (LIST, list_of(INT), True),
        (NONE, NONE, True),
        (NONE, Optional(None), False),
        (Optional(1), Optional(1.0), True),
        (Optional(1), 1, False),
    ],
    ids=repr,
)
def test_equal(left: Any, right: Any, expected: bool) -> None:  # noqa: FBT001
    """Equality is by value among numbers, by content of lists and maps, and false across other types, both ways."""
    assert (equal(left, right), equal(right, left)) == (expected, expected)


def test_what_cannot_be_compared() -> None:
    """A library's value may refuse; in lists, maps and look-ups that is not a failure."""
    with pytest.raises(CelError, match="no such overload"):
        equal(Picky(), 1)

    assert equal(Picky(), Picky()) is True
    assert equal([Picky()], [1]) is True  # as in the reference
    assert equal({"a": Picky()}, {"a": 1}) is True
    assert contains([Picky(), 1], 1) is True
    assert contains([Picky()], 1) is False


@pytest.mark.parametrize(
    ("double", "integer", "expected"),
    [
        (1.0, 1, True),
        (1.5, 1, False),
        (-1.0, Uint(1), False),
        (float(2**63), INT_MAX, True),
        (float(-(2**63)), -(2**63), True),
        (NAN, 0, False),
        (-INF, -(2**63), False),
    ],
)
def test_doubles_and_integers(double: float, integer: int, expected: bool) -> None:  # noqa: FBT001
    """A double is compared with an integer within the integer's bounds only."""
    assert same_number(double, integer) is expected


@pytest.mark.parametrize(
    ("mapping", "key", "expected"),
    [
        ({"a": 1}, "a", 1),
        ({"a": None}, "a", None),
        ({"a": 1}, "b", ABSENT),
        ({"1": 1}, 1, ABSENT),
        ({1: "x"}, 1, "x"),
        ({1: "x"}, Uint(1), "x"),
        ({1: "x"}, 1.0, "x"),
        ({1: "x"}, 1.5, ABSENT),
        ({1: "x"}, True, ABSENT),
        ({True: "x"}, 1, ABSENT),
        ({True: "x"}, True, "x"),
        ({Uint(1): "x"}, 1, "x"),
        ({1: "x"}, NAN, ABSENT),
        ({"a": 1}, None, ABSENT),
        ({"a": 1}, [], ABSENT),
        ({"a": 1}, {}, ABSENT),
    ],
    ids=repr,
)
def test_find(mapping: dict[Any, Any], key: Any, expected: Any) -> None:
    """Numbers are found by numbers of the same value, bools by bools, and a key that is none is not there."""
    assert find(mapping, key) is expected


@pytest.mark.parametrize(
    ("items", "item", "expected"),
    [
        (["a", 1], "a", True),
        ([b"a", 1], "a", False),
        ([1], 1.0, True),
        ([True], 1, False),
        ([NAN], NAN, False),
        ([[1]], [1.0], True),
        ([], None, False),
        ([None], None, True),
    ],
    ids=repr,
)
def test_contains(items: list[Any], item: Any, expected: bool) -> None:  # noqa: FBT001
    """A list contains what equals one of its elements."""
    assert contains(items, item) is expected
