"""The writes of a mutation, from the syntax tree of its CEL expression.

What the tree does not tell counts as a write of anything: the answer errs towards too many writes. Sources:
https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/, RFC 6901 and RFC 6902.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from policies.cel.library.kubernetes.jsonpatch import escape_key
from policies.cel.syntax.ast import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
)
from policies.labelwriters.write import ANY, EVERYTHING, Key, Place, Write

MOST_STEPS = 20_000
"""Nodes that are visited at most in one policy: variables that use each other can multiply without limit."""

# Stand in a pointer for a computed key, and for a computed text that may have several keys.
_KEY, _TEXT = "\0", "\1"
_NAMES = frozenset({"variables", "jsonpatch", "optional"})

Writes = Iterator[Write]


class TooLargeError(Exception):
    """An expression that is too large to look through."""


class MutationReader:
    """Reads mutations of one policy. variables: the trees of its variables; None for one that cannot be parsed."""

    def __init__(self, variables: Mapping[str, Node | None]) -> None:
        self._variables = variables
        self._open: set[str] = set()
        self._left = MOST_STEPS

    def configuration(self, tree: Node) -> Writes:
        """The writes of an apply configuration. Raises TooLargeError."""
        return self._value(tree, ())

    def patch(self, tree: Node) -> Writes:
        """The writes of a list of JSON Patch operations. Raises TooLargeError."""
        self._step()
        match tree:
            case ListLiteral():
                for element in tree.elements:
                    yield from self._operation(element)
            case Call(function="_?_:_", args=[_, *both]) | Call(function="_+_", args=both):
                for part in both:
                    yield from self.patch(part)
            case Comprehension(macro="map") if not _hides(tree):
                yield from self._operation(tree.body[-1])
            case Comprehension(macro="filter"):
                yield from self.patch(tree.range)
            case _:
                yield from self._resolved(tree, self.patch, EVERYTHING)

    def _operation(self, tree: Node) -> Writes:
        self._step()
        match tree:
            case StructLiteral(type_name="JSONPatch"):
                yield from self._written({field.name: field.value for field in tree.fields})
            case Call(function="_?_:_", args=[_, *both]):
                for part in both:
                    yield from self._operation(part)
            case _:
                yield from self._resolved(tree, self._operation, EVERYTHING)

    def _written(self, fields: Mapping[str, Node]) -> Writes:
        """The writes of one operation. An unknown one may do anything at its path."""
        op = self._text(fields.get("op"))
        if op == "test":
            return
        place, several = self._pointer(fields.get("path"))
        if op == "move" and "from" in fields:
            yield Write(self._pointer(fields["from"])[0], removes=True)
        if op == "remove":
            yield Write(place, removes=True)
        elif op in ("add", "replace") and not several:
            yield Write(place, removes=True)
            yield from self._value(fields["value"], place) if "value" in fields else (Write(place),)
        else:
            yield Write(place, below=True, removes=True)

    def _value(self, tree: Node, place: Place) -> Writes:
        """The writes of a value at a place."""
        self._step()
        if isinstance(tree, Literal):
            yield Write(place)  # a label of null is an empty one
            if tree.value is None:
                yield Write(place, removes=True)
        elif (alternatives := _alternatives(tree)) is not None:
            for part in alternatives:
                yield from self._value(part, place)
        elif (parts := self._parts(tree)) is not None:
            for part, key in parts:
                yield from self._value(part, (*place, key))
        else:
            unknown = Write(place, below=True, removes=True)
            yield from self._resolved(tree, lambda node: self._value(node, place), unknown)

    def _parts(self, tree: Node) -> list[tuple[Node, Key]] | None:
        """The values in a value, with their keys; None if these are not known."""
        match tree:
            case StructLiteral():
                return [(field.value, Key(field.name)) for field in tree.fields]
            case MapLiteral():
                return [(entry.value, self._key(entry.key)) for entry in tree.entries]
            case ListLiteral():
                return [(element, ANY) for element in tree.elements]
            case Comprehension(macro="map") if not _hides(tree):
                return [(tree.body[-1], ANY)]
            case _:
                return None

    def _resolved(self, tree: Node, read: Callable[[Node], Writes], unknown: Write) -> Writes:
        """The writes of the variable that a node names; those unknown if it is none."""
        with self._variable(tree) as variable:
            if variable is None:
                yield unknown
            else:
                yield from read(variable)

    @contextmanager
    def _variable(self, tree: Node) -> Iterator[Node | None]:
        """The tree of the variable that a node names. None if it is none, or while it is being read: it has no end."""
        name = tree.field if isinstance(tree, Select) and _is_variables(tree.operand) and not tree.test_only else ""
        known = None if name in self._open else self._variables.get(name)
        if known is None:
            yield None
            return
        self._open.add(name)
        try:
            yield known
        finally:
            self._open.discard(name)

    def _key(self, tree: Node) -> Key:
        """The key of an entry."""
        known, computed = _before(self._text(tree), (_KEY, _TEXT))
        return Key(known, whole=not computed)

    def _pointer(self, tree: Node | None) -> tuple[Place, bool]:
        """The place of a JSON Pointer, and whether more may follow that is computed."""
        known, several = _before("" if tree is None else self._text(tree), (_TEXT,))
        # As in the API server, whatever is before the first slash does not count.
        place = [_decoded(part) for part in known.split("/")[1:]]
        if several:
            place[-1:] = [Key(place[-1].text, whole=False)] if place else []
        return tuple(place), several

    def _text(self, tree: Node | None) -> str:
        """A text, with a mark for what is computed in it."""
        self._step()
        match tree:
            case Literal(value=str() as text):
                return text
            case Call(function="_+_", args=[left, right]):
                return self._text(left) + self._text(right)
            case Call(function="escapeKey", target=Ident(name="jsonpatch"), args=[key]):
                return escape_key(self._text(key)).replace(_TEXT, _KEY)
            case None:
                return _TEXT
            case _:
                with self._variable(tree) as variable:
                    return _TEXT if variable is None else self._text(variable)

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooLargeError


def _alternatives(tree: Node) -> list[Node] | None:
    """The values of which one or all together are the value; None if that is not known."""
    match tree:
        case Call(function="_?_:_", args=[_, *values]) | Call(function="_+_", args=values):
            return values
        case Call(function="none", target=Ident(name="optional")):
            return []
        case Call(function="of" | "ofNonZeroValue", target=Ident(name="optional")):
            return tree.args
        case _:
            return None


def _hides(tree: Comprehension) -> bool:
    """Whether a macro's variable hides a name that is read here."""
    return not _NAMES.isdisjoint({tree.variable, tree.variable2})


def _is_variables(tree: Node) -> bool:
    return isinstance(tree, Ident) and tree.name == "variables"


def _before(text: str, marks: tuple[str, ...]) -> tuple[str, bool]:
    """The text before the first mark, and whether there is one."""
    end = min((at for mark in marks if (at := text.find(mark)) >= 0), default=len(text))
    return text[:end], end < len(text)


def _decoded(part: str) -> Key:
    """A key of a JSON Pointer."""
    known, computed = _before(part, (_KEY,))
    return Key(known.replace("~1", "/").replace("~0", "~"), whole=not computed)
