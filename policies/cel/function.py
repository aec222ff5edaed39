"""The declarations of a library: functions and their overloads, with implementations and costs.

The order of functions and overloads is the reference's, because the first overload whose parameters fit the values runs
if the types are not known in advance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policies.cel import types
from policies.cel.errors import CelError
from policies.cel.types import Type
from policies.cel.values import Value
from policies.kubernetes.release import Release

Implementation = Callable[..., Value]
"""Takes the values of the arguments, target first; raises CelError."""

Cost = Callable[[Sequence[Value], Value], int]
"""The cost of a call from its arguments (target first) and its result, which is a CelError of size 1 if it failed."""


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    `id`: the reference's overload id. `cost` applies only if the types allow no other overload; an int is a constant
    cost. `stepwise`: the first argument that fails ends the call, which then costs nothing (cel-go's FunctionBinding,
    which it has for three arguments and more); otherwise all are evaluated first (its UnaryBinding and BinaryBinding).
    """

    id: str
    parameters: tuple[Type, ...]
    result: Type
    call: Implementation | None = None  # None: the function's own
    member: bool = False
    cost: Cost | int | None = None
    stepwise: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A name with its overloads.

    `call`: one implementation for all overloads (cel-go's singleton binding), which checks the types itself. `cost`
    applies to all overloads without a cost of their own; without either a call costs 1. `work`: the microseconds that a
    call may take for each character or element of its arguments.
    """

    name: str
    overloads: tuple[Overload, ...]
    call: Implementation | None = None
    cost: Cost | int | None = None
    pattern: int | None = None  # the index of the argument that is a regular expression: literals are compiled early
    work: float = 0.0


@dataclass(frozen=True, slots=True)
class Library:
    """The functions of one extension, and the types that it adds, by name.

    since: the release of Kubernetes that added it; None if all followed releases have it. until: the one in which
    another version of it took its place. work: that of its functions.
    """

    name: str
    functions: tuple[Function, ...] = ()
    types: Mapping[str, Type] = field(default_factory=dict)
    since: Release | None = None
    until: Release | None = None
    work: float = 0.0


Row = str | tuple[str, Implementation] | tuple[str, Implementation | None, Cost | int]
"""A signature, its implementation, and its cost: `("string_char_at_int: string.charAt(int) -> string", call)`.

Before the colon stands the reference's overload id. Types with a name of one letter are variables.
"""


def library(
    name: str,
    *rows: Row,
    named: Mapping[str, Type] | None = None,
    calls: Mapping[str, Implementation] | None = None,
    costs: Mapping[str, Cost | int] | None = None,
    patterns: Collection[str] = (),
    stepwise: Collection[str] = (),
    **about: Any,
) -> Library:
    """A library with an overload for each row.

    named: the types of signatures beside CEL's own. calls: implementations for all overloads of a function. costs: of
    calls to which several overloads of a function may apply; otherwise that of each if it is the same. patterns:
    functions of which the second argument is a regular expression. stepwise: ids of such overloads with less than three
    arguments. about: the other fields of a Library.
    """
    known = {**_TYPES, **(named or {}), **about.get("types", {})}
    overloads: dict[str, list[Overload]] = {}
    for row in rows:
        signature, *rest = (row,) if isinstance(row, str) else row
        call, cost = (*rest, None, None)[:2]
        match = _SIGNATURE.fullmatch(signature)
        assert match is not None, signature  # noqa: S101 - the rows are our own
        id_, function, arguments, result = match.groups()
        target, _, method = function.rpartition(".")
        if member := target in known or target.endswith(")"):
            function, arguments = method, f"{target}, {arguments}"
        parameters = tuple(_type(parameter, known) for parameter in _PART.findall(arguments))
        overload = Overload(id_, parameters, _type(result, known), call, member, cost, id_ in stepwise)
        overloads.setdefault(function, []).append(overload)
    functions = []
    for function, several in overloads.items():
        cost = several[0].cost if len({overload.cost for overload in several}) == 1 else None
        cost, pattern = (costs or {}).get(function, cost), 1 if function in patterns else None
        functions.append(Function(function, tuple(several), (calls or {}).get(function), cost, pattern))
    return Library(name, tuple(functions), **about)


_TYPES = {t.name: t for t in (types.BOOL, types.BYTES, types.DOUBLE, types.DYN, types.INT, types.STRING, types.UINT)}
_TYPES |= {"duration": types.DURATION, "timestamp": types.TIMESTAMP}
_COMPOSED: Mapping[str, Callable[..., Type]] = {
    "list": types.list_of,
    "map": types.map_of,
    "optional": types.optional_of,
    "type": types.type_of,
}
# Types in types are read to the third level, as in optional(list(V)).
_PART = re.compile(r"[\w.]+(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?")
_SIGNATURE = re.compile(rf"(\S+): (.+?)\(((?:{_PART.pattern}(?:, )?)*)\) -> (.+)")


def _type(text: str, named: Mapping[str, Type]) -> Type:
    base, _, inner = text.partition("(")
    if inner:
        return _COMPOSED[base](*(_type(part, named) for part in _PART.findall(inner[:-1])))
    return named.get(base) or types.parameter(base)


def succeeds(read: Implementation) -> Implementation:
    """A function that returns whether an implementation accepts its arguments, such as `isIP` for `ip`."""

    def is_readable(*arguments: Value) -> bool:
        try:
            read(*arguments)
        except CelError:
            return False
        return True

    return is_readable
