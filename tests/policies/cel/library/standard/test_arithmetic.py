from __future__ import annotations

from math import copysign, isnan
from typing import Any

import pytest
from support.cel.overloads import Failed, declared, price

from policies.cel.errors import CelError
from policies.cel.library.standard.arithmetic import LIBRARY, add, divide, modulo, multiply, negate, subtract
from policies.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint

NAN, INF = float("nan"), float("inf")
SECOND = 1_000_000_000
LAST = Timestamp(253402300799 * SECOND)
FIRST = Timestamp(-62135596800 * SECOND)
NONE_FITS, OVERFLOW = Failed("no such overload"), Failed("integer overflow")
UNSIGNED = Failed("unsigned integer overflow")


def _tried(function: Any, *values: Any) -> Any:
    try:
        return function(*values)
    except CelError as error:
        return Failed(error.message)


def _same(found: Any, expected: Any) -> bool:
    return (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 2, 3),
        (INT_MAX, 1, OVERFLOW),
        (INT_MIN, -1, OVERFLOW),
        (INT_MAX, INT_MIN, -1),
        (Uint(1), Uint(2), Uint(3)),
        (Uint(UINT_MAX), Uint(1), UNSIGNED),
        (1.5, 2.0, 3.5),
        (1e308, 1e308, INF),
        ("a", "b", "ab"),
        (b"a", b"b", b"ab"),
        ([1], ["a"], [1, "a"]),
        (Duration(1), Duration(2), Duration(3)),
        (Duration(INT_MAX), Duration(1), OVERFLOW),
        (Timestamp(1, 3600), Duration(2), Timestamp(3, 3600)),
        (Duration(2), Timestamp(1), Timestamp(3)),
        (LAST, Duration(SECOND), Failed("timestamp overflow")),
        (Timestamp(1), Timestamp(1), NONE_FITS),
        (1, 1.0, NONE_FITS),
        (1, Uint(1), NONE_FITS),
        ("a", 1, NONE_FITS),
        ([1], 1, NONE_FITS),
        (True, True, Failed("no such overload: _+_")),
        (None, 1, Failed("no such overload: _+_")),
        ({}, {}, Failed("no such overload: _+_")),
    ],
    ids=repr,
)
def test_add(left: Any, right: Any, expected: Any) -> None:
    """Numbers of one type within its bounds, texts and lists one after the other, times with durations."""
    assert _same(_tried(add, left, right), expected)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 2, -1),
        (INT_MIN, 1, OVERFLOW),
        (Uint(1), Uint(2), UNSIGNED),
        (Uint(2), Uint(2), Uint(0)),
        (1.0, 2.0, -1.0),
        (Duration(INT_MIN), Duration(1), OVERFLOW),
        (Timestamp(3), Timestamp(1), Duration(2)),
        (LAST, FIRST, OVERFLOW),
        (Timestamp(3, 60), Duration(1), Timestamp(2, 60)),
        (Timestamp(0), Duration(INT_MIN), OVERFLOW),
        (FIRST, Duration(1), Failed("timestamp overflow")),
        (Duration(1), Timestamp(1), NONE_FITS),
        ("a", "a", NONE_FITS),
        ([1], [1], Failed("no such overload: _-_")),
        (True, 1, Failed("no such overload: _-_")),
        (1, 1.0, NONE_FITS),
    ],
    ids=repr,
)
def test_subtract(left: Any, right: Any, expected: Any) -> None:
    """Within the bounds of the type; of two moments it is a duration."""
    assert _same(_tried(subtract, left, right), expected)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (3, -2, -6),
        (INT_MIN, -1, OVERFLOW),
        (2**32, 2**31, OVERFLOW),
        (2**32, -(2**31), INT_MIN),
        (Uint(2**32), Uint(2**32), UNSIGNED),
        (Uint(3), Uint(2), Uint(6)),
        (0.5, 4.0, 2.0),
        (2, 0.5, NONE_FITS),
        ("a", 3, NONE_FITS),
        ([1], 3, Failed("no such overload: _*_")),
        (Duration(1), 2, NONE_FITS),
    ],
    ids=repr,
)
def test_multiply(left: Any, right: Any, expected: Any) -> None:
    """Numbers of one type, within its bounds; nothing is repeated."""
    assert _same(_tried(multiply, left, right), expected)


