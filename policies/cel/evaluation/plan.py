"""Turns a checked tree into steps that charge exactly the costs of kube-apiserver.

Like kube-apiserver (OptOptimize), it computes constant parts only once: literal lists and maps, conversions of literals
(`duration('1h')`) and look-ups in literal lists become constants and cost nothing at run time. A conversion that fails
and an invalid pattern are compile errors. An attribute, a root with the fields and indices behind it, is resolved and
charged as a unit. Sources: cel-go's interpreter/planner.go, decorators.go, interpretable.go, attributes.go and
runtimecost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat

from policies.cel.cost import LIST_CREATION, MAP_CREATION, STRUCT_CREATION
from policies.cel.environment import NOT_A_VALUE, Feature
from policies.cel.equality import equal
from policies.cel.evaluation.run import (
    Constant,
    Deferred,
    Outcome,
    Run,
    Step,
    bind,
    check_key,
    failed,
    present,
    qualify,
    show_key,
    text_only,
)
from policies.cel.library.operators import add
from policies.cel.library.regex import compile_pattern
from policies.cel.patchtypes import ObjectValue, construct
from policies.cel.syntax import ast
from policies.cel.types import Kind
from policies.cel.values import (
    ABSENT,
    NONE,
    BudgetError,
    CelError,
    Incomparable,
    Optional,
    Uint,
    Value,
    no_such_overload,
    shown,
    type_of,
)

CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_PRIMITIVE = (bool, int, Uint, float, str)


class PlanError(Exception):
    """A constant part of an expression cannot be computed; `node` is that part."""

    def __init__(self, node: ast.Node, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.message = message
        self.hint = hint


def plan(node: ast.Node) -> Step:  # noqa: PLR0911, PLR0912 - one return per kind of node
    """The step of a checked node. Raises PlanError."""
    match node:
        case ast.Literal():
            return Constant(node.value)
        case ast.Ident() | ast.Select() if node.constant is not None:
            if node.constant[0] is NOT_A_VALUE:
                raise PlanError(node, f"reference to undefined type: {node.name}")
            return Constant(node.constant[0])
        case ast.Ident():
            if node.type is not None and node.type.kind is Kind.TYPE:  # cel-go reads any such name as a type's name
                hint = "a name that holds a type cannot be read in Kubernetes; "
                hint += "write dyn(...) where it gets its value: dyn(int)"
                raise PlanError(node, f"reference to undefined type: {node.name}", hint)
            return Read(_named(node.name))
        case ast.Select():
            if node.name is not None:
                return Read(_named(node.name))
            attribute = _attribute(plan(node.operand))
            attribute.add(Qualifier(Constant(node.field), typed=_is_part(node.operand), tests=node.test_only))
            return Read(attribute, presence=node.test_only)
        case ast.Call():
            special = _CALLS.get(node.function)
            return _call(node, list(map(plan, node.arguments))) if special is None else special(node)
        case ast.ListLiteral():
            return _list(node)
        case ast.MapLiteral():
            return _map(node)
        case ast.StructLiteral():
            return _struct(node)
        case ast.Comprehension():
            return _fold(node)
        case _:
            raise TypeError(f"not an expression: {node}")


# Attributes


class Qualifier:
    """`.field`, `[index]` and their optional forms. Costs 1 when applied; with `?` only if there is a value.

    typed: whether the operand is statically a part of Object{...}. tests: whether it is the last field of `has(a.b)`,
    which is true or false. After an optional it gives the value; only a branch of `?:` shows it, before 1.38.
    """

    def __init__(
        self, key: Step | Attribute, *, optional: bool = False, typed: bool = False, tests: bool = False
    ) -> None:
        self.optional, self._typed, self._tests = optional, typed, tests
        self._constant = key.value if isinstance(key, Constant) else ABSENT
        self._compute = key.resolve if isinstance(key, Attribute) else key.evaluate

    def apply(self, value: Value, run: Run, *, if_present: bool) -> Outcome:
        """The value of the key, which may be ABSENT if it is only looked for."""
        key = outcome = self._compute(run) if self._constant is ABSENT else self._constant
        if not failed(key):
            is_part = self._typed and isinstance(value, ObjectValue)
            if if_present and self.optional:
                is_part = is_part and run.dialect.has(Feature.OPTIONAL_PARTS)
            try:
                check_key(key)
                if self._tests and not if_present:
                    outcome = key in value.fields if is_part else present(value, key) is not ABSENT
                elif is_part:
                    outcome = value.field(key)
                else:
                    outcome = present(value, key) if if_present else qualify(value, key)
            except CelError as error:
                outcome = error
        if not if_present:
            run.charge(1)
            return None if outcome is ABSENT else outcome
        if outcome is ABSENT or (failed(outcome) and not run.dialect.has(Feature.FREE_FAILURES)):
            return outcome
        run.charge(1)
        hidden = self._tests and not failed(outcome) and run.dialect.has(Feature.CHOSEN_PRESENCE)
        return None if hidden else outcome


class Attribute:
    """A root and the qualifiers behind it. The cost of the whole is charged by `Read`, not by `resolve`."""

    def __init__(self, root: Callable[[Run], Outcome]) -> None:
        self._qualifiers: list[Qualifier] = []
        self._root = root

    def add(self, qualifier: Qualifier) -> None:
        """Add a qualifier at the end."""
        self._qualifiers.append(qualifier)

    def resolve(self, run: Run) -> Outcome:
        """The value of the attribute, or the failure."""
        value = self._root(run)
        if failed(value):
            return value
        is_optional = value.__class__ is Optional
        if is_optional:
            if value.value is ABSENT:
                return value
            value = value.value
            if not run.dialect.has(Feature.WHOLE_OPTIONALS):  # 1.36 converts the content
                if value.__class__ is Optional:
                    value = None if value.value is ABSENT else value.value
                elif isinstance(value, Incomparable) and (name := value.cel_type.name) != "kubernetes.NamedFormat":
                    value = CelError(f"unsupported conversion to ref.Val: {name}")
                    if name.startswith("kubernetes.authorization."):
                        value = no_such_overload()
                    if self._qualifiers:
                        return value
        for qualifier in self._qualifiers:
            is_optional = is_optional or qualifier.optional
            value = qualifier.apply(value, run, if_present=is_optional)
            if value is ABSENT:
                return NONE
            if failed(value):
                return value
        return Optional(value) if is_optional else value


class Outer(Attribute):
    """A `.name`. It and what follows it are resolved outside of the macros, and cost nothing."""

    def resolve(self, run: Run) -> Outcome:
        """The value of the attribute, or the failure."""
        inner, run.scopes, cost = run.scopes, [], run.cost
        try:
            return super().resolve(run)
        finally:
            run.scopes, run.cost = inner, cost


def _named(name: str) -> Attribute:
    plain = name.removeprefix(".")
    return (Attribute if plain == name else Outer)(lambda run: run.lookup(plain))


class Choice(Attribute):
    """`condition ? a : b`. A qualifier behind it is added to both branches."""

    def __init__(self, condition: Step, truthy: Attribute, falsy: Attribute) -> None:
        super().__init__(condition.evaluate)
        self._truthy, self._falsy = truthy, falsy

    def add(self, qualifier: Qualifier) -> None:
        """Add a qualifier to both branches."""
        self._truthy.add(qualifier)
        self._falsy.add(qualifier)

    def resolve(self, run: Run) -> Outcome:
        """The value of the branch that the condition chooses."""
        condition = self._root(run)
        if condition is True:
            return self._truthy.resolve(run)
        if condition is False:
            return self._falsy.resolve(run)
        return condition if failed(condition) else no_such_overload()


class Read(Step):
    """An attribute as a step. Costs 1, or 0 for a choice and for a presence test; both once made it -1."""

    def __init__(self, attribute: Attribute, *, presence: bool = False) -> None:
        cost = (0 if isinstance(attribute, Choice) else 1) - (1 if presence else 0)

        def evaluate(run: Run) -> Outcome:
            outcome = attribute.resolve(run)
            if presence and outcome.__class__ is Optional:
                outcome = outcome.value is not ABSENT
            run.charge(0 if cost < 0 and run.dialect.has(Feature.CHOSEN_PRESENCE) else cost)
            return outcome

        super().__init__(evaluate)
        self.attribute, self.presence = attribute, presence


def _attribute(step: Step) -> Attribute:
    return step.attribute if isinstance(step, Read) and not step.presence else Attribute(step.evaluate)


def _is_part(node: ast.Node) -> bool:
    return node.type is not None and node.type.kind is Kind.STRUCT and node.type.name.split(".")[0] == "Object"


def _index(node: ast.Call) -> Step:
    operand, index = map(plan, node.arguments)
    attribute = _attribute(operand)
    if isinstance(index, Constant):
        try:
            check_key(index.value)
        except CelError as error:
            raise PlanError(node, error.message) from None
    key = index.attribute if isinstance(index, Read) else index
    typed = node.function == "_?._" and _is_part(node.args[0])
    attribute.add(Qualifier(key, optional=node.function != "_[_]", typed=typed))
    return Read(attribute)


def _choice(node: ast.Call) -> Step:
    condition, *branches = map(plan, node.args)
    # Unlike `_attribute`, this does not wrap a presence test.
    truthy, falsy = (
        branch.attribute if isinstance(branch, Read) else Attribute(branch.evaluate) for branch in branches
    )
    return Read(Choice(condition, truthy, falsy))


# Calls


def _logic(node: ast.Call) -> Step:
    """`&&` and `||`: a decisive side absorbs the failure of the other."""
    decisive = node.function == "_||_"
    terms = tuple(map(plan, node.args))

    def evaluate(run: Run) -> Outcome:
        failure: CelError | None = None
        for term in terms:
            outcome = term.evaluate(run)
            if outcome is decisive:
                run.absorbed |= failure is not None
                return outcome
            if failure is None and outcome.__class__ is not bool:
                failure = outcome if failed(outcome) else no_such_overload()
        return not decisive if failure is None else failure

    return Step(evaluate)


def _lenient(node: ast.Call) -> Step:
    """`@not_strictly_false(x)`, the condition of `all` and `exists`: anything but False continues. Costs 1."""
    argument = plan(node.args[0])

    def evaluate(run: Run) -> Outcome:
        outcome = argument.evaluate(run)
        run.charge(1)
        return outcome is not False

    return Step(evaluate)


def _alternative(node: ast.Call) -> Step:
    """`a.or(b)` and `a.orValue(b)`. Evaluates the right side only if needed; costs nothing itself."""
    left, right = map(plan, node.arguments)
    unwrap = node.function == "orValue"

    def evaluate(run: Run) -> Outcome:
        outcome = left.evaluate(run)
        if outcome.__class__ is not Optional:
            strict = not failed(outcome) and run.dialect.has(Feature.STRICT_ALTERNATIVES)
            return no_such_overload() if strict else outcome
        if outcome.value is ABSENT:
            return right.evaluate(run)
        return outcome.value if unwrap else outcome

    return Step(evaluate)


def _in(node: ast.Call) -> Step:
    """`x in y`, which in literals is a look-up that costs nothing."""
    item, container = map(plan, node.args)
    contains = None
    if node.overloads[0].id == "in_list" and len(node.overloads) == 1 and isinstance(container, Constant):
        if container.value == []:
            return Constant(value=False)
        contains = membership(container.value)
    if contains is None:
        return _call(node, [item, container])

    def evaluate(run: Run) -> Outcome:
        outcome = item.evaluate(run)
        return outcome if failed(outcome) else contains(outcome)

    return Step(evaluate)


def membership(values: Value) -> Callable[[Value], bool] | None:
    """A look-up in literal values; None if one of them is not a plain value."""
    if failed(values) or any(value.__class__ not in _PRIMITIVE for value in values):
        return None
    known = frozenset(values)
    if all(value.__class__ is str for value in values):
        return lambda item: item.__class__ is str and item in known
    return lambda item: any(equal(value, item) for value in values)


def _sum(node: ast.Call) -> Step:
    """`a + b`. A macro adds to its own list in place, to avoid n copies for n elements."""

    def added(left: Value, right: Value) -> Value:
        if left.__class__ is not Growing:
            return add(left, right)
        left.extend(right)
        return left

    return _call(node, list(map(plan, node.args)), added)


def _call(node: ast.Call, given: list[Step], own: Callable[..., Value] | None = None) -> Step:
    """A call of a function. own: its implementation, if not the declared one.

    The first failing argument ends it. It is then free, but for the operators that cel-go prices as ever. Before 1.38
    that was so only if it is stepwise, and only if the last one did not fail.
    """
    binding = bind(node)
    call, cost, stepwise = own or binding.call, binding.cost, binding.stepwise
    index = None if node.declared is None else node.declared.pattern
    pattern = given[index] if index is not None and index < len(given) else None
    if isinstance(pattern, Constant) and pattern.value.__class__ is str:
        try:
            compile_pattern(pattern.value)
        except CelError as error:
            raise PlanError(node, error.message) from None
        call, stepwise = text_only(binding.exact or call), True

    def evaluate(run: Run) -> Outcome:
        values: list[Outcome] = []
        for argument in given:
            values.append(argument.evaluate(run))
            if failed(values[-1]):
                if run.dialect.has(Feature.FREE_FAILURES):
                    if node.function not in _PRICED:
                        return values[-1]
                    values += [None] * (len(given) - len(values))
                    break
                if stepwise and len(values) < len(given):
                    return values[-1]
        outcome = next(filter(failed, values), None)
        if outcome is None:
            try:
                outcome = call(*values)
            except CelError as error:
                outcome = error
            except BudgetError as error:  # the result would cost more than the limit
                run.charge(error.cost)
                raise BudgetError(run.cost) from error
        run.charge(cost if isinstance(cost, int) else cost(values, outcome))
        return outcome

    if node.function in CONVERSIONS and len(given) == 1 and isinstance(given[0], Constant):
        value = evaluate(Run({}))
        if failed(value):
            raise PlanError(node, value.message)
        return Constant(value)
    return Step(evaluate)


_PRICED = frozenset({"_==_", "_!=_", "!_"})
_CALLS: dict[str, Callable[[ast.Call], Step]] = {
    **dict.fromkeys(("_&&_", "_||_"), _logic),
    "_?_:_": _choice,
    **dict.fromkeys(("_[_]", "_[?_]", "_?._"), _index),
    "@not_strictly_false": _lenient,
    **dict.fromkeys(("or", "orValue"), _alternative),
    "@in": _in,
    "_+_": _sum,
}


# Literals and macros


def _literal(build: Callable[[Run], Outcome], cost: int, parts: Iterable[Step]) -> Step:
    """A list or map, which is built once if all its parts are constant, and then free."""
    if all(isinstance(part, Constant) for part in parts):
        return Constant(build(Run({})))

    return Step(lambda run: _charged(build(run), cost, run))


def _charged(outcome: Outcome, cost: int, run: Run) -> Outcome:
    """The outcome, for which the cost is charged. Since 1.38 one without all its parts is free."""
    if not (failed(outcome) and run.dialect.has(Feature.FREE_FAILURES)):
        run.charge(cost)
    return outcome


def _list(node: ast.ListLiteral) -> Step:
    elements = [(plan(element), index in node.optional) for index, element in enumerate(node.elements)]

    def build(run: Run) -> Outcome:
        values: list[Value] = []
        for element, optional in elements:
            value = element.evaluate(run)
            if failed(value):
                return value
            if optional:
                if value.__class__ is not Optional:
                    return CelError(f"cannot initialize optional list element from non-optional value {shown(value)}")
                if value.value is ABSENT:
                    continue
                value = value.value
            values.append(value)
        return values

    return _literal(build, LIST_CREATION, (element for element, _ in elements))


def _entries(parts: list[tuple[Step, Step, bool]]) -> Callable[[Run], Outcome]:
    """What builds a map of keys and values, of which optional ones may be missing."""

    def build(run: Run) -> Outcome:
        values: dict[Value, Value] = {}
        for key_step, value_step, optional in parts:
            key = key_step.evaluate(run)
            if failed(key):
                return key
            value = value_step.evaluate(run)
            if optional and not failed(value):
                if value.__class__ is not Optional:
                    given = f"'{show_key(key)}' from non-optional value {shown(value)}"
                    return CelError(f"cannot initialize optional entry {given}")
                value = value.value
            if failed(value):
                return value
            if key.__class__ in (list, dict):
                return CelError(f"unsupported key type: {type_of(key).name}")
            if value is ABSENT:
                values.pop(key, None)
            else:
                values[key] = value
        return values

    return build


def _map(node: ast.MapLiteral) -> Step:
    parts = [(plan(entry.key), plan(entry.value), entry.optional) for entry in node.entries]
    return _literal(_entries(parts), MAP_CREATION, (part for key, value, _ in parts for part in (key, value)))


def _struct(node: ast.StructLiteral) -> Step:
    build = _entries([(Constant(field.name), plan(field.value), field.optional) for field in node.fields])

    def evaluate(run: Run) -> Outcome:
        values = _charged(build(run), STRUCT_CREATION, run)
        try:
            return values if failed(values) else construct(node.type_name, values)
        except CelError as error:
            return error

    return Step(evaluate)


class Growing(list[Value]):
    """The list that a macro builds. It grows in place."""


def _fold(node: ast.Comprehension) -> Step:
    """A macro: a step for each element of a list or key of a map. Costs nothing itself."""
    over, init, condition, step, result = map(plan, (node.range, node.init, node.condition, node.step, node.result))
    accumulator, variable, variable2 = node.accumulator, node.variable, node.variable2

    def first(run: Run) -> Outcome:
        value = init.evaluate(run)
        if accumulator != "@result" or value:
            return value
        return Growing() if value.__class__ is list else dict(value) if value.__class__ is dict else value

    def pairs(elements: Value) -> Iterable[tuple[Value, Value]]:
        if variable2 is None:
            return zip(elements, repeat(None))
        return elements.items() if elements.__class__ is dict else enumerate(elements)

    def evaluate(run: Run) -> Outcome:
        elements = over.evaluate(run)
        if failed(elements):
            return elements
        if elements.__class__ in (str, bytes) and not elements and run.dialect.has(Feature.EMPTY_RANGES):
            elements = []
        if elements.__class__ not in (list, dict):
            name = type_of(elements).name
            if variable2 is None:
                return CelError(f"got '{name}', expected iterable type")
            return CelError(f"unsupported comprehension range type: {name}")
        scope: dict[str, Value] = {accumulator: Deferred(first)}
        run.scopes.append(scope)
        try:
            for key, value in pairs(elements):
                scope[variable] = key
                if variable2 is not None:
                    scope[variable2] = value
                if condition.evaluate(run) is False:
                    break
                scope[accumulator] = step.evaluate(run)
                run.turn()
            scope.pop(variable, None)
            if variable2 is not None:
                scope.pop(variable2, None)
            outcome = result.evaluate(run)
            return list(outcome) if outcome.__class__ is Growing else outcome
        finally:
            run.scopes.pop()

    return Step(evaluate)
