"""Turns a checked tree into steps. Like kube-apiserver (OptOptimize), it computes constant parts only once.

Literal lists and maps, conversions of literals (`duration('1h')`) and look-ups in literal lists become constants and
cost nothing at run time. A conversion that fails and an invalid pattern are compile errors. A call gets the only
overload that the types allow, or one that chooses by the values. Source: cel-go's interpreter/planner.go and
decorators.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from policies.cel.environment import NOT_A_VALUE
from policies.cel.equality import equal
from policies.cel.errors import CelError, no_such_overload
from policies.cel.evaluation.run import Constant, Run, Step, check_key, failed
from policies.cel.evaluation.steps import (
    Alternative,
    Attribute,
    CallStep,
    Choice,
    Fold,
    Growing,
    Lenient,
    ListStep,
    Logic,
    MapStep,
    Membership,
    Name,
    Operand,
    Presence,
    Qualifier,
    ReadStep,
    StructStep,
    grow,
)
from policies.cel.function import Cost, Function, Overload
from policies.cel.library.operators import add
from policies.cel.library.regex import compile_pattern
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
from policies.cel.types import Kind, Type
from policies.cel.values import Optional, Uint, Value, type_of
from policies.engine.interruption import spend

_ANYTHING = {Kind.DYN, Kind.PARAMETER}
_COMPOSED = {Kind.LIST, Kind.MAP}
_LONG = _ANYTHING | _COMPOSED | {Kind.STRING, Kind.BYTES}
_SIZED = frozenset({str, bytes, list, dict})
_SOME = 50  # characters or elements, with which a call takes no longer than any other


@dataclass(frozen=True, slots=True)
class CallBinding:
    """The implementation and cost of a call. stepwise: whether the first failing argument ends it."""

    call: Callable[..., Value]
    cost: Cost | int
    stepwise: bool
    exact: Callable[..., Value] | None
    """The overload's own implementation, for arguments whose types are known to fit; None for several overloads."""


def bind(node: Call) -> CallBinding:
    """The binding of a checked call."""
    function = node.declared
    assert function is not None  # noqa: S101 - the checker has set it
    overload = node.overloads[0] if len(node.overloads) == 1 else None
    cost = overload.cost if overload is not None and overload.cost is not None else function.cost
    call, stepwise = _implementation(function, overload, node)
    count = len(arguments(node))
    exact = function.call or (overload.call if overload is not None else None)
    return CallBinding(
        call=_announced(call, function, count),
        cost=1 if cost is None else cost,
        stepwise=stepwise or count > 2,  # cel-go has unary, binary, and the rest
        exact=None if exact is None else _announced(exact, function, count),
    )


def _announced(call: Callable[..., Value], function: Function, count: int) -> Callable[..., Value]:
    """The implementation, which first says how long it may take with so many arguments of their lengths."""
    work = function.work
    if not any(parameter.kind in _LONG for overload in function.overloads for parameter in overload.parameters):
        work = 0.0
    if not work or not count:
        return call

    def of_one(value: Value) -> Value:
        if value.__class__ in _SIZED and len(value) > _SOME:
            spend(len(value) * work)
        return call(value)

    def of_several(first: Value, second: Value, *others: Value) -> Value:
        if first.__class__ in _SIZED and len(first) > _SOME:
            spend(len(first) * work)
        if second.__class__ in _SIZED and len(second) > _SOME:
            spend(len(second) * work)
        return call(first, second, *others)

    return of_one if count == 1 else of_several


def arguments(node: Call) -> list[Node]:
    """The arguments of a call, target first."""
    return node.args if node.target is None else [node.target, *node.args]


def _implementation(function: Function, overload: Overload | None, node: Call) -> tuple[Callable[..., Value], bool]:
    if function.call is not None:
        return function.call, False
    if overload is not None and overload.call is not None:
        return _guarded(function, overload), overload.stepwise
    if len(function.overloads) == 1:
        only = function.overloads[0]
        return _guarded(function, only), only.stepwise
    return _chosen(function, len(arguments(node))), True


def _guarded(function: Function, overload: Overload) -> Callable[..., Value]:
    """The overload with a check of the values' types, unless the function checks them itself."""
    call = overload.call
    assert call is not None  # noqa: S101 - functions without an implementation have their own step
    if all(parameter.kind in _ANYTHING for parameter in overload.parameters):
        return call

    def guarded(*values: Value) -> Value:
        if all(map(fits, overload.parameters, values)):
            return call(*values)
        raise _unmatched(function, values)

    return guarded


