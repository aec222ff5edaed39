"""The implementation of a checked call: the only overload that the types allow, or a choice by the values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Cost, Function, Overload
from policies.cel.syntax.ast import Call, Literal, Node
from policies.cel.types import Kind, Type
from policies.cel.values import Optional, Value, type_of

_ANYTHING = {Kind.DYN, Kind.PARAMETER}
_COMPOSED = {Kind.LIST, Kind.MAP}


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
    return CallBinding(
        call=call,
        cost=1 if cost is None else cost,
        stepwise=stepwise or len(arguments(node)) > 2,  # cel-go has unary, binary, and the rest
        exact=function.call or (overload.call if overload is not None else None),
    )


def arguments(node: Call) -> list[Node]:
    """The arguments of a call, target first."""
    return node.args if node.target is None else [node.target, *node.args]


def _implementation(function: Function, overload: Overload | None, node: Call) -> tuple[Callable[..., Value], bool]:
    if function.call is not None:
        return function.call, function.stepwise
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
    if not function.guarded or all(parameter.kind in _ANYTHING for parameter in overload.parameters):
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
            if not function.guarded or all(map(fits, overload.parameters, values)):
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