@pytest.mark.parametrize(
    ("left", "right", "quotient", "rest"),
    [
        (7, 2, 3, 1),
        (-7, 2, -3, -1),
        (7, -2, -3, 1),
        (-7, -2, 3, -1),
        (6, 3, 2, 0),
        (INT_MAX, 1, INT_MAX, 0),
        (INT_MIN, 1, INT_MIN, 0),
        (INT_MIN, -1, OVERFLOW, OVERFLOW),
        (2**62 + 1, 3, (2**62 + 1) // 3, (2**62 + 1) % 3),
        (1, 0, Failed("division by zero"), Failed("modulus by zero")),
        (Uint(7), Uint(2), Uint(3), Uint(1)),
        (Uint(7), Uint(0), Failed("division by zero"), Failed("modulus by zero")),
        (1, 1.0, NONE_FITS, NONE_FITS),
        (1, Uint(1), NONE_FITS, NONE_FITS),
        ("a", 1, NONE_FITS, NONE_FITS),
        (True, True, Failed("no such overload: _/_"), Failed("no such overload: _%_")),
        (1.0, 1, NONE_FITS, Failed("no such overload: _%_")),
    ],
    ids=repr,
)
def test_division(left: Any, right: Any, quotient: Any, rest: Any) -> None:
    """Integers are divided towards zero, and the rest has the sign of the left side."""
    assert _same(_tried(divide, left, right), quotient)
    assert _same(_tried(modulo, left, right), rest)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(1.0, 0.0, INF), (-1.0, 0.0, -INF), (1.0, -0.0, -INF), (1.0, 4.0, 0.25), (INF, 0.0, INF)],
)
def test_doubles_divide_by_zero(left: float, right: float, expected: float) -> None:
    """A double divided by zero is an infinity of the right sign."""
    assert divide(left, right) == expected


@pytest.mark.parametrize(("left", "right"), [(0.0, 0.0), (-0.0, 0.0), (NAN, 0.0), (NAN, 1.0), (INF, INF)])
def test_not_a_number(left: float, right: float) -> None:
    """Zero by zero and infinity by infinity are no numbers."""
    assert isnan(divide(left, right))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, -1),
        (INT_MIN, OVERFLOW),
        (1.5, -1.5),
        (Duration(1), Duration(-1)),
        (Duration(INT_MIN), OVERFLOW),
        (True, NONE_FITS),
        ("a", NONE_FITS),
        (Uint(1), Failed("no such overload: -_")),
        (None, Failed("no such overload: -_")),
    ],
    ids=repr,
)
def test_negate(value: Any, expected: Any) -> None:
    """The smallest integer has no opposite, and an unsigned one none at all."""
    assert _same(_tried(negate, value), expected)


def test_negative_zero() -> None:
    """The opposite of 0.0 is -0.0."""
    assert copysign(1.0, negate(0.0)) == -1.0


def test_nothing_is_changed() -> None:
    """The sum of two lists is a third."""
    left, right = [1], [2]
    total = add(left, right)

    assert (left, right, total) == ([1], [2], [1, 2])


def test_costs() -> None:
    """Texts cost a pass over both, everything else 1; the size of what is no text is 1."""
    assert price(LIBRARY, "add_string", "a" * 15, "b" * 6) == 3
    assert price(LIBRARY, "add_bytes", b"a" * 5, b"") == 1
    assert price(LIBRARY, "add_list", [1] * 100, [2]) == 1
    assert price(LIBRARY, "add_int64", 1, 2) == 1
    assert price(LIBRARY, "add_string", "a" * 15, CelError("x")) == 2


def test_declares_the_overloads_of_the_reference() -> None:
    """The operators have the overloads of the standard library, in its order."""
    found = declared(LIBRARY)

    assert list(found) == ["_+_", "_/_", "_%_", "_*_", "-_", "_-_"]
    assert [line.partition(":")[0] for line in found["_-_"]] == [
        "subtract_double",
        "subtract_duration_duration",
        "subtract_int64",
        "subtract_timestamp_duration",
        "subtract_timestamp_timestamp",
        "subtract_uint64",
    ]
    assert found["-_"] == ["negate_double: (double) -> double", "negate_int64: (int) -> int"]
