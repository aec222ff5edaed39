"""Checks of `'...'.format([...])` with a literal text and a literal list, at compile time.

Source: cel-go's ext/formatting.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.cel.errors import CelError
from policies.cel.library.standard.textformat import letters, unsuitable
from policies.cel.syntax.ast import Call, ListLiteral, Literal, MapLiteral, Node
from policies.cel.syntax.source import Issue
from policies.cel.types import Kind

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


def is_format(node: Node) -> bool:
    """Whether a node is a call of `format`."""
    return isinstance(node, Call) and node.function == "format"


def issues(node: Node) -> Iterator[Issue]:
    """The issues of a call of `format`; none for other nodes."""
    if not isinstance(node, Call) or node.function != "format" or len(node.args) != 1:
        return
    text, arguments = node.target, node.args[0]
    if not isinstance(text, Literal) or not isinstance(text.value, str) or not isinstance(arguments, ListLiteral):
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


def _unfit(letter: str, node: Node) -> Node | None:
    """The part of an argument that a clause cannot format, or None."""
    kind = Kind.DYN if node.type is None else node.type.kind
    if letter != "s":
        return None if kind is Kind.DYN or kind in _SUITABLE[letter] else node
    if kind is not Kind.DYN and kind not in _SHOWN:
        return node
    parts: list[Node] = []
    if isinstance(node, ListLiteral):
        parts = node.elements
    elif isinstance(node, MapLiteral):
        parts = [part for entry in node.entries for part in (entry.key, entry.value)]
    return next((unfit for part in parts if (unfit := _unfit("s", part)) is not None), None)
