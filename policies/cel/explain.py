"""Explains why an expression is false or failed: the smallest parts that decided it, with their values and places.

The explanation of `object.spec.containers.all(c, has(c.resources.limits))` is
`spec.containers[1].resources: has(c.resources.limits) is false (container "sidecar")`. Values are short. Those of
environment variables, everything below `data` and `stringData` of a Secret, and every value computed from such a place
are masked.

An explanation compiles the expression again and evaluates its parts, but only after a refusal. What was compiled is
kept for a while, because the same refusal is often met again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Final

from policies.cel.cases import encode
from policies.cel.evaluation.plan import plan
from policies.cel.evaluation.run import Outcome, Run, Step, failed
from policies.cel.program import Composition, Names, Program, checked
from policies.cel.recursion import deeply
from policies.cel.syntax import ast
from policies.cel.syntax.source import Source
from policies.cel.values import ABSENT, BudgetError, CelError, Optional, Value
from policies.engine.interruption import Expired
from policies.objects import fieldpath
from policies.objects.masking import MASK, SECRET_FIELDS, Masking

_LONGEST = 100
_MOST_PARTS = 20_000


def _show(value: Value, place: Place | None, *, is_secret: bool) -> str:
    """A value on one line. `place`: where it was read. `is_secret`: whether the object is a Secret."""
    at = place or ()
    if ("env" in at and at[-1] == "value") or (is_secret and len(at) > 1 and at[1] in SECRET_FIELDS):
        return MASK
    if value.__class__ is Optional:
        return "none" if value.value is ABSENT else _show(value.value, place, is_secret=is_secret)
    pending, count = [value], 0  # an expression may double what it is made of, again and again
    while pending:
        part, count = pending.pop(), count + 1
        if count == _MOST_PARTS:
            return "[…]" if value.__class__ is list else "{…}"
        pending += part if part.__class__ is list else part.values() if part.__class__ is dict else ()
    masking = Masking(keys=False)
    if at[-1:] == ("env",):
        masked = masking.masked({"env": value})["env"]
    elif at[-2:-1] == ("env",):
        masked = masking.masked({"env": [value]})["env"][0]
    else:
        masked = masking.masked(value, is_secret=is_secret and at in (("object",), ("oldObject",)))
    encoded = encode(masked)
    if isinstance(encoded, dict) and len(encoded) == 1 and (special := next(iter(encoded))).startswith("$"):
        encoded = encoded[special]
    text = json.dumps(encoded, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a node stands.

    values, places: of the variables of the macros around it; not all have a place. text: the expression that it is in.
    element: the name of the list's element that it is about.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    text: str = ""
    element: str = ""

    def binding(self, name: str, value: Value, place: Place | None) -> Scope:
        """A scope with one more variable."""
        places = {known: at for known, at in self.places.items() if known != name}
        places |= {name: place} if place is not None else {}
        return replace(self, values={**self.values, name: value}, places=places)


def shown(place: Place) -> str:
    """A place as messages show it: relative to the object, which users write."""
    return fieldpath.render(place[1:] if place[0] == "object" and len(place) > 1 else place)


REASONS = 5
"""The most reasons that are given, also for the elements of one list."""
_LONGEST_TEXT = 160
_KEPT = 64
_TURNS = 20
"""The most elements of one list that a tree shows."""
_QUANTIFIERS = {"all": False, "exists": True}
_COUNTING = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
UNKNOWN: Final = object()
"""An outcome that is still to be found out."""
_NOUNS = {"containers": "container", "initContainers": "init container", "ephemeralContainers": "ephemeral container"}


@dataclass(frozen=True, slots=True)
class Reason:
    """One deciding part. `place`: where it reads. `values`: its parts with their values, as texts."""

    expression: str
    outcome: str
    place: Place | None = None
    values: tuple[tuple[str, str], ...] = ()
    element: str = ""

    def __str__(self) -> str:
        """`spec.replicas: object.spec.replicas <= 5 is false (object.spec.replicas is 7)`."""
        return f"{shown(self.place)}: {self.detail}" if self.place is not None else self.detail

    @property
    def detail(self) -> str:
        """The text without the place."""
        details = [*([self.element] if self.element else []), *(f"{text} is {value}" for text, value in self.values)]
        more = f" ({'; '.join(details)})" if details else ""
        return f"{self.expression} {self.outcome}{more}"


def explain(
    source: Source,
    composition: Composition,
    names: Names,
    *,
    limit: int,
    expired: Expired | None = None,
    outcome: Outcome = UNKNOWN,
) -> tuple[Reason, ...]:
    """The reasons for the outcome of an expression that was evaluated with these names, in the order of its parts.

    `names`: from `composition.bind`. `limit`: the most that the explanation may cost; at the limit it returns the
    reasons found so far. `outcome`: that of the expression, if the caller has it.
    """
    reasons: list[Reason] = []
    try:
        explainer = _Explainer(source, composition, Run(names, limit, expired, composition.environment.dialect))
        if isinstance(explainer.tree, ast.Literal):  # `false is false` helps nobody
            return ()
        scope = Scope(text=source.text)
        deeply(lambda: reasons.extend(islice(explainer.reasons(explainer.tree, scope, outcome), REASONS)))
    except (BudgetError, RecursionError):
        pass
    return tuple(dict.fromkeys(reasons))


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of an expression with its outcome, and the parts that it was made of, in their order."""

    expression: str
    outcome: str
    parts: tuple[Branch, ...] = ()


