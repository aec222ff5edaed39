"""Lists as sets: `sets.contains`, `sets.equivalent` and `sets.intersects`.

Source: cel-go's ext/sets.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from policies.cel import cost, types
from policies.cel.equality import contains
from policies.cel.errors import BudgetError
from policies.cel.function import Function, Library, single
from policies.cel.values import Value

_LIST = types.list_of(types.parameter("T"))


def _contains(items: list[Value], part: list[Value]) -> bool:
    return all(contains(items, item) for item in part)


def _equivalent(left: list[Value], right: list[Value]) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: list[Value], right: list[Value]) -> bool:
    return any(contains(right, item) for item in left)


def _function(name: str, id: str, call: Callable[[list[Value], list[Value]], bool], passes: int) -> Function:
    """A function that does not start if it is too expensive: its cost is known in advance."""

    def price(arguments: Sequence[Value], _: Value) -> int:
        return 1 + passes * cost.size(arguments[0]) * cost.size(arguments[1])

    def bounded(left: list[Value], right: list[Value]) -> bool:
        spent = 1 + passes * len(left) * len(right)
        if spent > cost.EXPRESSION_LIMIT:
            raise BudgetError(spent)
        return call(left, right)

    return single(name, id, (_LIST, _LIST), types.BOOL, bounded, cost=price)


LIBRARY = Library(
    name="sets",
    functions=(
        _function("sets.contains", "list_sets_contains_list", _contains, 1),
        _function("sets.equivalent", "list_sets_equivalent_list", _equivalent, 2),
        _function("sets.intersects", "list_sets_intersects_list", _intersects, 1),
    ),
)
