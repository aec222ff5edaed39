"""Hints below a compile error about what the author may have meant."""

from __future__ import annotations

from collections.abc import Iterable

from policies.cel.function import Function, Overload
from policies.kubernetes.spelling import closest

_SHOWN = 6


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean 'object'?`, or empty if no name is close. Operators are not suggested."""
    near = closest(name, (other for other in known if other[:1].isalpha()))
    return f"did you mean '{near}'?" if near else ""


def signatures(function: Function) -> str:
    """The signatures of a function: `declared: string.startsWith(string) -> bool`."""
    shown = [_signature(function.name, overload) for overload in function.overloads[:_SHOWN]]
    if len(function.overloads) > _SHOWN:
        shown.append(f"and {len(function.overloads) - _SHOWN} more")
    return f"declared: {'; '.join(shown)}"


def _signature(name: str, overload: Overload) -> str:
    parameters = [str(parameter) for parameter in overload.parameters]
    operator = name.strip("_@")
    if len(parameters) == 2 and not operator.isidentifier():
        return f"{parameters[0]} {operator} {parameters[1]}"
    target = f"{parameters.pop(0)}." if overload.member else ""
    return f"{target}{name}({', '.join(parameters)}) -> {overload.result}"