def _chosen(function: Function, count: int) -> Callable[..., Value]:
    candidates = [
        (overload, overload.call)
        for overload in function.overloads
        if len(overload.parameters) == count and overload.call is not None
    ]

    def chosen(*values: Value) -> Value:
        for overload, call in candidates:
            if all(map(fits, overload.parameters, values)):
                return call(*values)
        raise _unmatched(function, values)

    return chosen


def _unmatched(function: Function, values: tuple[Value, ...]) -> CelError:
    return CelError(f"no such overload: {function.name}({', '.join(type_of(value).name for value in values)})")


def fits(parameter: Type, value: Value) -> bool:
    """Whether a value has the type of a parameter. In a list or map only the first element is checked."""
    if parameter.kind in _ANYTHING:
        return True
    if parameter.name != type_of(value).name:
        return False
    if parameter.kind not in _COMPOSED or not value:
        return True
    if parameter.kind is Kind.LIST:
        return fits(parameter.parameters[0], value[0])
    key, item = next(iter(value.items()))
    return fits(parameter.parameters[0], key) and fits(parameter.parameters[1], item)


def literal_pattern(node: Call) -> str | None:
    """The regular expression of a call if it is a string literal, else None."""
    if node.declared is None or node.declared.pattern is None:
        return None
    given = arguments(node)
    if node.declared.pattern >= len(given):
        return None
    pattern = given[node.declared.pattern]
    return pattern.value if isinstance(pattern, Literal) and isinstance(pattern.value, str) else None


def _native(value: Value) -> Value:
    """The result of Go's Value() for a value. The reference looks for a string there."""
    while value.__class__ is Optional:
        value = value.value
    return value.name if value.__class__ is Type else value


def text_only(call: Callable[..., Value]) -> Callable[..., Value]:
    """A search with a pattern that is known to be valid. It checks only the types of the other arguments."""

    def searching(text: Value, *rest: Value) -> Value:
        if text.__class__ is not str:
            text = _native(text)
        if text.__class__ is not str or any(limit.__class__ is not int for limit in rest[1:]):
            raise no_such_overload()
        return call(text, *rest)

    return searching


CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_PRIMITIVE = (bool, int, Uint, float, str)


