"""Literals that Kubernetes looks at when an expression is compiled."""

from __future__ import annotations

import pytest
from support.cel.celrun import refused

SAME = "all elements have to be of one type; wrap each in dyn(...) where they really differ"
DURATION = "type conversion error from 'string' to 'google.protobuf.Duration'"
TIMESTAMP = "type conversion error from 'string' to 'google.protobuf.Timestamp'"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("[1].all(i, duration('') > duration('1s'))", 20, "invalid duration argument", DURATION),
        ("timestamp('x')", 10, "invalid timestamp argument", TIMESTAMP),
        ("'a'.matches('(')", 12, "invalid matches argument", "error parsing regexp: missing ): ("),
        ("[1, 'a', 'b']", 4, "expected type 'int' but found 'string'", SAME),
        ("[object.a, 1]", 11, "expected type 'dyn' but found 'int'", SAME),
        ("[1, ?optional.of('a')]", 16, "expected type 'int' but found 'string'", SAME),
        ("{1: 'a', 'b': 'c'}", 9, "expected type 'int' but found 'string'", SAME),
        ("{'a': 1, ?'b': optional.of('c')}", 26, "expected type 'int' but found 'string'", SAME),
    ],
)
def test_refused(text: str, place: int, message: str, hint: str) -> None:
    """Literals that cannot be read, and literal lists and maps of several types, are refused at their place."""
    assert refused(text) == [(place, message, hint)]


@pytest.mark.parametrize(
    "text",
    [
        "duration(object.a)",
        "'('.matches(object.a)",
        "[dyn(1), dyn('a')]",
        "[1, ?optional.of(2)]",
        "[[], [1]].size() == 2",
        "'%s'.format([[1, 'a']])",
        "'%s'.format([{'a': 1, 'b': 'c'}])",
    ],
)
def test_accepted(text: str) -> None:
    """What is not a literal is not read, dyn is of any type, and within `format` lists may be mixed."""
    assert refused(text) == []


def test_of_a_map_every_mismatch_is_shown() -> None:
    """Every key and value of another type is named, unless there are type errors."""
    assert [place for place, *_ in refused("{'a': 1, 2: 'b', 3: 'c'}")] == [9, 12, 17, 20]
    assert [place for place, *_ in refused("duration('1x') == duration('1s') && 1 == 'a'")] == [38]
