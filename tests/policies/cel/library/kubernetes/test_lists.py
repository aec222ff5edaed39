from __future__ import annotations

from typing import Any

import pytest
from support.cel.overloads import Failed, declared, outcome, price

from policies.cel.library.kubernetes.lists import LIBRARY
from policies.cel.values import INT_MAX, UINT_MAX, Duration, Timestamp, Uint

NAN = float("nan")
NO_OVERLOAD = Failed("no such overload")


def test_declares_the_functions_of_the_reference() -> None:
    """The functions have the overloads of the reference, one for each type of elements, in its order."""
    found = declared(LIBRARY)
    assert list(found) == ["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"]
    assert found["sum"] == [
        "list_int_sum_int: list(int).() -> int",
        "list_uint_sum_uint: list(uint).() -> uint",
        "list_double_sum_double: list(double).() -> double",
        "list_duration_sum_duration: list(google.protobuf.Duration).() -> google.protobuf.Duration",
    ]
    elements = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]
    assert [line.partition(":")[0] for line in found["isSorted"]] == [
        f"list_{each}_is_sorted_bool" for each in elements
    ]
    assert [line.partition(":")[0] for line in found["max"]] == [f"list_{each}_max_{each}" for each in elements]
    assert [line.partition(":")[0] for line in found["min"]] == [f"list_{each}_min_{each}" for each in elements]
    assert found["indexOf"] == ["list_a_index_of_int: list(A).(A) -> int"]
    assert found["lastIndexOf"] == ["list_a_last_index_of_int: list(A).(A) -> int"]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], True),
        ([1, 2, 2], True),
        ([1, 3, 2], False),
        (["a", "b"], True),
        ([1.0, NAN, 0.5], True),
        ([True, False], False),
        ([Duration(2), Duration(1)], False),
        ([Timestamp(1), Timestamp(2)], True),
        ([1, "x", 0], True),
        ([2, 1.0], False),
        ([1, None], NO_OVERLOAD),
        ([2, 1, None], False),
        ([[1]], NO_OVERLOAD),
    ],
)
def test_is_sorted(items: list[Any], expected: object) -> None:
    """A list is sorted unless an element is greater than the next; values of different types have no order."""
    assert outcome(LIBRARY, "list_int_is_sorted_bool", items) == expected


@pytest.mark.parametrize(
    ("element", "items", "expected"),
    [
        ("int", [1, 2, 3], 6),
        ("int", [], 0),
        ("int", [INT_MAX, 1], Failed("integer overflow")),
        ("int", [INT_MAX, 1, "x"], Failed("integer overflow")),
        ("int", [1, 2.0], NO_OVERLOAD),
        ("int", [True], NO_OVERLOAD),
        ("uint", [Uint(1), Uint(2)], Uint(3)),
        ("uint", [Uint(UINT_MAX), Uint(1)], Failed("unsigned integer overflow")),
        ("double", [1.5, 2.0], 3.5),
        ("double", [0.1] * 10, 0.9999999999999999),
        ("double", [1.0, 2], NO_OVERLOAD),
        ("duration", [Duration(1), Duration(2)], Duration(3)),
        ("duration", [Duration(INT_MAX), Duration(1)], Failed("integer overflow")),
        ("duration", [Duration(1), 2], NO_OVERLOAD),
    ],
)
def test_sum(element: str, items: list[Any], expected: object) -> None:
    """Sums are of one type, that of the overload, and within its bounds at each step."""
    found = outcome(LIBRARY, f"list_{element}_sum_{element}", items)
    assert (found.__class__, found) == (expected.__class__, expected)


@pytest.mark.parametrize(
    ("items", "smallest", "largest"),
    [
        ([], Failed("min called on empty list"), Failed("max called on empty list")),
        ([2, 1, 3], 1, 3),
        (["b", "a"], "a", "b"),
        ([b"b", b"a"], b"a", b"b"),
        ([1.0, NAN, 2.0], 1.0, 2.0),
        ([True, False], False, True),
        ([Duration(2), Duration(1)], Duration(1), Duration(2)),
        ([Timestamp(2), Timestamp(1)], Timestamp(1), Timestamp(2)),
        ([1, 2.0, Uint(2)], 1, 2.0),
        ([1, "a"], 1, 1),
        ([1, None], NO_OVERLOAD, NO_OVERLOAD),
    ],
)
def test_smallest_and_largest(items: list[Any], smallest: object, largest: object) -> None:
    """The first of equal elements wins, and one that cannot be compared with the first never does."""
    found = [outcome(LIBRARY, "list_int_min_int", items), outcome(LIBRARY, "list_int_max_int", items)]
    assert [(each.__class__, each) for each in found] == [(each.__class__, each) for each in (smallest, largest)]


def test_a_first_nan_stays() -> None:
    """Nothing is smaller or larger than NaN, so that it is both where it comes first."""
    found = [outcome(LIBRARY, f"list_double_{name}_double", [NAN, 1.0]) for name in ("min", "max")]
    assert list(map(repr, found)) == ["nan", "nan"]


@pytest.mark.parametrize(
    ("items", "item", "first", "last"),
    [
        ([1, 2, 1], 1, 0, 2),
        ([1, 2, 1], 5, -1, -1),
        ([1, 2.0, Uint(1)], 1, 0, 2),
        ([1, 2.0], Uint(2), 1, 1),
        ([True], 1, -1, -1),
        ([[1], {"a": None}], {"a": None}, 1, 1),
        ([], None, -1, -1),
    ],
)
def test_positions(items: list[Any], item: object, first: int, last: int) -> None:
    """Elements are found by the equality of CEL, from the start or from the end."""
    found = [outcome(LIBRARY, f"list_a_{name}_of_int", items, item) for name in ("index", "last_index")]
    assert found == [first, last]


def test_costs() -> None:
    """Each function costs one pass over the list and all in it, with texts at a tenth of their bytes."""
    assert price(LIBRARY, "list_int_sum_int", [1, 2, 3]) == 3
    assert price(LIBRARY, "list_string_min_string", ["a" * 25, "b"]) == 2
