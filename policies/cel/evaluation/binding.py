"""The implementation and the cost of a call: the only overload that the types allow, or one that the values choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Cost, Function, Overload
from policies.cel.syntax import ast
from policies.cel.types import Kind, Type
from policies.cel.values import Optional, Value, type_of
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


def bind(node: ast.Call) -> CallBinding:
    """The binding of a checked call."""
    function = node.declared
    assert function is not None  # noqa: S101 - the checker has set it
    overload = node.overloads[0] if len(node.overloads) == 1 else None
    count = len(node.arguments)
    exact = function.call or (None if overload is None else overload.call)
    if function.call is not None:
        call, stepwise = function.call, False
    else:
        candidates = function.overloads if exact is None else node.overloads
        call = _choosing(function, candidates, count)
        stepwise = candidates[0].stepwise if len(candidates) == 1 else True
    cost = function.cost if overload is None or overload.cost is None else overload.cost
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


def _choosing(function: Function, overloads: Sequence[Overload], count: int) -> Callable[..., Value]:
    """A call of the first overload with so many parameters whose types fit the values."""
    candidates = [
        (overload.parameters, overload.call)
        for overload in overloads
        if overload.call is not None and len(overload.parameters) == count
    ]
    if len(candidates) == 1 and all(parameter.kind in _ANYTHING for parameter in candidates[0][0]):
        return candidates[0][1]

    def chosen(*values: Value) -> Value:
        for parameters, call in candidates:
            if all(map(fits, parameters, values)):
                return call(*values)
        given = ", ".join(type_of(value).name for value in values)
        raise CelError(f"no such overload: {function.name}({given})")

    return chosen


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


def literal_pattern(node: ast.Call) -> str | None:
    """The regular expression of a call if it is a string literal, else None."""
    given = node.arguments
    if node.declared is None or node.declared.pattern is None or node.declared.pattern >= len(given):
        return None
    pattern = given[node.declared.pattern]
    return pattern.value if isinstance(pattern, ast.Literal) and isinstance(pattern.value, str) else None


def text_only(call: Callable[..., Value]) -> Callable[..., Value]:
    """A search with a pattern that is known to be valid. It checks only the types of the other arguments."""

    def searching(text: Value, *rest: Value) -> Value:
        while text.__class__ is Optional:  # the reference looks for a string in the result of Go's Value()
            text = text.value
        if text.__class__ is Type:
            text = text.name
        if text.__class__ is not str or any(limit.__class__ is not int for limit in rest[1:]):
            raise no_such_overload()
        return call(text, *rest)

    return searching
