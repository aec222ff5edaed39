"""The places in the inputs that parts of an expression read, such as that of `c.image` in a macro over containers.

A place is a location with the variable's name first: `("object", "spec", "containers", 1)`. Computed values have none,
but the elements of lists that are joined, filtered or chosen keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from policies.cel.evaluation.dispatch import arguments
from policies.cel.evaluation.run import Outcome
from policies.cel.syntax.ast import Call, Comprehension, Ident, Literal, Node, Select
from policies.cel.values import Value
from policies.objects import fieldpath

Place = tuple[str | int, ...]
Evaluate = Callable[[Node, "Scope"], Outcome]


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables of the macros around a node: their values and, if they have one, their places."""

    values: Mapping[str, Value]
    places: Mapping[str, Place]

    def binding(self, name: str, value: Value, place: Place | None) -> Scope:
        """A scope with one more variable."""
        places = {known: at for known, at in self.places.items() if known != name}
        return Scope({**self.values, name: value}, places | ({name: place} if place is not None else {}))


NOTHING = Scope({}, {})


def shown(place: Place) -> str:
    """A place as messages show it: relative to the object, which users write."""
    return fieldpath.render(place[1:] if place[0] == "object" and len(place) > 1 else place)


class Places:
    """Finds places. `evaluate`: computes indices and conditions. `variables`: the trees of the policy's variables."""

    def __init__(self, evaluate: Evaluate, variables: Mapping[str, Node]) -> None:
        self._evaluate = evaluate
        self._variables = variables

    def of(self, node: Node, scope: Scope) -> Place | None:  # noqa: PLR0911 - a return for each kind of node
        """The place that a node reads; None for a computed value."""
        match node:
            case Ident():
                return self._of_name(node.name, scope)
            case Select(operand=Ident(name="variables")) if "variables" not in scope.values:
                made_of = self._variables.get(node.field)
                return None if made_of is None else self.of(made_of, NOTHING)
            case Select():
                return self._below(node.operand, node.field, scope)
            case Call(function="_[_]" | "_[?_]" | "_?._"):
                operand, key = arguments(node)
                index = key.value if isinstance(key, Literal) else self._evaluate(key, scope)
                return self._below(operand, index, scope) if isinstance(index, str | int) else None
            case Call(function="orValue" | "value") if node.target is not None:
                return self.of(node.target, scope)
            case Call(function="_?_:_"):
                return self.of(self._chosen(node, scope), scope)
            case _:
                return None

    def _of_name(self, name: str, scope: Scope) -> Place | None:
        if name in scope.values:
            return scope.places.get(name)
        return (name,)

    def _below(self, operand: Node, key: str | int, scope: Scope) -> Place | None:
        above = self.of(operand, scope)
        return None if above is None else (*above, key)

    def _chosen(self, node: Call, scope: Scope) -> Node:
        return node.args[1] if self._evaluate(node.args[0], scope) is True else node.args[2]

    def of_element(self, node: Node, index: int, key: str | int, scope: Scope) -> Place | None:
        """The place of an element of a list (its index) or of an entry of a map (its key)."""
        match node:
            case Call(function="_+_"):
                return self._of_joined(node, index, scope)
            case Call(function="_?_:_"):
                return self.of_element(self._chosen(node, scope), index, key, scope)
            case Comprehension(macro="filter"):
                return self._of_filtered(node, index, scope)
            case Select(operand=Ident(name="variables")) if "variables" not in scope.values:
                made_of = self._variables.get(node.field)
                return None if made_of is None else self.of_element(made_of, index, key, NOTHING)
            case _:
                whole = self.of(node, scope)
                return None if whole is None else (*whole, key)

    def _of_joined(self, node: Call, index: int, scope: Scope) -> Place | None:
        left, right = node.args
        first = self._evaluate(left, scope)
        if not isinstance(first, list):
            return None
        if index < len(first):
            return self.of_element(left, index, index, scope)
        return self.of_element(right, index - len(first), index - len(first), scope)

    def _of_filtered(self, node: Comprehension, index: int, scope: Scope) -> Place | None:
        elements = self._evaluate(node.range, scope)
        if not isinstance(elements, list):
            return None
        kept = -1
        for at, element in enumerate(elements):
            inner = scope.binding(node.variable, element, None)
            kept += self._evaluate(node.body[0], inner) is True
            if kept == index:
                return self.of_element(node.range, at, at, scope)
        return None
