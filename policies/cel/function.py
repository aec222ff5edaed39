"""The declarations of a library: functions and their overloads, with implementations and costs.

The order of functions and overloads is the reference's, because the first overload whose parameters fit the values runs
if the types are not known in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from policies.cel.errors import CelError
from policies.cel.types import Type
from policies.cel.values import Value
from policies.kubernetes.release import Release

Implementation = Callable[..., Value]
"""Takes the values of the arguments, target first; raises CelError."""

Cost = Callable[[Sequence[Value], Value], int]
"""The cost of a call from its arguments (target first) and its result, which is a CelError of size 1 if it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """One signature of a function.

    `id`: the reference's overload id. `stepwise`: arguments are evaluated one by one, and the first that fails ends the
    call, which then costs nothing (cel-go's FunctionBinding); otherwise all are evaluated first (its UnaryBinding and
    BinaryBinding). `cost` applies only if the types allow no other overload; an int is a constant cost.
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

    `call`: one implementation for all overloads (cel-go's singleton binding), which checks the types itself;
    `stepwise` then applies to its arguments. `cost` applies to all overloads without a cost of their own; without
    either a call costs 1. `guarded` False: the implementation checks the types of its arguments itself (cel-go's
    DisableTypeGuards). `work`: the microseconds that a call may take for each character or element of its arguments.
    """

    name: str
    overloads: tuple[Overload, ...]
    call: Implementation | None = None
    stepwise: bool = False
    cost: Cost | int | None = None
    guarded: bool = True
    pattern: int | None = None  # the index of the argument that is a regular expression: literals are compiled early
    work: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The functions of one extension, and the types that it adds, by name.

    since: the release of Kubernetes that added it; None if all followed releases have it. until: the one in which
    another version of it took its place. work: that of its functions that do not say theirs.
    """

    name: str
    functions: tuple[Function, ...] = ()
    types: Mapping[str, Type] = field(default_factory=dict)
    since: Release | None = None
    until: Release | None = None
    work: float = 0.0


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
    """A function that returns whether an implementation accepts its arguments, such as `isIP` for `ip`."""

    def is_readable(*arguments: Value) -> bool:
        try:
            read(*arguments)
        except CelError:
            return False
        return True

    return is_readable
