"""What a library declares: functions, their overloads, what each does and what it costs.

A library is one module with `LIBRARY = Library(...)`. The order of functions and overloads is the reference's:
the first overload whose parameters fit the values is the one that runs when types are not known before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from policies.cel.errors import CelError
from policies.cel.types import Type
from policies.cel.values import Value

Implementation = Callable[..., Value]
"""Takes the values of the arguments, the target first; raises CelError."""

Cost = Callable[[Sequence[Value], Value], int]
"""What a call costs, from its arguments (target first) and its result; a failed one is a CelError, of size 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """One signature of a function.

    `id` is the reference's overload id. `stepwise`: arguments are taken one after the other and the first that fails
    ends the call, which then costs nothing (cel-go's FunctionBinding); otherwise all are evaluated first (its
    UnaryBinding and BinaryBinding). `cost` counts only where this overload is the single one that the types allow;
    an int stands for a cost that is always the same.
    """

    id: str
    parameters: tuple[Type, ...]
    result: Type
    call: Implementation | None = None  # None: the function's own
    member: bool = False
    stepwise: bool = False
    cost: Cost | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A name with its overloads.

    `call` is one implementation for all overloads (cel-go's singleton binding), which looks at the types itself;
    `stepwise` then says how its arguments are taken. `cost` is by name, for whichever overload runs; an overload's
    own comes first. Without either a call costs 1. `guarded` False: the implementation checks the types of its
    arguments itself (cel-go's DisableTypeGuards).
    """

    name: str
    overloads: tuple[Overload, ...]
    call: Implementation | None = None
    stepwise: bool = False
    cost: Cost | int | None = None
    guarded: bool = True
    pattern: int | None = None  # which argument is a regular expression: a literal is compiled early


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The functions of one extension, and the names of types that it makes known."""

    name: str
    functions: tuple[Function, ...] = ()
    types: Mapping[str, Type] = field(default_factory=dict)


def function(name: str, *overloads: Overload, cost: Cost | int | None = None) -> Function:
    """A function with its overloads in the reference's order."""
    return Function(name=name, overloads=overloads, cost=cost)


def single(
    name: str,
    id: str,
    parameters: tuple[Type, ...],
    result: Type,
    call: Implementation | None = None,
    *,
    member: bool = False,
    stepwise: bool = False,
    cost: Cost | int | None = None,
) -> Function:
    """A function with one overload; the cost is the function's."""
    overload = Overload(id=id, parameters=parameters, result=result, call=call, member=member, stepwise=stepwise)
    return function(name, overload, cost=cost)


def succeeds(read: Implementation) -> Implementation:
    """Whether an implementation takes its arguments: `isIP` asks it of `ip`."""

    def is_readable(*arguments: Value) -> bool:
        try:
            read(*arguments)
        except CelError:
            return False
        return True

    return is_readable
