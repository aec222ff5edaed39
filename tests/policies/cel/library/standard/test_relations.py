from __future__ import annotations

from typing import Any

import pytest
from support.cel.overloads import Failed, declared, price

from policies.cel.equality import equal
from policies.cel.errors import CelError
from policies.cel.library.kubernetes.quantity import LIBRARY as QUANTITY
from policies.cel.library.standard.relations import (
    LIBRARY,
    different,
    greater,
    greater_or_equal,
    is_in,
    length,
    less,
    less_or_equal,
    opposite,
)
from policies.cel.values import Duration, Timestamp, Uint

NAN = float("nan")
NONE_FITS, UNORDERED = Failed("no such overload"), Failed("NaN values cannot be ordered")


def _tried(function: Any, *values: Any) -> Any:
    try:
        return function(*values)
    except CelError as error:
        return Failed(error.message)


class Picky:
    """A value that cannot be compared."""

    def cel_equal(self, other: Any) -> bool:
        """No."""
        raise CelError(f"no such overload {other}")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(1, 1.0, True), (1, "1", False), (NAN, NAN, False), (None, None, True), ([1], [1.0], True)],
    ids=repr,
)
def test_equality(left: Any, right: Any, expected: bool) -> None:  # noqa: FBT001
    """`!=` is the opposite of `==`."""
    assert (equal(left, right), different(left, right)) == (expected, not expected)


def test_values_that_cannot_be_compared() -> None:
    """They are different, and asking for their equality fails."""
    assert _tried(equal, Picky(), 1) == Failed("no such overload 1")
    assert different(Picky(), 1) is True


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [
        (1, 2, -1),
        (2, 2.0, 0),
        (Uint(3), 2, 1),
        ("b", "a", 1),
        (b"a", b"a", 0),
        (False, True, -1),
        (Duration(1), Duration(2), -1),
        (Timestamp(2), Timestamp(1), 1),
    ],
    ids=repr,
)
def test_order(left: Any, right: Any, order: int) -> None:
    """The four relations agree with the order."""
    found = [relation(left, right) for relation in (less, less_or_equal, greater, greater_or_equal)]

    assert found == [order < 0, order <= 0, order > 0, order >= 0]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, "a", NONE_FITS),
        ("a", 1, NONE_FITS),
        (1, True, NONE_FITS),
        (NAN, 1, UNORDERED),
        (1.0, NAN, UNORDERED),
        (None, 1, Failed("no such overload: _<_")),
        ([1], [2], Failed("no such overload: _<_")),
        ({}, {}, Failed("no such overload: _<_")),
    ],
    ids=repr,
)
def test_without_order(left: Any, right: Any, expected: Failed) -> None:
    """What has no order names the operator where the left side has none at all."""
    assert _tried(less, left, right) == expected
    assert _tried(greater_or_equal, left, right) == Failed(expected.message.replace("_<_", "_>=_"))


@pytest.mark.parametrize(
    ("item", "container", "expected"),
    [
        (1, [1, 2], True),
        (1, [1.0], True),
        (True, [1], False),
        ("a", {"a": None}, True),
        (1.0, {1: "a"}, True),
        ("b", {"a": 1}, False),
        ("a", "abc", NONE_FITS),
        (1, None, NONE_FITS),
        (1, 1, NONE_FITS),
    ],
    ids=repr,
)
def test_membership(item: Any, container: Any, expected: object) -> None:
    """`in` looks into lists and at the keys of maps, and into nothing else."""
    assert _tried(is_in, item, container) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("aé\U0001f600", 3),
        (b"\xc3\xa9", 2),
        ([1, 2], 2),
        ({"a": 1}, 1),
        ("", 0),
        (Duration(1), NONE_FITS),
        (Timestamp(1), NONE_FITS),
        (1, Failed("no such overload: size")),
        (None, Failed("no such overload: size")),
    ],
    ids=repr,
)
def test_size(value: Any, expected: object) -> None:
    """The size of a text is in code points, that of bytes in bytes."""
    assert _tried(length, value) == expected


@pytest.mark.parametrize(("value", "expected"), [(True, False), (False, True), (0, NONE_FITS), (None, NONE_FITS)])
def test_not(value: Any, expected: object) -> None:
    """Only bools have an opposite."""
    assert _tried(opposite, value) == expected


def test_costs() -> None:
    """Comparisons pass over the smaller side, `in` over the list; quantities are compared at 1."""
    parse = QUANTITY.functions[0].overloads[0].call
    assert parse is not None
    quantity = parse("1Gi")

    assert price(LIBRARY, "equals", "a" * 95, "b" * 41) == 5
    assert price(LIBRARY, "not_equals", [1] * 30, [1] * 12) == 2
    assert price(LIBRARY, "equals", "", "a") == 0
    assert price(LIBRARY, "equals", 5, "a" * 100) == 1
    assert price(LIBRARY, "equals", quantity, quantity) == 1
    assert price(LIBRARY, "less_string", "a" * 95, "b" * 41) == 5
    assert price(LIBRARY, "less_int64", 1, 2) == 1
    assert price(LIBRARY, "in_list", 1, list(range(30))) == 30
    assert price(LIBRARY, "in_map", 1, {1: 2}) == 1
    assert price(LIBRARY, "size_string", "a" * 100) == 1


def test_declares_the_overloads_of_the_reference() -> None:
    """Comparisons are declared for each pair of numbers, in the reference's order."""
    found = declared(LIBRARY)

    assert [line.partition(":")[0] for line in found["_<_"]] == [
        "less_bool",
        "less_int64",
        "less_int64_double",
        "less_int64_uint64",
        "less_uint64",
        "less_uint64_double",
        "less_uint64_int64",
        "less_double",
        "less_double_int64",
        "less_double_uint64",
        "less_string",
        "less_bytes",
        "less_timestamp",
        "less_duration",
    ]
    assert found["@in"] == ["in_list: (A, list(A)) -> bool", "in_map: (A, map(A, B)) -> bool"]
