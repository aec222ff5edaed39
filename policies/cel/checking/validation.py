"""Kubernetes' checks of a well-typed expression besides its types.

Literal durations, timestamps and patterns must be valid, and the elements of a literal list or map must have the same
type (cel-go's cel/validator.go).
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.cel.checking import formatcheck
from policies.cel.checking.unification import equivalent
from policies.cel.errors import CelError
from policies.cel.library.kubernetes.regex import compile_pattern
from policies.cel.syntax.ast import (
    Call,
    Comprehension,
    Entry,
    FieldValue,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from policies.cel.syntax.source import Issue
from policies.cel.types import Type

_READ = ("duration", "timestamp", "matches")


def children(node: Node) -> tuple[Node, ...]:  # noqa: PLR0911 - one return per kind of node
    """The nodes directly below a node, in the reference's order."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return (*(() if node.target is None else (node.target,)), *node.args)
        case ListLiteral():
            return tuple(node.elements)
        case MapLiteral():
            return tuple(node.entries)
        case StructLiteral():
            return tuple(node.fields)
        case Entry():
            return (node.key, node.value)
        case FieldValue():
            return (node.value,)
        case Comprehension():
            return (node.range, node.init, node.condition, node.step, node.result)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """A node and all nodes below it."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(children(current)))


def issues(tree: Node) -> list[Issue]:
    """The issues of a well-typed tree, in the reference's order."""
    nodes = list(walk(tree))
    exempt = {id(below) for node in nodes if formatcheck.is_format(node) for below in walk(node)}
    problems = [issue for node in nodes for issue in formatcheck.issues(node)]
    problems += [issue for name in _READ for node in nodes for issue in _literal(node, name)]
    for node in nodes:
        if isinstance(node, ListLiteral) and id(node) not in exempt:
            problems += _elements(node)
        elif isinstance(node, MapLiteral) and id(node) not in exempt:
            problems += _entries(node)
    return problems


def _literal(node: Node, name: str) -> Iterator[Issue]:
    if not isinstance(node, Call) or node.function != name or not node.args:
        return
    literal = node.args[0]
    if not isinstance(literal, Literal) or (name == "matches" and not isinstance(literal.value, str)):
        return
    read = compile_pattern if name == "matches" else node.overloads[0].call
    try:
        if read is not None:
            read(literal.value)
    except CelError as error:
        yield Issue(literal.position, f"invalid {name} argument", error.message)


def _elements(node: ListLiteral) -> Iterator[Issue]:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        own = _content(element, optional=index in node.optional)
        if first is None:
            first = own
        elif not equivalent(first, own):
            yield _mismatch(element, first, own)
            return


def _entries(node: MapLiteral) -> Iterator[Issue]:
    if not node.entries:
        return
    key = _content(node.entries[0].key, optional=False)
    value = _content(node.entries[0].value, optional=node.entries[0].optional)
    for entry in node.entries[1:]:
        for part, expected, optional in ((entry.key, key, False), (entry.value, value, entry.optional)):
            own = _content(part, optional=optional)
            if not equivalent(expected, own):
                yield _mismatch(part, expected, own)


def _content(node: Node, *, optional: bool) -> Type:
    type_ = node.type
    assert type_ is not None  # noqa: S101 - the checker has set it
    return type_.parameters[0] if optional and type_.parameters else type_


def _mismatch(node: Node, expected: Type, actual: Type) -> Issue:
    return Issue(
        node.position,
        f"expected type '{expected}' but found '{actual}'",
        "all elements have to be of one type; wrap each in dyn(...) where they really differ",
    )
