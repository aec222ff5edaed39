from __future__ import annotations

from typing import Any

import pytest
from support.cel.overloads import Failed, declared, outcome, price

from policies.cel.library.standard.optional import LIBRARY
from policies.cel.values import ABSENT, NONE, Duration, Optional, Timestamp, Uint


def _content(value: Any) -> Any:
    """What an optional holds in a list of one, or nothing in an empty one."""
    assert isinstance(value, Optional)
    return [] if value.value is ABSENT else [value.value]


@pytest.mark.parametrize("value", [1, None, [], "", NONE], ids=repr)
def test_of(value: Any) -> None:
    """`optional.of` holds whatever it is given, null too."""
    assert _content(outcome(LIBRARY, "optional_of", value)) == [value]


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (None, False),
        (False, False),
        (True, True),
        (0, False),
        (1, True),
        (Uint(0), False),
        (0.0, False),
        (-0.0, False),
        (float("nan"), True),
        ("", False),
        ("0", True),
        (b"", False),
        ([], False),
        ([None], True),
        ({}, False),
        ({"": None}, True),
        (Duration(0), False),
        (Duration(1), True),
        (Timestamp(0), True),
        (Timestamp(-62135596800 * 1_000_000_000), False),
    ],
    ids=repr,
)
def test_of_non_zero(value: Any, held: bool) -> None:  # noqa: FBT001
    """`optional.ofNonZeroValue` holds nothing for the zero of each type; that of timestamps is in the year 1."""
    found = outcome(LIBRARY, "optional_ofNonZeroValue", value)

    assert (found.value is value) is held
    assert (found.value is ABSENT) is not held


def test_none_and_value() -> None:
    """What holds nothing has no value; what holds null has one."""
    none = outcome(LIBRARY, "optional_none")

    assert outcome(LIBRARY, "optional_value", none) == Failed("optional.none() dereference")
    assert [outcome(LIBRARY, "optional_hasValue", each) for each in (none, Optional(None))] == [False, True]
    assert outcome(LIBRARY, "optional_value", Optional(None)) is None


@pytest.mark.parametrize(
    ("items", "first", "last"),
    [([], [], []), ([1], [1], [1]), ([1, 2, 3], [1], [3]), ([None, 1], [None], [1])],
)
def test_ends_of_lists(items: list[Any], first: list[Any], last: list[Any]) -> None:
    """The first and the last element, if there is one."""
    assert _content(outcome(LIBRARY, "list_first", items)) == first
    assert _content(outcome(LIBRARY, "list_last", items)) == last


@pytest.mark.parametrize("id", ["optional_unwrap", "optional_unwrapOpt"])
def test_unwrap(id: str) -> None:
    """Of a list of optionals the values remain; an element that is none is a failure."""
    assert outcome(LIBRARY, id, [Optional(1), NONE, Optional(None)]) == [1, None]
    assert outcome(LIBRARY, id, []) == []
    assert outcome(LIBRARY, id, [Optional(1), 2]) == Failed("value 2 is not optional")


def test_costs() -> None:
    """Each function costs 1."""
    assert price(LIBRARY, "optional_of", "a" * 1000) == 1
    assert price(LIBRARY, "optional_unwrap", [NONE] * 100) == 1


def test_declares_the_overloads_of_the_reference() -> None:
    """Selections, indices and their optional forms have the overloads of the reference."""
    found = {name: [line.partition(":")[0] for line in lines] for name, lines in declared(LIBRARY).items()}

    assert found["_[?_]"] == [
        "list_optindex_optional_int",
        "optional_list_optindex_optional_int",
        "map_optindex_optional_value",
        "optional_map_optindex_optional_value",
    ]
    assert found["_?._"] == ["select_optional_field"]
    assert declared(LIBRARY)["orValue"] == ["optional_orValue_value: optional_type(V).(V) -> V"]
    assert LIBRARY.types["optional_type"].name == "optional_type"
