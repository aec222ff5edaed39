"""Kubernetes' checks of a well-typed expression besides its types, such as those of literal formats and patterns."""

from __future__ import annotations

from collections.abc import Iterator

from policies.cel.errors import CelError
from policies.cel.library.regex import compile_pattern
from policies.cel.library.strings import letters, unsuitable
from policies.cel.syntax import ast
from policies.cel.syntax.source import Issue
from policies.cel.types import Kind, Type, equivalent

_WHOLE = {Kind.INT, Kind.UINT}
_SUITABLE = {
    "d": _WHOLE,
    "o": _WHOLE,
    "b": _WHOLE | {Kind.BOOL},
    "f": {Kind.DOUBLE, Kind.STRING},
    "e": {Kind.DOUBLE, Kind.STRING},
    "x": _WHOLE | {Kind.STRING, Kind.BYTES},
    "X": _WHOLE | {Kind.STRING, Kind.BYTES},
}
_SHOWN = _WHOLE | {
    Kind.LIST, Kind.MAP, Kind.DOUBLE, Kind.BOOL, Kind.STRING, Kind.TIMESTAMP, Kind.BYTES, Kind.DURATION, Kind.TYPE,
    Kind.NULL,
}  # fmt: skip


def is_format(node: ast.Node) -> bool:
    """Whether a node is a call of `format`."""
    return isinstance(node, ast.Call) and node.function == "format"


def format_issues(node: ast.Node) -> Iterator[Issue]:
    """The issues of a call of `format`; none for other nodes."""
    if not isinstance(node, ast.Call) or node.function != "format" or len(node.args) != 1:
        return
    text, arguments = node.target, node.args[0]
    if (
        not isinstance(text, ast.Literal)
        or not isinstance(text.value, str)
        or not isinstance(arguments, ast.ListLiteral)
    ):
        return
    count = 0
    try:
        for letter in letters(text.value, len(arguments.elements)):
            unfit = _unfit(letter, arguments.elements[count])
            if unfit is not None:
                yield Issue(unfit.position, unsuitable(letter, unfit.type.name if unfit.type is not None else ""))
                return
            count += 1
    except CelError as error:
        yield Issue(node.position, error.message)
        return
    if len(arguments.elements) > count:
        given = len(arguments.elements)
        message = f"too many arguments supplied to string.format (expected {count}, got {given})"
        yield Issue(node.position, message)


def _unfit(letter: str, node: ast.Node) -> ast.Node | None:
    """The part of an argument that a clause cannot format, or None."""
    kind = Kind.DYN if node.type is None else node.type.kind
    if letter != "s":
        return None if kind is Kind.DYN or kind in _SUITABLE[letter] else node
    if kind is not Kind.DYN and kind not in _SHOWN:
        return node
    parts: list[ast.Node] = []
    if isinstance(node, ast.ListLiteral):
        parts = node.elements
    elif isinstance(node, ast.MapLiteral):
        parts = [part for entry in node.entries for part in (entry.key, entry.value)]
    return next((unfit for part in parts if (unfit := _unfit("s", part)) is not None), None)


_READ = ("duration", "timestamp", "matches")


def issues(tree: ast.Node) -> list[Issue]:
    """The issues of a well-typed tree, in the reference's order."""
    nodes = list(ast.walk(tree))
    exempt = {id(below) for node in nodes if is_format(node) for below in ast.walk(node)}
    problems = [issue for node in nodes for issue in format_issues(node)]
    problems += [issue for name in _READ for node in nodes for issue in _literal(node, name)]
    for node in nodes:
        if isinstance(node, ast.ListLiteral) and id(node) not in exempt:
            problems += _elements(node)
        elif isinstance(node, ast.MapLiteral) and id(node) not in exempt:
            problems += _entries(node)
    return problems


def _literal(node: ast.Node, name: str) -> Iterator[Issue]:
    if not isinstance(node, ast.Call) or node.function != name or not node.args:
        return
    literal = node.args[0]
    if not isinstance(literal, ast.Literal) or (name == "matches" and not isinstance(literal.value, str)):
        return
    read = compile_pattern if name == "matches" else node.overloads[0].call
    try:
        if read is not None:
            read(literal.value)
    except CelError as error:
        yield Issue(literal.position, f"invalid {name} argument", error.message)


def _elements(node: ast.ListLiteral) -> Iterator[Issue]:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        own = _content(element, optional=index in node.optional)
        if first is None:
            first = own
        elif not equivalent(first, own):
            yield _mismatch(element, first, own)
            return


def _entries(node: ast.MapLiteral) -> Iterator[Issue]:
    if not node.entries:
        return
    key = _content(node.entries[0].key, optional=False)
    value = _content(node.entries[0].value, optional=node.entries[0].optional)
    for entry in node.entries[1:]:
        for part, expected, optional in ((entry.key, key, False), (entry.value, value, entry.optional)):
            own = _content(part, optional=optional)
            if not equivalent(expected, own):
                yield _mismatch(part, expected, own)


def _content(node: ast.Node, *, optional: bool) -> Type:
    type_ = node.type
    assert type_ is not None  # noqa: S101 - the checker has set it
    return type_.parameters[0] if optional and type_.parameters else type_


def _mismatch(node: ast.Node, expected: Type, actual: Type) -> Issue:
    return Issue(
        node.position,
        f"expected type '{expected}' but found '{actual}'",
        "all elements have to be of one type; wrap each in dyn(...) where they really differ",
    )
