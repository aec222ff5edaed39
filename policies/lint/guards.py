"""What the tests in expressions imply: branches that are dead for a kind, and places that are present."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from policies.cel.checker import qualified_name
from policies.cel.syntax import ast
from policies.cel.syntax.ast import Call, Comprehension, Ident, ListLiteral, Literal, Node, Select, children, walk
from policies.cel.syntax.source import CompileError
from policies.cel.types import Kind
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
        self._decided: dict[str, bool | None] = {}  # of variables, which may read others again and again

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
                return tuple(children(node))

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
            if node.field not in self._decided:
                self._decided[node.field] = self.decided(variable)
            decided = self._decided[node.field]
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


Facts = frozenset[str]
Scope = Mapping[str, str]
"""The variables of the macros around a node, with the keys of their values."""

ROOTS = ("object", "oldObject")
NOTHING: Facts = frozenset()
_NEVER: Facts = frozenset({"*"})  # the facts of an impossible case, from which everything follows
_LONGEST_KEY = 1_000
_SELECTIONS = ("_[_]", "_[?_]", "_?._")


class Guards:
    """Finds the facts that tests in one policy's expressions imply. `variables` are the trees of its variables."""

    def __init__(self, variables: Mapping[str, Node | CompileError]) -> None:
        self._variables = variables
        self._facts: dict[tuple[int, frozenset[tuple[str, str]]], Facts] = {}
        # Of variables by the ids of their trees. They may read others again and again.
        self._keys: dict[int, str] = {}
        self._implied: dict[tuple[int, bool], Facts] = {}

    def variable(self, node: Node, scope: Scope) -> Node | None:
        """The tree of `variables.x`; None for any other node, and if there is no such tree."""
        tree = None if "variables" in scope else self._variables.get(ast.variable(node) or "")
        return None if isinstance(tree, CompileError) else tree

    def key(self, node: Node, scope: Scope) -> str:
        """A string that identifies the place or the computation of a node."""
        tree = self.variable(node, scope)
        if tree is not None:
            if id(tree) not in self._keys:
                key = self.key(tree, {})
                self._keys[id(tree)] = key if len(key) <= _LONGEST_KEY else f"#{id(tree)}"
            return self._keys[id(tree)]
        match node:
            case Ident():
                return scope.get(node.name, node.name)
            case Select():
                return f"{self.key(node.operand, scope)}.{node.field}"
            case Call() if node.function in _SELECTIONS:
                return self.below(node.args[0], node.args[1], scope)
            case Call():
                return f"{node.function}({', '.join(self.key(argument, scope) for argument in node.arguments)})"
            case _:
                return repr(node.value) if isinstance(node, Literal) else f"#{id(node)}"

    def below(self, operand: Node, index: Node, scope: Scope) -> str:
        """The key of an element that an index or a map key selects."""
        if isinstance(index, Literal) and isinstance(index.value, str):
            return f"{self.key(operand, scope)}.{index.value}"
        return f"{self.key(operand, scope)}[{self.key(index, scope)}]"

    def implied(self, node: Node, scope: Scope, *, truth: bool) -> Facts:  # noqa: PLR0911 - one return per form of test
        """The facts that hold if an expression is true, or false."""
        tree = self.variable(node, scope)
        if tree is not None:
            if (id(tree), truth) not in self._implied:
                self._implied[id(tree), truth] = self.implied(tree, {}, truth=truth)
            return self._implied[id(tree), truth]
        match node:
            case Literal() if isinstance(node.value, bool):
                return NOTHING if node.value is truth else _NEVER
            case Select() if node.test_only:
                return frozenset(self._chain(node, scope)) if truth else NOTHING
            case Call(function="!_"):
                return self.implied(node.args[0], scope, truth=not truth)
            case Call(function="_&&_" | "_||_"):
                left, right = (self.implied(argument, scope, truth=truth) for argument in node.args)
                return left | right if truth is (node.function == "_&&_") else _either(left, right)
            case Call(function="_?_:_"):
                condition, then, otherwise = node.args
                return _either(
                    self.implied(condition, scope, truth=True) | self.implied(then, scope, truth=truth),
                    self.implied(condition, scope, truth=False) | self.implied(otherwise, scope, truth=truth),
                )
            case Call(function="@in") if _is_map(node.args[1]):
                return frozenset(self._tested(node, scope)) if truth else NOTHING
            case Call(function="_==_" | "_!=_") if (subject := _compared_with_null(node)) is not None:
                return self._nullness(subject, scope, null=truth is (node.function == "_==_"))
            case _:
                return self._mentioned(node, scope)

    def demanded(self, node: Node) -> Facts:
        """The facts that hold if an expression is true, only from plain tests that `&&` joins."""
        tree = self.variable(node, {})
        match node:
            case _ if tree is not None:
                return self.demanded(tree)
            case Call(function="_&&_"):
                return self.demanded(node.args[0]) | self.demanded(node.args[1])
            case Select(test_only=True) | Call(function="@in" | "_!=_"):
                return self.implied(node, {}, truth=True) if _is_plain(node) else NOTHING
            case _:
                return NOTHING

    def elements(self, node: Node, scope: Scope) -> Facts:
        """The facts about each element of a filtered list, as the ends of keys."""
        tree = self.variable(node, scope)
        if tree is not None:
            return self.elements(tree, {})
        match node:
            case Comprehension(macro="filter"):
                facts = self.implied(node.body[-1], {**scope, node.variable: "@"}, truth=True)
                own = frozenset(fact.removeprefix("@") for fact in facts if fact.startswith("@"))
                return own | self.elements(node.range, scope)
            case Call(function="_+_"):
                return self.elements(node.args[0], scope) & self.elements(node.args[1], scope)
            case _:
                return NOTHING

    def _nullness(self, subject: Node, scope: Scope, *, null: bool) -> Facts:
        key = self.key(subject, scope)
        if not null:
            return frozenset({*self._chain(subject, scope), f"{key}!"})
        other = {"object": "oldObject", "oldObject": "object"}.get(key)  # one of the two is always present
        return frozenset({f"{other}!"}) if other else NOTHING

    def _mentioned(self, node: Node, scope: Scope) -> Facts:
        """The facts of all tests in an expression. They are cached, because variables are often read repeatedly."""
        key = id(node), frozenset(scope.items())
        if key not in self._facts:
            self._facts[key] = frozenset(fact for below in walk(node) for fact in self._tested(below, scope))
        return self._facts[key]

    def _tested(self, node: Node, scope: Scope) -> Iterator[str]:
        match node:
            case Select() if node.test_only:
                yield from self._chain(node, scope)
            case Select(field="operation") if self.key(node, scope) == "request.operation":
                yield from (f"{root}!" for root in ROOTS)
            case Call(function="_?._" | "_[?_]"):
                yield from self._chain(node, scope)
            case Call(function="@in"):
                yield self.below(node.args[1], node.args[0], scope)
                yield from self._chain(node.args[1], scope)
            case Call(function="_==_" | "_!=_") if (subject := _compared_with_null(node)) is not None:
                yield from self._nullness(subject, scope, null=False) | self._nullness(subject, scope, null=True)
            case Comprehension() if _is_map(node.range):
                yield f"{self.key(node.range, scope)}.*"
            case _:
                tree = self.variable(node, scope)
                if tree is not None:
                    yield from self._mentioned(tree, {})

    def _chain(self, node: Node, scope: Scope) -> Iterator[str]:
        """The keys of a place and of all places above it."""
        while isinstance(node, Select) or (isinstance(node, Call) and node.function in _SELECTIONS):
            yield self.key(node, scope)
            tree = self.variable(node, scope)
            if tree is not None:
                yield from self._chain(tree, {})
                return
            node = node.operand if isinstance(node, Select) else node.args[0]
        if isinstance(node, Ident):
            yield f"{self.key(node, scope)}!"


def _is_plain(node: Select | Call) -> bool:
    """Whether a test is `has(...)`, a key `in` a map, or `!= null`."""
    if isinstance(node, Select):
        return True
    return _is_map(node.args[1]) if node.function == "@in" else _compared_with_null(node) is not None


def _is_map(node: Node) -> bool:
    return node.type is not None and node.type.kind is not Kind.LIST


def _compared_with_null(node: Call) -> Node | None:
    left, right = node.args
    if isinstance(right, Literal) and right.value is None:
        return left
    return right if isinstance(left, Literal) and left.value is None else None


def _either(left: Facts, right: Facts) -> Facts:
    if "*" in left or "*" in right:
        return right if "*" in left else left
    return left & right
