from __future__ import annotations

from typing import Any

import pytest

from policies.cel.errors import CelError
from policies.cel.ordering import compare
from policies.cel.types import INT
from policies.cel.values import INT_MAX, INT_MIN, NONE, UINT_MAX, Duration, Timestamp, Uint

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 2, -1),
        (2, 2, 0),
        (-1, Uint(0), -1),
        (Uint(UINT_MAX), INT_MAX, 1),
        (1, 1.5, -1),
        (1.0, 1, 0),
        (Uint(2), 1.5, 1),
        (INF, INT_MAX, 1),
        (-INF, INT_MIN, -1),
        (float(2**63), INT_MAX, 0),  # as a double, the last integer is this
        (float(2**63) * 2, INT_MAX, 1),
        (float(2**64), Uint(UINT_MAX), 0),
        (float(2**64) * 2, Uint(UINT_MAX), 1),
        (-0.5, Uint(0), -1),
        (2**53 + 1, float(2**53), 0),
        (0.0, -0.0, 0),
        (-INF, INF, -1),
        ("a", "b", -1),
        ("a", "a", 0),
        ("Z", "a", -1),
        ("\uffff", "\U00010000", -1),  # by code points, not by UTF-16
        ("a", "ab", -1),
        (b"a", b"\xff", -1),
        (False, True, -1),
        (True, True, 0),
        (Duration(-1), Duration(1), -1),
        (Timestamp(5, 3600), Timestamp(5), 0),
        (Timestamp(5), Timestamp(6), -1),
    ],
    ids=repr,
)
def test_compare(left: Any, right: Any, expected: int) -> None:
    """Numbers are ordered across their types, all else within its own; the other way round is the opposite."""
    assert (compare(left, right), compare(right, left)) == (expected, -expected)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, "1"),
        (1, True),
        (True, 1.0),
        ("a", b"a"),
        (None, None),
        ([1], [2]),
        ({}, {}),
        (Duration(1), Timestamp(1)),
        (Duration(1), 1),
        (INT, INT),
        (NONE, NONE),
    ],
    ids=repr,
)
def test_without_an_order(left: Any, right: Any) -> None:
    """Values of different types, and of types without an order, cannot be compared."""
    for pair in ((left, right), (right, left)):
        with pytest.raises(CelError, match=r"^no such overload$"):
            compare(*pair)


@pytest.mark.parametrize("other", [1, Uint(1), 1.0, NAN])
def test_nan(other: Any) -> None:
    """NaN is neither before nor behind anything."""
    for pair in ((NAN, other), (other, NAN)):
        with pytest.raises(CelError, match=r"^NaN values cannot be ordered$"):
            compare(*pair)
