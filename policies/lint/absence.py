"""Finds reads of what may be absent: fields without `has()`, map keys without `in`, an `object` that is null.

Each side of `&&` and `||` guards the other: in CEL an error on one side counts only if the other does not decide.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal as OneOf

from policies.admissionpolicy.model import Expression
from policies.cel.checking.validation import children
from policies.cel.syntax.ast import Call, Comprehension, Ident, Literal, Node, Select
from policies.cel.types import Kind
from policies.lint.guards import Facts, Guards, Scope
from policies.lint.kindtests import KindTests
from policies.lint.presence import FieldPresence

_READABLE = ("object", "oldObject", "params", "namespaceObject", "request")


@dataclass(frozen=True, slots=True)
class Absence:
    """One read of something that may be absent: its expression, its offset, the operand, and the name read from it."""

    reason: OneOf["field", "key", "null"]
    expression: Expression
    offset: int
    operand: str
    name: str


class AbsenceReader:
    """Walks over the expressions of a policy, except parts behind a test for another kind.

    nullable: which of `object` and `oldObject` may be null. variables: the expressions of the policy's variables.
    """

    def __init__(
        self,
        guards: Guards,
        presence: FieldPresence,
        tests: KindTests,
        nullable: Collection[str],
        variables: dict[str, Expression],
    ) -> None:
        self.absences: dict[tuple[str, str], Absence] = {}
        self._guards, self._presence, self._tests, self._nullable = guards, presence, tests, nullable
        self._variables = variables
        self._variables_read: set[tuple[str, Facts]] = set()
        self._expression = Expression(text="", path="")

    def read(self, tree: Node, expression: Expression, facts: Facts) -> None:
        """Note all reads in an expression that may be absent. `facts`: what is known to be present."""
        outer, self._expression = self._expression, expression
        self._walk(tree, facts, {})
        self._expression = outer

    def _walk(self, node: Node, facts: Facts, scope: Scope) -> None:
        match node:
            case Select():
                self._select(node, facts, scope)
            case Call(function="_&&_" | "_||_"):
                left, right = node.args
                truth = node.function == "_&&_"
                for side, other in ((left, right), (right, left)):
                    if side in self._tests.live(node):
                        self._walk(side, facts | self._guards.implied(other, scope, truth=truth), scope)
            case Call(function="_?_:_"):
                condition, then, _ = node.args
                self._walk(condition, facts, scope)
                for branch in self._tests.live(node)[1:]:
                    known = self._guards.implied(condition, scope, truth=branch is then)
                    self._walk(branch, facts | known, scope)
            case Call(function="_[_]"):
                self._index(node, facts, scope)
            case Comprehension():
                self._fold(node, facts, scope)
            case _:
                self._walk_all(children(node), facts, scope)

    def _walk_all(self, nodes: Collection[Node], facts: Facts, scope: Scope) -> None:
        for node in nodes:
            self._walk(node, facts, scope)

    def _select(self, node: Select, facts: Facts, scope: Scope) -> None:
        tree = self._guards.variable(node, scope)
        if tree is not None:
            if (node.field, facts) not in self._variables_read:
                self._variables_read.add((node.field, facts))
                self.read(tree, self._variables[node.field], facts)
            return
        before = len(self.absences)
        self._walk(node.operand, facts, scope)
        if len(self.absences) == before:  # otherwise the remedy for that read also helps here
            self._check(node, node.operand, node.field, facts, scope)

    def _index(self, node: Call, facts: Facts, scope: Scope) -> None:
        before = len(self.absences)
        operand, index = node.args
        self._walk_all((operand, index), facts, scope)
        if len(self.absences) == before and isinstance(index, Literal) and isinstance(index.value, str):
            self._check(node, operand, index.value, facts, scope)

    def _fold(self, node: Comprehension, facts: Facts, scope: Scope) -> None:
        self._walk(node.range, facts, scope)
        over = self._guards.key(node.range, scope)
        element = f"{over}[#{id(node)}]"
        inner = {**scope, node.variable: element}
        if node.variable2 is not None:
            inner |= {node.variable: f"#{id(node)}", node.variable2: element}
        self._walk(node.init, facts, scope)
        if not isinstance(node.init, Literal):  # macros such as optMap bind a value to a name
            inner[node.accumulator] = self._guards.key(node.init, scope)
        known = facts | {f"{element}{end}" for end in self._guards.elements(node.range, scope)}
        self._walk_all((node.condition, node.step, node.result), known, inner)

    def _check(self, node: Select | Call, operand: Node, name: str, facts: Facts, scope: Scope) -> None:
        place = self._guards.key(operand, scope)
        tested = isinstance(node, Select) and node.test_only
        if place in self._nullable and isinstance(operand, Ident) and f"{place}!" not in facts:
            self._note("null", node, operand, name, place)
        elif not tested and f"{place}.{name}" not in facts and f"{place}.*" not in facts:
            type_ = operand.type
            if type_ is None:
                return
            if type_.kind is Kind.STRUCT and self._presence.may_lack(type_.name, name, place):
                self._note("field", node, operand, name, f"{place}.{name}")
            elif type_.kind is Kind.MAP and place.startswith(tuple(f"{root}." for root in _READABLE)):
                self._note("key", node, operand, name, f"{place}.{name}")

    def _note(self, reason: OneOf["field", "key", "null"], node: Node, operand: Node, name: str, key: str) -> None:
        text = self._expression.text
        absence = Absence(reason, self._expression, node.start, text[operand.start : operand.end], name)
        self.absences.setdefault((self._expression.path, key), absence)
