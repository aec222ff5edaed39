"""Calls one overload of a function in a CEL library, as the evaluation does when it has chosen the overload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from policies.cel.errors import BudgetError, CelError
from policies.cel.function import Function, Library, Overload
from policies.cel.types import Type


@dataclass(frozen=True)
class Failed:
    """The error of a call that fails."""

    message: str


def found(library: Library, id: str) -> tuple[Function, Overload]:
    """The overload with an id of the reference, and its function."""
    return next(
        (function, overload) for function in library.functions for overload in function.overloads if overload.id == id
    )


def outcome(library: Library, id: str, *arguments: Any) -> Any:
    """The overload's value for the arguments, or Failed."""
    function, overload = found(library, id)
    call = overload.call or function.call
    assert call is not None
    try:
        return call(*arguments)
    except (CelError, BudgetError) as error:
        return Failed(str(error))


def price(library: Library, id: str, *arguments: Any, result: Any = None) -> int:
    """The cost of the call if the types allow only this overload."""
    function, overload = found(library, id)
    cost = overload.cost if overload.cost is not None else function.cost
    if cost is None:
        return 1
    return cost if isinstance(cost, int) else cost(arguments, result)


def declared(library: Library) -> dict[str, list[str]]:
    """The overloads of each function by their signatures, in the order of their declaration."""
    return {
        function.name: [_signature(function, each) for each in function.overloads] for function in library.functions
    }


def _signature(function: Function, overload: Overload) -> str:
    parameters = list(map(_named, overload.parameters))
    target = f"{parameters.pop(0)}." if overload.member else ""
    taken = " stepwise" if overload.stepwise or function.stepwise else ""
    return f"{overload.id}: {target}({', '.join(parameters)}) -> {_named(overload.result)}{taken}"


def _named(type_: Type) -> str:
    if not type_.parameters:
        return type_.name
    return f"{type_.name}({', '.join(map(_named, type_.parameters))})"
