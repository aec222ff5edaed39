from __future__ import annotations

from typing import Any

import pytest
from support.cel.overloads import Failed, declared, outcome, price

from policies.cel.errors import CelError
from policies.cel.library.standard.lists import LIBRARY
from policies.cel.values import Duration, Timestamp, Uint

NAN = float("nan")
TOO_EXPENSIVE = Failed("operation cancelled: actual cost limit exceeded")
ELEMENTS = [
    "int",
    "uint",
    "double",
    "bool",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "string",
    "bytes",
]


def test_declares_the_functions_of_the_reference() -> None:
    """The functions have the overloads of the reference; `flatten` looks at the types of its arguments itself."""
    assert declared(LIBRARY) == {
        "slice": ["list_slice: list(T).(int, int) -> list(T) stepwise"],
        "flatten": [
            "list_flatten: list(list(T)).() -> list(T)",
            "list_flatten_int: list(dyn).(int) -> list(dyn)",
        ],
        "sort": [f"list_{each}_sort: list({each}).() -> list({each})" for each in ELEMENTS],
        "@sortByAssociatedKeys": [
            f"list_{each}_sortByAssociatedKeys: list(T).(list({each})) -> list(T)" for each in ELEMENTS
        ],
        "lists.range": ["lists_range: (int) -> list(int)"],
        "reverse": ["list_reverse: list(T).() -> list(T)"],
        "distinct": ["list_distinct: list(T).() -> list(T)"],
    }
    assert [function.name for function in LIBRARY.functions if not function.guarded] == ["flatten"]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (1, 1, []),
        (0, 2, [1, 2]),
        (3, 3, []),
        (-1, 1, Failed("cannot slice(-1, 1), negative indexes not supported")),
        (2, 1, Failed("cannot slice(2, 1), start index must be less than or equal to end index")),
        (0, 4, Failed("cannot slice(0, 4), list is length 3")),
    ],
)
def test_slice(start: int, end: int, expected: object) -> None:
    """A slice has to lie within the list."""
    assert outcome(LIBRARY, "list_slice", [1, 2, 3], start, end) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (([[1, [2]], 3],), [1, [2], 3]),
        (([],), []),
        (([[1, [2, [3]]]], 0), [[1, [2, [3]]]]),
        (([[1, [2, [3]]]], 2), [1, 2, [3]]),
        (([[1, [2, [3]]]], 9_223_372_036_854_775_807), [1, 2, 3]),
        (([1], -1), Failed("level must be non-negative")),
        (("a",), Failed("no such overload: string.flatten()")),
        ((None,), Failed("no such overload: null_type.flatten()")),
        ((Duration(1),), Failed("no such overload: google.protobuf.Duration.flatten()")),
        (({"a": 1},), Failed("no such overload: map(dyn, dyn).flatten()")),
        ((1, 1), Failed("no such overload: int.flatten(int)")),
    ],
)
def test_flatten(arguments: tuple[Any, ...], expected: object) -> None:
    """Lists are flattened by one level or by as many as given."""
    overload = "list_flatten" if len(arguments) == 1 else "list_flatten_int"
    assert outcome(LIBRARY, overload, *arguments) == expected


def test_flatten_does_not_grow_without_bounds() -> None:
    """A list that holds the same list many times over is not written out when it gets too long."""
    thousand = [1] * 1000
    assert outcome(LIBRARY, "list_flatten_int", [[thousand] * 1000] * 1000, 2) == TOO_EXPENSIVE


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], []),
        ([2, 3, 1], [1, 2, 3]),
        (["b", "a", "\U0001f600", "\uffff"], ["a", "b", "\uffff", "\U0001f600"]),
        ([b"b", b"a"], [b"a", b"b"]),
        ([True, False], [False, True]),
        ([Duration(2), Duration(1)], [Duration(1), Duration(2)]),
        ([Timestamp(2), Timestamp(1)], [Timestamp(1), Timestamp(2)]),
        ([2], [2]),
        ([2, "x"], Failed("list elements must have the same type")),
        ([2, Uint(1)], Failed("list elements must have the same type")),
        ([None, 1], Failed("list elements must be comparable")),
        ([[1]], Failed("list elements must be comparable")),
        (1, Failed("no such overload: sort")),
    ],
)
def test_sort(items: object, expected: object) -> None:
    """Elements of one type that has an order are sorted."""
    assert outcome(LIBRARY, "list_int_sort", items) == expected


