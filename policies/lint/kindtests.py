"""Finds dead branches for a given kind: in `object.kind == 'Pod' ? a : b` one branch is dead.

Policies for several kinds test the kind before they read fields that only one kind has. A dead branch cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from policies.cel.checking.checker import qualified_name
from policies.cel.checking.validation import children
from policies.cel.syntax.ast import Call, Comprehension, Ident, ListLiteral, Literal, Node, Select
from policies.engine.request import GroupVersionKind

_Scope = Mapping[str, object]
_UNKNOWN = object()


class KindTests:
    """Evaluates tests of the kind.

    variable: returns the tree of `variables.x` by name, or None. fields: the results of `has()`, by its position, for
    fields that the kind does not have or always has.
    """

    def __init__(
        self,
        kind: GroupVersionKind | None,
        variable: Callable[[str], Node | None] = lambda _: None,
        fields: Mapping[int, bool] | None = None,
    ) -> None:
        self._values: Mapping[str, str] = {} if kind is None else _values(kind)
        self._variable = variable
        self._fields = fields or {}

    def decided(self, node: Node, scope: _Scope | None = None) -> bool | None:  # noqa: PLR0911 - a return per operator
        """The value of an expression that is the same for every object of the kind; None for other expressions."""
        known = scope or {}
        value = self._value(node, known)
        if value is not _UNKNOWN:
            return value if isinstance(value, bool) else None
        match node:
            case Call(function="!_"):
                inner = self.decided(node.args[0], known)
                return None if inner is None else not inner
            case Call(function="_&&_" | "_||_"):
                return _joined([self.decided(argument, known) for argument in node.args], all_=node.function == "_&&_")
            case Call(function="_?_:_"):
                condition = self.decided(node.args[0], known)
                return None if condition is None else self.decided(node.args[1 if condition else 2], known)
            case Call(function="_==_" | "_!=_" | "@in"):
                return self._compared(node, known)
            case Comprehension(macro="all" | "exists", variable2=None):
                return self._folded(node, known)
            case _:
                return None

    def live(self, node: Node) -> tuple[Node, ...]:
        """The children of a node that are not dead for the kind."""
        match node:
            case Call(function="_&&_" | "_||_"):
                decisive = node.function == "_||_"
                left, right = node.args
                if self.decided(left) is decisive:
                    return (left,)
                return (right,) if self.decided(right) is decisive else (left, right)
            case Call(function="_?_:_"):
                condition, then, otherwise = node.args
                decided = self.decided(condition)
                return (condition, then, otherwise) if decided is None else (condition, then if decided else otherwise)
            case _:
                return children(node)

    def walk(self, tree: Node) -> Iterator[Node]:
        """All nodes of a tree that are not dead for the kind."""
        pending = [tree]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(self.live(node)))

    def _compared(self, node: Call, scope: _Scope) -> bool | None:
        left, right = node.args
        value = self._value(left, scope)
        if node.function == "@in":
            if value is _UNKNOWN or not isinstance(right, ListLiteral):
                return None
            among = [self._value(element, scope) for element in right.elements]
            return None if _UNKNOWN in among else value in among
        other = self._value(right, scope)
        return None if _UNKNOWN in (value, other) else (value == other) is (node.function == "_==_")

    def _folded(self, node: Comprehension, scope: _Scope) -> bool | None:
        if not isinstance(node.range, ListLiteral):
            return None
        values = [self._value(element, scope) for element in node.range.elements]
        answers = [self.decided(node.body[-1], {**scope, node.variable: value}) for value in values]
        return _joined(answers, all_=node.macro == "all")

    def _value(self, node: Node, scope: _Scope) -> object:
        match node:
            case Literal():
                return node.value
            case Ident():
                return scope.get(node.name, _UNKNOWN)
            case Select(test_only=True):
                return self._fields.get(node.position, _UNKNOWN)
            case Select():
                return self._selected(node, scope)
            case _:
                return _UNKNOWN

    def _selected(self, node: Select, scope: _Scope) -> object:
        name = qualified_name(node) or ""
        if name.partition(".")[0] in scope:
            return _UNKNOWN
        variable = self._variable(node.field) if name == f"variables.{node.field}" else None
        if variable is not None:
            decided = self.decided(variable)
            return _UNKNOWN if decided is None else decided
        return self._values.get(name, _UNKNOWN)


def _values(kind: GroupVersionKind) -> dict[str, str]:
    api_version = f"{kind.group}/{kind.version}".lstrip("/")
    objects = {f"{root}.kind": kind.kind for root in ("object", "oldObject")}
    versions = {f"{root}.apiVersion": api_version for root in ("object", "oldObject")}
    parts = {"kind": kind.kind, "group": kind.group}
    return objects | versions | {f"request.kind.{part}": value for part, value in parts.items()}


def _joined(answers: list[bool | None], *, all_: bool) -> bool | None:
    """The combined result: for `&&` and `all` one False decides, for `||` and `exists` one True."""
    if (not all_) in answers:
        return not all_
    return None if None in answers else all_
