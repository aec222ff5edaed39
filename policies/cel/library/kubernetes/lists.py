"""Kubernetes' own list functions: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf` and `includes`.

Source: k8s.io/apiserver's pkg/cel/library/lists.go and cost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from operator import attrgetter, gt
from typing import Any

from policies.cel import cost, types
from policies.cel.equality import alike
from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Function, Implementation, Library, Overload, function, single
from policies.cel.ordering import compare
from policies.cel.types import Type
from policies.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint, Value
from policies.kubernetes.release import named

_COMPARABLE = {
    "int": types.INT, "uint": types.UINT, "double": types.DOUBLE, "bool": types.BOOL, "duration": types.DURATION,
    "timestamp": types.TIMESTAMP, "string": types.STRING, "bytes": types.BYTES,
}  # fmt: skip
_NATIVE = frozenset({int, Uint, float, bool, str, bytes})
_ORDERED = _NATIVE | {Duration, Timestamp}
_LENGTH_OF_TIME = attrgetter("nanoseconds")


def _key_of(items: list[Value]) -> tuple[bool, Callable[[Any], Any] | None]:
    """Whether all items have the same ordered type, so that Python can compare them, and the key function for that.

    Raises CelError if an item has no order.
    """
    classes = set(map(type, items))
    if not classes <= _ORDERED:
        raise no_such_overload()
    if len(classes) > 1:
        return False, None
    return True, None if classes <= _NATIVE else _LENGTH_OF_TIME


def _is_sorted(items: list[Value]) -> bool:
    """Whether the items are sorted. Neighbours that cannot be compared, such as those of two types, count as sorted."""
    classes = set(map(type, items))
    if len(classes) == 1 and classes <= _NATIVE:
        return not any(map(gt, items, islice(items, 1, None)))
    for index, item in enumerate(items):
        if item.__class__ not in _ORDERED:
            raise no_such_overload()
        if index and _comparison(items[index - 1], item) > 0:
            return False
    return True


def _comparison(left: Value, right: Value) -> int:
    """The order of two values; 0 if they cannot be compared."""
    try:
        return compare(left, right)
    except CelError:
        return 0


def _extreme(choose: Callable[..., Value], replaced_at: int, items: list[Value]) -> Value:
    if not items:
        raise CelError(f"{choose.__name__} called on empty list")
    of_one_type, key = _key_of(items)
    return choose(items, key=key) if of_one_type else _preferred(items, replaced_at)


def _preferred(items: list[Value], replaced_at: int) -> Value:
    """The best item. It starts as the first one; each item whose comparison with it gives `replaced_at` replaces it."""
    best = items[0]
    for item in items[1:]:
        if _comparison(best, item) == replaced_at:
            best = item
    return best


def _sum_of_doubles(items: list[Value]) -> float:
    total = 0.0
    for item in items:
        if item.__class__ is not float:
            raise no_such_overload()
        total += item
    return total


def _nanoseconds(item: Value) -> int:
    if item.__class__ is not Duration:
        raise no_such_overload()
    return int(item.nanoseconds)


def _total(kind: type[int], items: Iterable[Value], low: int, high: int, failure: str) -> int:
    total = 0
    for item in items:
        if item.__class__ is not kind:
            raise no_such_overload()
        total += int(item)
        if not low <= total <= high:
            raise CelError(failure)
    return total


def _index_of(items: list[Value], item: Value) -> int:
    return next((index for index, candidate in enumerate(items) if alike(candidate, item)), -1)


def _last_index_of(items: list[Value], item: Value) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if alike(items[index], item)), -1)


def _for_each(name: str, template: str, result: Type | None, call: Implementation) -> Function:
    overloads = tuple(
        Overload(
            id=template.format(element), parameters=(types.list_of(of),), result=result or of, call=call, member=True
        )
        for element, of in _COMPARABLE.items()
    )
    return function(name, *overloads, cost=cost.of_tree)


_SUMS: dict[str, Implementation] = {
    "int": lambda items: _total(int, items, INT_MIN, INT_MAX, "integer overflow"),
    "uint": lambda items: Uint(_total(Uint, items, 0, UINT_MAX, "unsigned integer overflow")),
    "double": _sum_of_doubles,
    "duration": lambda items: Duration(_total(int, map(_nanoseconds, items), INT_MIN, INT_MAX, "integer overflow")),
}
_ANY = types.parameter("A")


def _includes(value: Value, item: Value) -> bool:
    """Whether a list has an item, or another value is that item."""
    return any(alike(own, item) for own in (value if value.__class__ is list else (value,)))


def _search(name: str, id: str, call: Implementation) -> Function:
    return single(name, id, (types.list_of(_ANY), _ANY), types.INT, call, member=True, cost=cost.of_tree)


INCLUDES = Library(
    name="kubernetes.lists",
    since=named("1.37"),
    functions=(
        single(
            "includes",
            "list_includes_dyn_dyn",
            (types.DYN, types.DYN),
            types.BOOL,
            _includes,
            member=True,
            cost=cost.of_tree,
        ),
    ),
)

LIBRARY = Library(
    name="kubernetes.lists",
    functions=(
        _for_each("isSorted", "list_{0}_is_sorted_bool", types.BOOL, _is_sorted),
        Function(
            name="sum",
            overloads=tuple(
                Overload(
                    id=f"list_{element}_sum_{element}",
                    parameters=(types.list_of(_COMPARABLE[element]),),
                    result=_COMPARABLE[element],
                    call=call,
                    member=True,
                )
                for element, call in _SUMS.items()
            ),
            cost=cost.of_tree,
        ),
        _for_each("max", "list_{0}_max_{0}", None, partial(_extreme, max, -1)),
        _for_each("min", "list_{0}_min_{0}", None, partial(_extreme, min, 1)),
        _search("indexOf", "list_a_index_of_int", _index_of),
        _search("lastIndexOf", "list_a_last_index_of_int", _last_index_of),
    ),
)
