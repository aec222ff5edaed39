"""Random trees of CEL come back from their text."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from policies.cel.syntax.ast import (
    Call,
    Entry,
    FieldValue,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from policies.cel.syntax.formatting import ONE_LINE, formatted, same, unparse
from policies.cel.syntax.parser import parse
from policies.cel.syntax.source import Source
from policies.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_PLACE: Any = {"position": -1, "start": 0, "end": 0}
_names = st.sampled_from(["a", "bc", ".d", "_e1"])
_fields = st.sampled_from(["a", "spec", "return", "x_1"])
_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(INT_MIN, INT_MAX),
    st.integers(0, UINT_MAX).map(Uint),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.sampled_from(["'", '"', "\\", "a'b\"c", "\n\r\t\0", "'''", "//"]),
    st.binary(max_size=3),
)
_BINARY = ["_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in", "_&&_", "_||_"]


def _call(function: str, *args: Node, target: Node | None = None) -> Node:
    return Call(function, target, list(args), **_PLACE)


def _sign(function: str, operand: Node) -> Node:
    """A sign; two equal ones cancel each other out where nothing is between them, which the parser never leaves."""
    return _call(function, operand)


def _nodes(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    entry = st.builds(lambda key, value, optional: Entry(key, value, optional, **_PLACE), inner, inner, st.booleans())
    member = st.builds(
        lambda name, value, optional: FieldValue(name, value, optional, **_PLACE),
        st.sampled_from(["a", "image"]),
        inner,
        st.booleans(),
    )
    few = st.lists(inner, max_size=3)
    return st.one_of(
        st.builds(lambda operand, field: Select(operand, field, **_PLACE), inner, _fields),
        st.builds(_call, st.sampled_from(_BINARY), inner, inner),
        st.builds(_sign, st.sampled_from(["!_", "-_"]), inner),
        st.builds(lambda *parts: _call("_?_:_", *parts), inner, inner, inner),
        st.builds(lambda a, b, optional: _call("_[?_]" if optional else "_[_]", a, b), inner, inner, st.booleans()),
        st.builds(lambda a, field: _call("_?._", a, Literal(field, **_PLACE)), inner, _fields),
        st.builds(lambda name, args: _call(name, *args), st.sampled_from(["f", "has", ".g"]), few),
        st.builds(
            lambda name, target, args: _call(name, *args, target=target),
            st.sampled_from(["f", "all", "map", "orValue"]),
            inner,
            few,
        ),
        st.builds(
            lambda items, marks: ListLiteral(items, frozenset(m for m in marks if m < len(items)), **_PLACE),
            few,
            st.sets(st.integers(0, 2)),
        ),
        st.lists(entry, max_size=2).map(lambda entries: MapLiteral(entries, **_PLACE)),
        st.builds(
            lambda name, fields: StructLiteral(name, fields, **_PLACE),
            st.sampled_from(["Object", "Object.spec", ".JSONPatch"]),
            st.lists(member, max_size=2),
        ),
    )


_leaves = st.one_of(_values.map(lambda value: Literal(value, **_PLACE)), _names.map(lambda name: Ident(name, **_PLACE)))
trees = st.recursive(_leaves, _nodes, max_leaves=12)


@given(trees, st.sampled_from([ONE_LINE, 120, 30, 1]))
def test_a_tree_comes_back_from_its_text(tree: Node, width: int) -> None:
    """The text of a tree is parsed to the same tree, however its lines are broken."""
    text = unparse(tree, width)

    assert same(parse(Source(text), expand=False), tree), text


@given(trees)
def test_formatting_again_changes_nothing(tree: Node) -> None:
    """The format of an expression depends on its tree and the spelling of its literals only."""
    source = Source(unparse(tree).replace("has(", "f(").replace(".all(", ".f(").replace(".map(", ".f("))
    once = formatted(source, 40)

    assert formatted(Source(once), 40) == once
