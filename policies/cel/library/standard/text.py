"""Searches in text: `contains`, `startsWith` and `endsWith`.

Source: cel-go's common/stdlib/standard.go, common/types/string.go and interpreter/runtimecost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from policies.cel import cost, types
from policies.cel.errors import no_such_overload
from policies.cel.function import Cost, Function, Library, Overload
from policies.cel.values import Value


def _contains_cost(arguments: Sequence[Value], _: Value) -> int:
    return cost.traversal(arguments[0]) * cost.traversal(arguments[1])


def _function(name: str, id: str, search: Callable[[str, str], bool], price: Cost) -> Function:
    def call(text: Value, part: Value) -> bool:
        if text.__class__ is not str or part.__class__ is not str:
            raise no_such_overload()  # the message names no types, because the reference checks them late here
        return search(text, part)

    strings = (types.STRING, types.STRING)
    overload = Overload(id=id, parameters=strings, result=types.BOOL, call=call, member=True, cost=price)
    return Function(name=name, overloads=(overload,), guarded=False)


LIBRARY = Library(
    name="text",
    functions=(
        _function("contains", "contains_string", str.__contains__, _contains_cost),
        _function("endsWith", "ends_with_string", str.endswith, cost.of_second),
        _function("startsWith", "starts_with_string", str.startswith, cost.of_second),
    ),
)
