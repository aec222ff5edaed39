"""cel-go's list functions: `slice`, `flatten`, `sort`, `lists.range`, `reverse` and `distinct`.

Source: version 3 of cel-go's ext/lists.go, with its costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from policies.cel import cost, types
from policies.cel.display import type_name
from policies.cel.equality import contains
from policies.cel.errors import BudgetError, CelError
from policies.cel.function import Cost, Function, Implementation, Library, Overload, single
from policies.cel.types import Type
from policies.cel.values import Duration, Timestamp, Uint, Value, lacking, type_of
from policies.golang.sort import sorted_indices

_COMPARABLE = (
    types.INT, types.UINT, types.DOUBLE, types.BOOL, types.DURATION, types.TIMESTAMP, types.STRING, types.BYTES,
)  # fmt: skip
_NATIVE = frozenset({int, Uint, float, bool, str, bytes})
_ALIKE_WHEN_EQUAL = _NATIVE - {float}
_TIMES = frozenset({Duration, Timestamp})
_STABLE = 12  # lengths up to this are sorted by insertion
_CALL = 1 + cost.LIST_CREATION
_LONGEST_RANGE = 1_000_000
_LONGEST = 2 * cost.EXPRESSION_LIMIT
"""The most elements of a flattened list. Its cost does not bound its length."""


def _slice(items: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: Value) -> list[Value]:
    if items.__class__ is not list:
        raise CelError(f"no such overload: {type_name(type_of(items))}.flatten()")
    return _flattened(items, 1)


def _flatten_to(items: Value, depth: Value) -> list[Value]:
    if items.__class__ is not list or depth.__class__ is not int:
        raise CelError(f"no such overload: {type_name(type_of(items))}.flatten({type_name(type_of(depth))})")
    if depth < 0:
        raise CelError("level must be non-negative")
    return _flattened(items, depth)


def _flattened(items: list[Value], depth: int) -> list[Value]:
    while depth > 0 and list in set(map(type, items)):
        flat: list[Value] = []
        for item in items:
            if item.__class__ is list:
                flat += item
            else:
                flat.append(item)
            if len(flat) > _LONGEST:
                raise BudgetError(len(flat))
        items, depth = flat, depth - 1
    return items


def _sort(items: Value) -> list[Value]:
    if items.__class__ is not list:
        raise lacking("sort", items)
    return _sort_by_keys(items, items)


def _sort_by_keys(items: Value, keys: Value) -> list[Value]:
    if items.__class__ is not list or keys.__class__ is not list:
        raise lacking("@sortByAssociatedKeys", items)
    if len(items) != len(keys):
        raise CelError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    classes = set(map(type, keys))
    if keys[0].__class__ not in _NATIVE and keys[0].__class__ not in _TIMES:
        raise CelError("list elements must be comparable")
    if len(classes) > 1:
        raise CelError("list elements must have the same type")
    if items is keys and classes <= _ALIKE_WHEN_EQUAL:
        return sorted(items)
    return [items[index] for index in _order(keys)]


def _order(keys: list[Any]) -> list[int]:
    """The positions in the order of the keys. Uses Python's stable sort if Go's would give the same order."""
    if keys[0].__class__ in _TIMES:
        keys = list(map(attrgetter("nanoseconds"), keys))
    same_as_itself = keys[0].__class__ is not float or all(key == key for key in keys)  # noqa: PLR0124 - without NaN
    if same_as_itself and (len(keys) <= _STABLE or len(set(keys)) == len(keys)):
        return sorted(range(len(keys)), key=keys.__getitem__)
    return sorted_indices(keys)


def _range(count: int) -> list[Value]:
    if count < 0:
        raise CelError(f"lists.range: size must be non-negative, got {count}")
    if count > _LONGEST_RANGE:
        raise CelError(f"lists.range: size {count} exceeds maximum allowed ({_LONGEST_RANGE})")
    return unbounded_range(count)


def unbounded_range(count: int) -> list[Value]:
    """`lists.range(count)` of 1.36. Raises BudgetError."""
    if count + _CALL > cost.EXPRESSION_LIMIT:
        raise BudgetError(count + _CALL)
    return list(range(count))


def _reverse(items: list[Value]) -> list[Value]:
    return items[::-1]


def _distinct(items: list[Value]) -> list[Value]:
    spent = _self_comparison(items)
    if spent > cost.EXPRESSION_LIMIT:  # the cost is known in advance
        raise BudgetError(spent)
    if set(map(type, items)) == {str}:
        return list(dict.fromkeys(items))
    unique: list[Value] = []
    for item in items:
        if not contains(unique, item):
            unique.append(item)
    return unique


def _self_comparison(items: Value) -> int:
    """The cost of comparing all pairs: 2 for each, or a little more for texts."""
    if items.__class__ is not list or not items:
        return _CALL
    factor = 2.0 + (cost.STRING_TRAVERSAL if items[0].__class__ in {str, bytes} else 0.0)
    return int(float(len(items) * len(items)) * factor) + _CALL


def _of_pairs(arguments: Sequence[Value], _: Value) -> int:
    return _self_comparison(arguments[-1])


def _of_result(_: Sequence[Value], result: Value) -> int:
    return cost.size(result) + _CALL


def _of_depth(arguments: Sequence[Value], result: Value) -> int:
    """The size of the list for each level, and once for a negative depth."""
    depth = arguments[1] if len(arguments) > 1 else 1
    if depth.__class__ is int and depth < 0:
        return cost.size(arguments[0]) + _CALL
    return of_any_depth(arguments, result)


def of_any_depth(arguments: Sequence[Value], _: Value) -> int:
    """The size of the list for each level. In 1.36 a negative depth wraps around."""
    depth = arguments[1] if len(arguments) > 1 and arguments[1].__class__ is int else 1
    product = float(cost.size(arguments[0])) * float(depth)
    return (max(int(product), -(2**63)) + _CALL) % 2**64 if product < 0 else int(product) + _CALL


_T = types.parameter("T")
_LIST, _NESTED = types.list_of(_T), types.list_of(types.list_of(_T))


def _member(
    name: str, id: str, parameters: tuple[Type, ...], call: Implementation, price: Cost, *, stepwise: bool = False
) -> Function:
    return single(name, id, parameters, _LIST, call, member=True, stepwise=stepwise, cost=price)


def _sorting(name: str, template: str, others: tuple[Type, ...], call: Implementation, price: Cost) -> Function:
    """A function with an overload for each sortable type, which is the element type of its last parameter."""
    overloads = tuple(
        Overload(
            id=template.format(element.name),
            parameters=(*others, types.list_of(element)),
            result=others[0] if others else types.list_of(element),
            member=True,
            cost=price,
        )
        for element in _COMPARABLE
    )
    return Function(name=name, overloads=overloads, call=call)


LIBRARY = Library(
    name="lists",
    functions=(
        _member("slice", "list_slice", (_LIST, types.INT, types.INT), _slice, _of_result, stepwise=True),
        Function(
            name="flatten",
            overloads=(
                Overload(
                    id="list_flatten", parameters=(_NESTED,), result=_LIST, call=_flatten, member=True, cost=_of_depth
                ),
                Overload(
                    id="list_flatten_int",
                    parameters=(types.LIST, types.INT),
                    result=types.LIST,
                    call=_flatten_to,
                    member=True,
                    cost=_of_depth,
                ),
            ),
            guarded=False,
        ),
        _sorting("sort", "list_{0}_sort", (), _sort, _of_pairs),
        _sorting("@sortByAssociatedKeys", "list_{0}_sortByAssociatedKeys", (_LIST,), _sort_by_keys, _of_pairs),
        single("lists.range", "lists_range", (types.INT,), types.list_of(types.INT), _range, cost=_of_result),
        _member("reverse", "list_reverse", (_LIST,), _reverse, _of_result),
        _member("distinct", "list_distinct", (_LIST,), _distinct, _of_pairs),
    ),
)
