from __future__ import annotations

import pytest
from support.cel.celrun import checked, refused
from support.cel.celtree import show

from policies.cel.syntax.ast import Call, Ident, Literal, children, walk
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Source

SAME = "all elements have to be of one type; wrap each in dyn(...) where they really differ"
DURATION = "type conversion error from 'string' to 'google.protobuf.Duration'"
TIMESTAMP = "type conversion error from 'string' to 'google.protobuf.Timestamp'"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("duration('1x')", 9, "invalid duration argument", DURATION),
        ("[1].all(i, duration('') > duration('1s'))", 20, "invalid duration argument", DURATION),
        ("timestamp('x')", 10, "invalid timestamp argument", TIMESTAMP),
        ("'a'.matches('(')", 12, "invalid matches argument", "error parsing regexp: missing ): ("),
        ("[1, 'a']", 4, "expected type 'int' but found 'string'", SAME),
        ("[1, dyn('a')]", 7, "expected type 'int' but found 'dyn'", SAME),
        ("[object.a, 1]", 11, "expected type 'dyn' but found 'int'", SAME),
        ("[[1], ['a']]", 6, "expected type 'list(int)' but found 'list(string)'", SAME),
        ("[1, ?optional.of('a')]", 16, "expected type 'int' but found 'string'", SAME),
        ("{'a': 1, 'b': 'c'}", 14, "expected type 'int' but found 'string'", SAME),
        ("{1: 'a', 'b': 'c'}", 9, "expected type 'int' but found 'string'", SAME),
        ("{'a': 1, ?'b': optional.of('c')}", 26, "expected type 'int' but found 'string'", SAME),
    ],
)
def test_refused(text: str, place: int, message: str, hint: str) -> None:
    """Literals that cannot be read and literal lists and maps of several types are refused at their place."""
    assert refused(text) == [(place, message, hint)]


@pytest.mark.parametrize(
    "text",
    [
        "duration(object.a)",
        "duration('1h30m')",
        "timestamp('2026-01-01T00:00:00Z')",
        "timestamp(0)",
        "'('.matches(object.a)",
        "[dyn(1), dyn('a')]",
        "[1, ?optional.of(2)]",
        "[[], [1]].size() == 2",
        "{'a': object.a, 'b': object.b}",
        "'%d %s'.format([1, 'a'])",
        "'%s'.format([[1, 'a']])",
        "'%s'.format([{'a': 1, 'b': 'c'}])",
    ],
)
def test_accepted(text: str) -> None:
    """What is not a literal is not read, dyn is of any type, and within `format` lists may be mixed."""
    assert refused(text) == []


def test_each_list_has_one_mismatch_and_each_map_all() -> None:
    """Of a list only the first other element is named, of a map every other key and value."""
    assert [place for place, *_ in refused("[1, 'a', 'b']")] == [4]
    assert [place for place, *_ in refused("{'a': 1, 2: 'b', 3: 'c'}")] == [9, 12, 17, 20]


def test_ill_typed_expressions_are_not_looked_at() -> None:
    """Where types do not fit there is nothing else to say."""
    found = [message for _, message, _ in refused("duration('1x') == duration('1s') && 1 == 'a'")]

    assert found == ["found no matching overload for '_==_' applied to '(int, string)'"]


def test_children_in_order() -> None:
    """The parts of a node are those of the text, from left to right, and `walk` gives parents first."""
    tree = parse(Source("a.f([b, ?c], {d: e}, G{h: i}, j.k)"))
    shown = [show(node) for node in walk(tree) if isinstance(node, Ident)]

    assert shown == ["a", "b", "c", "d", "e", "i", "j"]
    assert next(walk(tree)) is tree
    assert isinstance(tree, Call)
    assert children(tree) == [tree.target, *tree.args]


def test_children_of_macros() -> None:
    """A macro consists of range, start, condition, step and result; a name or literal of nothing."""
    tree = checked("[1].all(x, x > 0)")

    assert [show(child) for child in children(tree)] == [
        "[int:1]",
        "bool:True",
        "@not_strictly_false(@result)",
        "_&&_(@result, _>_(x, int:0))",
        "@result",
    ]
    assert children(Literal(1, position=0, start=0, end=1)) == []
