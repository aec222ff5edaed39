from __future__ import annotations

from typing import Any

import pytest
from support.cel.overloads import Failed, declared, outcome, price

from policies.cel.library.standard.sets import LIBRARY
from policies.cel.values import Uint


def test_declares_the_functions_of_the_reference() -> None:
    """The functions have the overloads of the reference."""
    assert declared(LIBRARY) == {
        "sets.contains": ["list_sets_contains_list: (list(T), list(T)) -> bool"],
        "sets.equivalent": ["list_sets_equivalent_list: (list(T), list(T)) -> bool"],
        "sets.intersects": ["list_sets_intersects_list: (list(T), list(T)) -> bool"],
    }


@pytest.mark.parametrize(
    ("left", "right", "contains", "equivalent", "intersects"),
    [
        ([], [], True, True, False),
        ([1], [], True, False, False),
        ([], [1], False, False, False),
        ([1, 2], [2], True, False, True),
        ([1, 1.0, Uint(2)], [Uint(1), 2.0], True, True, True),
        ([1], [True], False, False, False),
        ([None], [None], True, True, True),
        ([[1], {"a": 1}], [{"a": 1.0}, [Uint(1)]], True, True, True),
        ([float("nan")], [float("nan")], False, False, False),
        (["a", "b"], ["b", "a", "a"], True, True, True),
    ],
)
def test_compares(
    left: list[Any],
    right: list[Any],
    contains: bool,  # noqa: FBT001 - an expected value
    equivalent: bool,  # noqa: FBT001 - an expected value
    intersects: bool,  # noqa: FBT001 - an expected value
) -> None:
    """Lists are compared as sets, by the equality of CEL."""
    found = [
        outcome(LIBRARY, f"list_sets_{name}_list", left, right) for name in ("contains", "equivalent", "intersects")
    ]
    assert found == [contains, equivalent, intersects]


def test_costs() -> None:
    """The price is the product of the sizes, twice for `equivalent`."""
    names = ("contains", "equivalent", "intersects")
    assert [price(LIBRARY, f"list_sets_{name}_list", [1] * 5, [1] * 7) for name in names] == [36, 71, 36]


def test_too_expensive_work_is_not_begun() -> None:
    """What would cost more than an evaluation may ends at once, as it does in the end in the reference."""
    items = list(range(1000))
    expected = Failed("operation cancelled: actual cost limit exceeded")
    assert outcome(LIBRARY, "list_sets_contains_list", items, items) == expected
