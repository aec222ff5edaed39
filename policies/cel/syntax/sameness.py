"""Whether two trees are the same, apart from their positions."""

from __future__ import annotations

from collections.abc import Iterable

from policies.cel.syntax.ast import (
    Call,
    Comprehension,
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

_FIELDS: dict[type[Node], tuple[tuple[str, ...], tuple[str, ...]]] = {
    Literal: ((), ()),
    Ident: (("name",), ()),
    Select: (("field", "test_only"), ("operand",)),
    Call: (("function",), ("target", "args")),
    ListLiteral: (("optional",), ("elements",)),
    MapLiteral: ((), ("entries",)),
    Entry: (("optional",), ("key", "value")),
    StructLiteral: (("type_name",), ("fields",)),
    FieldValue: (("name", "optional"), ("value",)),
    Comprehension: (
        ("variable", "variable2", "accumulator", "macro"),
        ("range", "init", "condition", "step", "result"),
    ),
}
"""The fields of each node that hold plain values, and those that hold nodes."""


def same(left: Node, right: Node) -> bool:
    """Whether two trees are the same. Numbers of different types are different, and so are 0.0 and -0.0."""
    work: list[tuple[Node | None, Node | None]] = [(left, right)]
    while work:
        one, other = work.pop()
        if one is None or other is None or type(one) is not type(other):
            if one is not other:
                return False
            continue
        plain, _ = _FIELDS[type(one)]
        if any(getattr(one, name) != getattr(other, name) for name in plain) or _value(one) != _value(other):
            return False
        ours, theirs = children(one), children(other)
        if len(ours) != len(theirs):
            return False
        work += zip(ours, theirs, strict=True)
    return True


def children(node: Node) -> list[Node | None]:
    """The nodes directly below a node; None for an absent target."""
    below: list[Node | None] = []
    for name in _FIELDS[type(node)][1]:
        value = getattr(node, name)
        below += value if isinstance(value, Iterable) else [value]
    return below


def _value(node: Node) -> tuple[type, str] | None:
    return (type(node.value), repr(node.value)) if isinstance(node, Literal) else None
