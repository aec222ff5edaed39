from __future__ import annotations

import pytest
from support.cel.celrun import checked, refused

from policies.cel.checking.formatcheck import is_format
from policies.cel.syntax.ast import Node

WRONG = "error during formatting: "


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("'%d'.format(['a'])", 13, f"{WRONG}decimal clause can only be used on integers, was given string"),
        ("'%s %s'.format(['a'])", 14, "index 1 out of range"),
        ("'%z'.format([1])", 11, 'could not parse formatting clause: unrecognized formatting clause "z"'),
        ("'%d'.format([1, 2])", 11, "too many arguments supplied to string.format (expected 1, got 2)"),
        ("'x'.format(['a'])", 10, "too many arguments supplied to string.format (expected 0, got 1)"),
    ],
)
def test_refused(text: str, place: int, message: str) -> None:
    """A clause and its argument have to fit, as many of one as of the other, and clauses have to be known."""
    assert refused(text) == [(place, message, "")]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("'%f'.format([1])", 13),
        ("'%e'.format([true])", 13),
        ("'%b'.format(['a'])", 13),
        ("'%x'.format([1.0])", 13),
        ("'%o'.format([true])", 13),
        ("'%s'.format([optional.of(1)])", 24),
        ("'%s'.format([[optional.of(1)]])", 25),
        ("'%s'.format([{'a': optional.of(1)}])", 30),
        ("'%s %d'.format(['a', 'b'])", 21),
    ],
)
def test_unfit_arguments(text: str, place: int) -> None:
    """The argument that does not fit is named, deep in lists and maps too."""
    assert [(found, message.startswith(WRONG)) for found, message, _ in refused(text)] == [(place, True)]


@pytest.mark.parametrize(
    "text",
    [
        "'%d %o %b %x %X'.format([1, 2u, true, 'a', b'b'])",
        "'%f %.3e'.format([1.0, 'NaN'])",
        "'%s'.format([null])",
        "'%s'.format([object])",
        "'%d'.format([object.a])",
        "'%%'.format([])",
        "object.text.format([1])",
        "'%d'.format(object.list)",
    ],
)
def test_accepted(text: str) -> None:
    """Arguments that fit, those of dyn, and texts or lists that are no literals are left to the evaluation."""
    assert refused(text) == []


def test_calls_of_format() -> None:
    """Only calls of `format` are formats."""
    formats: list[Node] = [checked("'%d'.format([1])"), checked("'a'.size()"), checked("1")]

    assert list(map(is_format, formats)) == [True, False, False]