def tree(source: Source, composition: Composition, names: Names, *, limit: int) -> Branch | None:
    """All parts of an expression that was evaluated with these names; None if that costs more than `limit`."""
    try:
        explainer = _Explainer(source, composition, Run(names, limit, None, composition.environment.dialect))
        return deeply(lambda: explainer.branch(explainer.tree, Scope(text=source.text)))
    except (BudgetError, RecursionError):
        return None


@lru_cache(maxsize=_KEPT)
def _compiled(
    source: Source, composition: Composition
) -> tuple[ast.Node, Mapping[str, tuple[ast.Node, str]], dict[ast.Node, Step]]:
    """The tree of an expression, those of its variables with their texts, and the steps of the parts met so far."""
    programs = {name: program for name, program in composition.programs.items() if isinstance(program, Program)}
    variables = {
        name: (checked(program.source, composition.environment)[0], program.source.text)
        for name, program in programs.items()
    }
    return checked(source, composition.environment)[0], variables, {}


class _Explainer:
    """Walks down one expression along the parts that decided."""

    def __init__(self, source: Source, composition: Composition, run: Run) -> None:
        self.tree, self._variables, self._steps = _compiled(source, composition)
        self._run = run
        objects = (run.names.get(name) for name in ("object", "oldObject"))
        self._is_secret = any(isinstance(obj, dict) and obj.get("kind") == "Secret" for obj in objects)

    def evaluate(self, node: ast.Node, scope: Scope) -> Outcome:
        step = self._steps.get(node)
        if step is None:
            step = self._steps[node] = plan(node)
        self._run.scopes = [dict(scope.values)]
        return step.evaluate(self._run)

    def _variable(self, node: ast.Node, scope: Scope) -> tuple[ast.Node, Scope] | None:
        """The tree of `variables.x`, and the scope in which it stands; None for any other node."""
        variable = self._variables.get(ast.variable(node) or "")
        if variable is None or "variables" in scope.values:
            return None
        return variable[0], Scope(text=variable[1], element=scope.element)

    # Places

    def _place_of(self, node: ast.Node, scope: Scope) -> Place | None:  # noqa: PLR0911 - a return for each kind of node
        """The place that a node reads; None for a computed value."""
        variable = self._variable(node, scope)
        if variable is not None:
            return self._place_of(*variable)
        match node:
            case ast.Ident():
                return scope.places.get(node.name) if node.name in scope.values else (node.name,)
            case ast.Select():
                return self._below(node.operand, node.field, scope)
            case ast.Call(function="_[_]" | "_[?_]" | "_?._"):
                operand, key = node.arguments
                index = key.value if isinstance(key, ast.Literal) else self.evaluate(key, scope)
                return self._below(operand, index, scope) if isinstance(index, str | int) else None
            case ast.Call(function="orValue" | "value") if node.target is not None:
                return self._place_of(node.target, scope)
            case ast.Call(function="_?_:_"):
                return self._place_of(self._chosen(node, scope), scope)
            case _:
                return None

    def _below(self, operand: ast.Node, key: str | int, scope: Scope) -> Place | None:
        above = self._place_of(operand, scope)
        return None if above is None else (*above, key)

    def _chosen(self, node: ast.Call, scope: Scope) -> ast.Node:
        return node.args[1] if self.evaluate(node.args[0], scope) is True else node.args[2]

    def _element_of(self, node: ast.Node, index: int, key: str | int, scope: Scope) -> Place | None:
        """The place of an element of a list (its index) or of an entry of a map (its key)."""
        variable = self._variable(node, scope)
        if variable is not None:
            return self._element_of(variable[0], index, key, variable[1])
        match node:
            case ast.Call(function="_+_", args=[left, right]):
                first = self.evaluate(left, scope)
                if not isinstance(first, list):
                    return None
                at = index if index < len(first) else index - len(first)
                return self._element_of(left if index < len(first) else right, at, at, scope)
            case ast.Call(function="_?_:_"):
                return self._element_of(self._chosen(node, scope), index, key, scope)
            case ast.Comprehension(macro="filter"):
                elements = self.evaluate(node.range, scope)
                inner = [
                    scope.binding(node.variable, one, None) for one in (elements if isinstance(elements, list) else ())
                ]
                kept = (at for at, one in enumerate(inner) if self.evaluate(node.body[0], one) is True)
                at = next(islice(kept, index, None), -1)
                return self._element_of(node.range, at, at, scope) if at >= 0 else None
            case _:
                whole = self._place_of(node, scope)
                return None if whole is None else (*whole, key)

    # The tree of all parts

    def branch(self, node: ast.Node, scope: Scope, *, element: str = "") -> Branch:
        """A part of the expression. element: of the list or map that it was evaluated for. Raises BudgetError."""
        outcome = self._outcome(node, self.evaluate(node, scope), scope)
        text = _cut(scope.text[node.start : node.end])
        return Branch(f"{element}: {text}" if element else text, outcome, tuple(self._parts(node, scope)))

    def _parts(self, node: ast.Node, scope: Scope) -> Iterator[Branch]:
        variable = self._variable(node, scope)
        match node:
            case _ if variable is not None:
                yield self.branch(*variable)
            case ast.Call(function="_?_:_"):
                condition = self.evaluate(node.args[0], scope)
                chosen = () if failed(condition) else (node.args[1 if condition is True else 2],)
                yield from (self.branch(part, scope) for part in (node.args[0], *chosen))
            case ast.Select() if self._place_of(node, scope) is not None:
                return  # a path: its beginnings say nothing
            case ast.Comprehension():
                yield from self._parts_of([node.range], scope)
                elements = self.evaluate(node.range, scope)
                turns = self._turns(node, elements, scope) if isinstance(elements, list | dict) else ()
                for index, (inner, element) in enumerate(islice(turns, _TURNS)):
                    yield self.branch(node.body[0], inner, element=element or f"{node.variable} {index}")
            case _:
                yield from self._parts_of(ast.children(node), scope)

    def _parts_of(self, nodes: Iterable[ast.Node], scope: Scope) -> Iterator[Branch]:
        """Branches of what has a value that can differ: a path as a whole, and no literal."""
        for node in nodes:
            if isinstance(node, ast.Literal) or not _is_expression(node):
                continue
            if not (isinstance(node, ast.Ident) and node.name not in scope.values):
                yield self.branch(node, scope)

    # The reasons

    def reasons(self, node: ast.Node, scope: Scope, outcome: Outcome = UNKNOWN) -> Iterator[Reason]:
        """The reasons for the outcome of a node, which is found out if it is unknown."""
        if outcome is UNKNOWN:
            outcome = self.evaluate(node, scope)
        variable = self._variable(node, scope)
        match node:
            case ast.Call(function="_&&_" | "_||_"):
                yield from self._of_logic(node, outcome, scope)
            case ast.Call(function="!_"):
                yield from self.reasons(node.args[0], scope)
            case ast.Call(function="_?_:_"):
                condition = self.evaluate(node.args[0], scope)
                decisive = 0 if failed(condition) else 1 if condition is True else 2
                yield from self.reasons(node.args[decisive], scope)
            case ast.Comprehension() if node.macro in _QUANTIFIERS:
                yield from self._of_quantifier(node, outcome, scope)
            case _ if failed(outcome):
                yield from self._of_failure(node, outcome, scope)
            case _ if variable is not None and isinstance(outcome, bool):
                yield from self.reasons(*variable)
            case ast.Call() if node.function in _COUNTING:
                # Of `bad.size() == 0`, if `bad` filters a list, why elements were kept.
                sizes = (part for part in node.arguments if isinstance(part, ast.Call) and part.function == "size")
                kept = (reason for size in islice(sizes, 1) for reason in self._of_kept(size.arguments[0], scope))
                yield from list(islice(kept, REASONS)) or [self._reason(node, outcome, scope)]
            case _:
                yield self._reason(node, outcome, scope)

    def _of_logic(self, node: ast.Call, outcome: Outcome, scope: Scope) -> Iterator[Reason]:
        """The reasons of the side that decided, or of both if neither decided alone."""
        decisive = node.function == "_||_"
        sides: list[tuple[ast.Node, Outcome]] = []
        for side in node.args:
            value = self.evaluate(side, scope)
            if outcome is decisive and value is decisive:
                yield from self.reasons(side, scope, value)
                return
            sides.append((side, value))
        for side, value in sides:
            if failed(value) is failed(outcome):
                yield from self.reasons(side, scope, value)

    def _of_kept(self, node: ast.Node, scope: Scope) -> Iterator[Reason]:
        """Why the elements of a list were kept by the macro that chose them. Follows variables, and `map`."""
        variable = self._variable(node, scope)
        if variable is not None:
            yield from self._of_kept(*variable)
        elif isinstance(node, ast.Comprehension) and node.macro == "map" and len(node.body) == 1:
            yield from self._of_kept(node.range, scope)
        elif isinstance(node, ast.Comprehension) and node.macro in ("map", "filter"):
            elements = self.evaluate(node.range, scope)
            for inner, element in self._turns(node, elements, scope) if isinstance(elements, list) else ():
                if self.evaluate(node.body[0], inner) is True:
                    within = replace(inner, element=element or scope.element)
                    yield from self.reasons(node.body[0], within, outcome=True)

    def _of_quantifier(self, node: ast.Comprehension, outcome: Outcome, scope: Scope) -> Iterator[Reason]:
        """The reasons of the deciding elements: the first that is false for `all` or true for `exists`, else all."""
        elements = self.evaluate(node.range, scope)
        if not isinstance(elements, list | dict):
            yield from self._of_failure(node, outcome, scope)
            return
        if not elements:
            yield self._reason(node, outcome, scope, element="there are no elements")
            return
        decisive = _QUANTIFIERS[node.macro]
        for inner, element in self._turns(node, elements, scope):
            value = self.evaluate(node.body[0], inner)
            if (outcome is decisive and value is not decisive) or failed(outcome) is not failed(value):
                continue
            yield from self.reasons(node.body[0], replace(inner, element=element or scope.element), value)
            if outcome is decisive:
                return

    def _turns(
        self, node: ast.Comprehension, elements: list[Value] | dict[Value, Value], scope: Scope
    ) -> Iterator[tuple[Scope, str]]:
        pairs = list(elements.items() if isinstance(elements, dict) else enumerate(elements))
        for index, (key, value) in enumerate(pairs[:1000]):
            place = self._element_of(node.range, index, key, scope)
            inner = scope.binding(node.variable2, value, place) if node.variable2 is not None else scope
            single = key if isinstance(elements, dict) or node.variable2 is not None else value
            yield inner.binding(node.variable, single, place), _called(place, value)

    def _of_failure(self, node: ast.Node, outcome: CelError, scope: Scope) -> Iterator[Reason]:
        """The reasons of the innermost part with the same failure."""
        for child in (node.range,) if isinstance(node, ast.Comprehension) else ast.children(node):
            value = self.evaluate(child, scope) if _is_expression(child) else None
            if isinstance(value, CelError) and value.message == outcome.message:
                yield from self.reasons(child, scope, value)
                return
        yield self._reason(node, outcome, scope)

    def _reason(self, node: ast.Node, outcome: Outcome, scope: Scope, *, element: str = "") -> Reason:
        """A reason with the parts that it compares, as written, and their values. Literals are left out."""
        values = []
        for argument in node.arguments if isinstance(node, ast.Call) and not failed(outcome) else ():
            if any(isinstance(part, ast.Ident) and part.constant is None for part in ast.walk(argument)):
                value = self.evaluate(argument, scope)
                if not failed(value):
                    text = _cut(scope.text[argument.start : argument.end])
                    values.append((text, self._shown(argument, value, scope)))
        return Reason(
            expression=_cut(scope.text[node.start : node.end]),
            outcome=self._outcome(node, outcome, scope),
            place=self._place(node, scope),
            values=tuple(values),
            element=element or scope.element,
        )

    def _outcome(self, node: ast.Node, outcome: Outcome, scope: Scope) -> str:
        if failed(outcome):
            return f"failed: {outcome.message}"
        if isinstance(outcome, bool):
            return "is true" if outcome else "is false"
        return f"is {self._shown(node, outcome, scope)}"

    def _place(self, node: ast.Node, scope: Scope) -> Place | None:
        """The place of a deciding part, or of the first part in it that has one."""
        if isinstance(node, ast.Select) and node.test_only:
            return self._named(node.operand, scope)
        own = self._named(node, scope)
        if own is not None:
            return own
        if isinstance(node, ast.Comprehension):
            return self._place(node.range, scope)
        places = (self._place(child, scope) for child in ast.children(node) if _is_expression(child))
        return next((place for place in places if place is not None), None)

    def _named(self, node: ast.Node, scope: Scope) -> Place | None:
        place = self._place_of(node, scope)
        return place if place is not None and (len(place) > 1 or place[0] in scope.values) else None

    def _shown(self, node: ast.Node, value: Value, scope: Scope) -> str:
        """A value, unless its node may be computed from a secret, by the names of the fields that it selects."""
        pending, fields, followed = [node], set[Value](), set[str]()
        while pending:
            for part in ast.walk(pending.pop()):
                if isinstance(part, ast.Select):
                    fields.add(part.field)
                elif isinstance(part, ast.Call) and part.function in ("_[_]", "_[?_]", "_?._"):
                    fields |= {key.value for key in part.args if isinstance(key, ast.Literal)}
                name = ast.variable(part) or ""
                if name in self._variables and name not in followed:
                    followed.add(name)
                    pending.append(self._variables[name][0])
        if {"env", "value"} <= fields or (self._is_secret and fields & SECRET_FIELDS):
            return MASK
        return _show(value, self._place_of(node, scope), is_secret=self._is_secret)


def _is_expression(node: ast.Node) -> bool:
    """Whether a node can be evaluated by itself. Entries of a literal cannot."""
    return isinstance(
        node, ast.Literal | ast.Ident | ast.Select | ast.Call | ast.ListLiteral | ast.MapLiteral | ast.Comprehension
    )


def _called(place: Place | None, value: Value) -> str:
    """`container "sidecar"`, if an element has a name, else empty."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return ""
    field = next((step for step in reversed(place or ()) if isinstance(step, str)), "element")
    return f'{_NOUNS.get(field, field.removesuffix("s"))} "{value["name"]}"'


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}…"