def test_sort_leaves_nan_where_it_is() -> None:
    """NaN is neither smaller nor larger than what is beside it."""
    assert list(map(repr, outcome(LIBRARY, "list_double_sort", [1.0, NAN, 0.5]))) == ["1.0", "nan", "0.5"]


def test_sort_by_keys() -> None:
    """A list is put into the order of its keys, of which there have to be as many."""
    overload = "list_int_sortByAssociatedKeys"
    assert outcome(LIBRARY, overload, ["a", "b", "c"], [3, 1, 2]) == ["b", "c", "a"]
    assert outcome(LIBRARY, overload, list(range(12)), [0, 1] * 6) == [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]
    assert outcome(LIBRARY, overload, [1], [1, 2]) == Failed(
        "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
        "but got 1 and 2 elements respectively"
    )


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (3, [0, 1, 2]),
        (0, []),
        (-1, Failed("lists.range: size must be non-negative, got -1")),
        (1_000_000, TOO_EXPENSIVE),
        (1_000_001, Failed("lists.range: size 1000001 exceeds maximum allowed (1000000)")),
    ],
)
def test_range(count: int, expected: object) -> None:
    """A range counts from 0; one that costs more than an evaluation may is not made at all."""
    assert outcome(LIBRARY, "lists_range", count) == expected


def test_reverse() -> None:
    """The elements come in the opposite order."""
    assert outcome(LIBRARY, "list_reverse", [1, "a", None]) == [None, "a", 1]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], []),
        ([1, 2, 2, 1], [1, 2]),
        (["b", "b", "a", "b"], ["b", "a"]),
        ([1, 1.0, Uint(1), True, "1"], [1, True, "1"]),
        ([[1], [1.0], {"a": 1}, {"a": 1}], [[1], {"a": 1}]),
        ([0] * 1000, TOO_EXPENSIVE),
    ],
)
def test_distinct(items: list[Any], expected: object) -> None:
    """The first of equal elements stays; a list too long to compare each with each is refused at once."""
    assert outcome(LIBRARY, "list_distinct", items) == expected


@pytest.mark.parametrize(
    ("id", "arguments", "result", "expected"),
    [
        ("lists_range", (10,), list(range(10)), 21),
        ("lists_range", ("x",), CelError("no such overload"), 12),
        ("list_slice", ([1, 2, 3], 1, 1), [], 11),
        ("list_reverse", ([1, 2],), [2, 1], 13),
        ("list_flatten", ([[1, 2], [3]],), [1, 2, 3], 13),
        ("list_flatten_int", ([[1], [2]], 100_000), [1, 2], 200_011),
        ("list_flatten_int", ([[1], [2]], 0), [[1], [2]], 11),
        ("list_flatten_int", ([[1], [2]], -1), CelError("level must be non-negative"), 13),
        ("list_distinct", ([2, 1],), [2, 1], 19),
        ("list_distinct", ([],), [], 11),
        ("list_string_sort", (["b", "a"],), ["a", "b"], 19),
        ("list_int_sort", ([3, 2, 1],), [1, 2, 3], 29),
        ("list_string_sort", (["a"] * 10,), ["a"] * 10, 221),
        ("list_string_sortByAssociatedKeys", ([1] * 10, ["a"] * 10), [1] * 10, 221),
    ],
)
def test_costs(id: str, arguments: tuple[Any, ...], result: object, expected: int) -> None:
    """A list costs its size to make, the levels to flatten, and each pair of elements to compare."""
    assert price(LIBRARY, id, *arguments, result=result) == expected