class PlanError(Exception):
    """A constant part of an expression cannot be computed; `node` is that part."""

    def __init__(self, node: Node, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.message = message
        self.hint = hint


def plan(node: Node) -> Step:  # noqa: PLR0911 - one return per kind of node
    """The step of a checked node. Raises PlanError."""
    match node:
        case Literal():
            return Constant(node.value)
        case Ident():
            return _plan_ident(node)
        case Select():
            return _plan_select(node)
        case Call():
            return _CALLS.get(node.function, _plan_call)(node)
        case ListLiteral():
            return _plan_list(node)
        case MapLiteral():
            return _plan_map(node)
        case StructLiteral():
            fields = [(field.name, plan(field.value), field.optional) for field in node.fields]
            return StructStep(node.type_name, fields)
        case Comprehension():
            parts = [plan(part) for part in (node.range, node.init, node.condition, node.step, node.result)]
            return Fold((node.accumulator, node.variable, node.variable2), parts)
        case _:
            raise TypeError(f"not an expression: {node}")


def _plan_ident(node: Ident) -> Step:
    if node.constant is not None:
        return _plan_type(node, node.constant[0])
    if node.type is not None and node.type.kind is Kind.TYPE:  # cel-go reads any name with this type as a type's name
        hint = "a name that holds a type cannot be read in Kubernetes; write dyn(...) where it gets its value: dyn(int)"
        raise PlanError(node, f"reference to undefined type: {node.name}", hint)
    return ReadStep(Name(node.name))


def _plan_type(node: Ident | Select, value: Value) -> Step:
    if value is NOT_A_VALUE:
        raise PlanError(node, f"reference to undefined type: {node.name}")
    return Constant(value)


def _plan_select(node: Select) -> Step:
    if node.constant is not None:
        return _plan_type(node, node.constant[0])
    if node.name is not None:
        return ReadStep(Name(node.name))
    attribute = _attribute(plan(node.operand))
    key, typed = Constant(node.field), _is_patch_part(node.operand)
    qualifier = Presence(key, typed=typed) if node.test_only else Qualifier(key, typed=typed)
    attribute.add(qualifier)
    return ReadStep(attribute, presence=node.test_only)


def _attribute(step: Step) -> Attribute:
    return step.attribute if isinstance(step, ReadStep) and not step.presence else Operand(step)


def _is_patch_part(node: Node) -> bool:
    return node.type is not None and node.type.kind is Kind.STRUCT and node.type.name.split(".")[0] == "Object"


def _plan_index(node: Call) -> Step:
    operand, index = map(plan, arguments(node))
    attribute = _attribute(operand)
    if isinstance(index, Constant):
        try:
            check_key(index.value)
        except CelError as error:
            raise PlanError(node, error.message) from None
    key = index.attribute if isinstance(index, ReadStep) else index
    attribute.add(Qualifier(key, optional=node.function != "_[_]"))
    return ReadStep(attribute)


def _branch(step: Step) -> Attribute:
    """The attribute of a branch. Unlike `_attribute`, it does not wrap a presence test."""
    return step.attribute if isinstance(step, ReadStep) else Operand(step)


def _plan_choice(node: Call) -> Step:
    condition, truthy, falsy = map(plan, node.args)
    return ReadStep(Choice(condition, _branch(truthy), _branch(falsy)))


def _plan_logic(node: Call) -> Step:
    return Logic(list(map(plan, node.args)), decisive=node.function == "_||_")


def _plan_alternative(node: Call) -> Step:
    left, right = map(plan, arguments(node))
    return Alternative(left, right, unwrap=node.function == "orValue")


def _plan_in(node: Call) -> Step:
    item, container = map(plan, node.args)
    if node.overloads[0].id == "in_list" and len(node.overloads) == 1 and isinstance(container, Constant):
        if container.value == []:
            return Constant(value=False)
        contains = membership(container.value)
        if contains is not None:
            return Membership(item, contains)
    return _call_step(node, [item, container])


def membership(values: Value) -> Callable[[Value], bool] | None:
    """A look-up in literal values; None if one of them is not a plain value."""
    if failed(values) or any(value.__class__ not in _PRIMITIVE for value in values):
        return None
    known = frozenset(values)
    if all(value.__class__ is str for value in values):
        return lambda item: item.__class__ is str and item in known
    return lambda item: any(equal(value, item) for value in values)


def _add(left: Value, right: Value) -> Value:
    return grow(left, right) if left.__class__ is Growing else add(left, right)


def _plan_call(node: Call) -> Step:
    return _call_step(node, list(map(plan, arguments(node))))


def _call_step(node: Call, given: list[Step], call: Callable[..., Value] | None = None) -> Step:
    binding = bind(node)
    call, stepwise = call or binding.call, binding.stepwise
    pattern = _literal_pattern(node, given)
    if pattern is not None:
        try:
            compile_pattern(pattern)
        except CelError as error:
            raise PlanError(node, error.message) from None
        call, stepwise = text_only(binding.exact or call), True
    step = CallStep(given, call, binding.cost, stepwise=stepwise)
    if node.function in CONVERSIONS and len(given) == 1 and isinstance(given[0], Constant):
        value = step.evaluate(Run({}))
        if failed(value):
            raise PlanError(node, value.message)
        return Constant(value)
    return step


def _literal_pattern(node: Call, given: list[Step]) -> str | None:
    """The regular expression of a call if it is constant, else None."""
    if node.declared is None or node.declared.pattern is None or node.declared.pattern >= len(given):
        return None
    pattern = given[node.declared.pattern]
    return pattern.value if isinstance(pattern, Constant) and pattern.value.__class__ is str else None


def _plan_list(node: ListLiteral) -> Step:
    elements = list(map(plan, node.elements))
    step = ListStep(elements, node.optional)
    return Constant(step.build(Run({}))) if all(isinstance(element, Constant) for element in elements) else step


def _plan_map(node: MapLiteral) -> Step:
    entries = [(plan(entry.key), plan(entry.value), entry.optional) for entry in node.entries]
    step = MapStep(entries)
    constant = all(isinstance(part, Constant) for key, value, _ in entries for part in (key, value))
    return Constant(step.build(Run({}))) if constant else step


_CALLS: dict[str, Callable[[Call], Step]] = {
    "_&&_": _plan_logic,
    "_||_": _plan_logic,
    "_?_:_": _plan_choice,
    "_[_]": _plan_index,
    "_[?_]": _plan_index,
    "_?._": _plan_index,
    "@not_strictly_false": lambda node: Lenient(plan(node.args[0])),
    "or": _plan_alternative,
    "orValue": _plan_alternative,
    "@in": _plan_in,
    "_+_": lambda node: _call_step(node, list(map(plan, node.args)), _add),
}
