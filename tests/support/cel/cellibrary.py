"""Calls a function of a CEL library as a program would, for the tests of the libraries."""

from __future__ import annotations

from typing import Any

from policies.cel.errors import CelError
from policies.cel.function import Function, Library, Overload
from policies.cel.types import Kind, Type
from policies.cel.values import ABSENT, Optional, type_of


def answer(library: Library, name: str, *arguments: Any) -> Any:
    """The result as JSON would show it, or the message of the error."""
    function, overload = chosen(library, name, *arguments)
    call = overload.call or function.call
    assert call is not None
    try:
        return shown(call(*arguments))
    except CelError as error:
        return f"error: {error.message}"


def charged(library: Library, name: str, *arguments: Any) -> int:
    """The cost of the call if the checker knows the overload."""
    function, overload = chosen(library, name, *arguments)
    cost = function.cost if overload.cost is None else overload.cost
    if cost is None or isinstance(cost, int):
        return 1 if cost is None else cost
    call = overload.call or function.call
    assert call is not None
    return cost(arguments, call(*arguments))


def chosen(library: Library, name: str, *arguments: Any) -> tuple[Function, Overload]:
    """The first overload that fits the arguments."""
    for function in library.functions:
        for overload in function.overloads:
            fits = len(overload.parameters) == len(arguments) and all(map(_fits, overload.parameters, arguments))
            if function.name == name and fits:
                return function, overload
    raise LookupError(name)


def _fits(parameter: Type, value: Any) -> bool:
    return parameter.name == type_of(value).name or parameter.kind is Kind.DYN


def shown(value: Any) -> Any:
    """A value in plain form: the engine's classes as text, optionals as lists of no or one element."""
    if isinstance(value, Optional):
        return [] if value.value is ABSENT else [shown(value.value)]
    return str(value) if hasattr(value, "cel_type") else value
