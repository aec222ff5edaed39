"""Functions of lists, sets and maps: cel-go's, Kubernetes' own, and `cel.@mapInsert`.

Sources: cel-go's ext/lists.go (version 3), ext/sets.go and ext/comprehensions.go; k8s.io/apiserver's
pkg/cel/library/lists.go. Costs are from k8s.io/apiserver's pkg/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter, gt

from policies.cel import cost
from policies.cel.environment import Implementation, Row, library
from policies.cel.equality import alike, compare, contains, find
from policies.cel.evaluation.run import show_key
from policies.cel.library.operators import add
from policies.cel.values import (
    ABSENT,
    BudgetError,
    CelError,
    Duration,
    Timestamp,
    Uint,
    Value,
    lacking,
    no_such_overload,
    type_name,
    type_of,
)
from policies.engine.interruption import spend
from policies.kubernetes.release import V1_37

_SORTABLE = {
    name: f"google.protobuf.{name.capitalize()}" if name in ("duration", "timestamp") else name
    for name in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
}
"""The types whose lists have an order, with their names in the ids of overloads of `sort`."""
_NATIVE = frozenset({int, Uint, float, bool, str, bytes})
_ALIKE_WHEN_EQUAL = _NATIVE - {float}
_TIMES = frozenset({Duration, Timestamp})
_ORDERED = _NATIVE | _TIMES
_LENGTH_OF_TIME = attrgetter("nanoseconds")
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


def _flatten(items: Value, *levels: Value) -> list[Value]:
    if items.__class__ is not list or any(level.__class__ is not int for level in levels):
        given = ", ".join(type_name(type_of(level)) for level in levels)
        raise CelError(f"no such overload: {type_name(type_of(items))}.flatten({given})")
    depth = levels[0] if levels else 1
    if depth < 0:
        raise CelError("level must be non-negative")
    kept: list[Value] = items
    while depth > 0 and list in set(map(type, kept)):
        flat: list[Value] = []
        spend(len(kept) * 0.1)
        for item in kept:
            if item.__class__ is list:
                flat += item
            else:
                flat.append(item)
            if len(flat) > _LONGEST:
                raise BudgetError(len(flat))
        kept, depth = flat, depth - 1
    return kept


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
    if keys[0].__class__ not in _ORDERED:
        raise CelError("list elements must be comparable")
    if len(classes) > 1:
        raise CelError("list elements must have the same type")
    if items is keys and classes <= _ALIKE_WHEN_EQUAL:
        return sorted(items)
    order = list(map(_LENGTH_OF_TIME, keys)) if keys[0].__class__ in _TIMES else keys
    return [items[index] for index in sorted(range(len(items)), key=order.__getitem__)]


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
    spend(count * 0.03)
    return list(range(count))


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
    return _CALL if result.__class__ is CelError else cost.size(result) + _CALL


def of_any_result(_: Sequence[Value], result: Value) -> int:
    """The size of the result before 1.38, in which a failure counts as 1."""
    return cost.size(result) + _CALL


def _of_depth(arguments: Sequence[Value], _: Value) -> int:
    """The size of the list for each level; none for a negative depth."""
    depth = arguments[1] if len(arguments) > 1 and arguments[1].__class__ is int else 1
    return cost.size(arguments[0]) * max(depth, 0) + _CALL


CEL_LISTS = library(
    "lists",
    ("list_slice: list(T).slice(int, int) -> list(T)", _slice, _of_result),
    ("list_flatten: list(list(T)).flatten() -> list(T)", None, _of_depth),
    ("list_flatten_int: list(dyn).flatten(int) -> list(dyn)", None, _of_depth),
    *((f"list_{of}_sort: list({name}).sort() -> list({name})", None, _of_pairs) for name, of in _SORTABLE.items()),
    *(
        (f"list_{of}_sortByAssociatedKeys: list(T).@sortByAssociatedKeys(list({name})) -> list(T)", None, _of_pairs)
        for name, of in _SORTABLE.items()
    ),
    ("lists_range: lists.range(int) -> list(int)", _range, _of_result),
    ("list_reverse: list(T).reverse() -> list(T)", lambda items: items[::-1], _of_result),
    ("list_distinct: list(T).distinct() -> list(T)", _distinct, _of_pairs),
    calls={"flatten": _flatten, "sort": _sort, "@sortByAssociatedKeys": _sort_by_keys},
    costs={"sort": 1, "@sortByAssociatedKeys": 1},
    work=0.5,
)


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
    try:
        return compare(left, right)
    except CelError:
        return 0


def _extreme(choose: Callable[..., Value], replaced_at: int, items: list[Value]) -> Value:
    if not items:
        raise CelError(f"{choose.__name__} called on empty list")
    classes = set(map(type, items))
    if not classes <= _ORDERED:
        raise no_such_overload()
    if len(classes) == 1:  # so that Python can compare them
        return choose(items, key=None if classes <= _NATIVE else _LENGTH_OF_TIME)
    best = items[0]
    for item in items[1:]:
        if _comparison(best, item) == replaced_at:
            best = item
    return best


def _total(kind: type, items: list[Value], start: Value = 0) -> Value:
    total = start
    for item in items:
        if item.__class__ is not kind:
            raise no_such_overload()
        total = total + item if kind is float else add(total, item)
    return total


def _index_of(items: list[Value], item: Value) -> int:
    return next((index for index, candidate in enumerate(items) if alike(candidate, item)), -1)


def _last_index_of(items: list[Value], item: Value) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if alike(items[index], item)), -1)


_SUMS: dict[str, Implementation] = {
    "int": lambda items: _total(int, items),
    "uint": lambda items: _total(Uint, items, Uint(0)),
    "double": lambda items: _total(float, items, 0.0),
    "duration": lambda items: _total(Duration, items, Duration(0)),
}


def _includes(value: Value, item: Value) -> bool:
    """Whether a list has an item, or another value is that item."""
    return any(alike(own, item) for own in (value if value.__class__ is list else (value,)))


def _of_each(signature: str, call: Implementation) -> Iterator[Row]:
    """A row for each type whose lists have an order, of which the signature has the name as {0}."""
    return ((signature.format(name), call, cost.of_tree) for name in _SORTABLE)


LISTS = library(
    "kubernetes.lists",
    *_of_each("list_{0}_is_sorted_bool: list({0}).isSorted() -> bool", _is_sorted),
    *((f"list_{of}_sum_{of}: list({of}).sum() -> {of}", call, cost.of_tree) for of, call in _SUMS.items()),
    *_of_each("list_{0}_max_{0}: list({0}).max() -> {0}", partial(_extreme, max, -1)),
    *_of_each("list_{0}_min_{0}: list({0}).min() -> {0}", partial(_extreme, min, 1)),
    ("list_a_index_of_int: list(A).indexOf(A) -> int", _index_of, cost.of_tree),
    ("list_a_last_index_of_int: list(A).lastIndexOf(A) -> int", _last_index_of, cost.of_tree),
    until=V1_37,
    work=0.5,
)
_INCLUDES = library("", ("list_includes_dyn_dyn: dyn.includes(dyn) -> bool", _includes, cost.of_tree))
VERSION_1 = replace(LISTS, functions=LISTS.functions + _INCLUDES.functions, since=V1_37, until=None)


def _contains(items: list[Value], part: list[Value]) -> bool:
    return all(contains(items, item) for item in part)


def _bounded(
    call: Callable[[list[Value], list[Value]], bool], passes: int
) -> tuple[Implementation, Callable[[Sequence[Value], Value], int]]:
    """A function that does not start if it is too expensive, and its cost, which is known in advance."""

    def price(arguments: Sequence[Value], _: Value) -> int:
        return 1 + passes * cost.size(arguments[0]) * cost.size(arguments[1])

    def bounded(left: list[Value], right: list[Value]) -> bool:
        spent = price((left, right), None)
        if spent > cost.EXPRESSION_LIMIT:
            raise BudgetError(spent)
        return call(left, right)

    return bounded, price


SETS = library(
    "sets",
    ("list_sets_contains_list: sets.contains(list(T), list(T)) -> bool", *_bounded(_contains, 1)),
    (
        "list_sets_equivalent_list: sets.equivalent(list(T), list(T)) -> bool",
        *_bounded(lambda left, right: _contains(left, right) and _contains(right, left), 2),
    ),
    (
        "list_sets_intersects_list: sets.intersects(list(T), list(T)) -> bool",
        *_bounded(lambda left, right: any(contains(right, item) for item in left), 1),
    ),
)


def insert(mapping: dict[Value, Value], key: Value, value: Value) -> dict[Value, Value]:
    """The map with one more entry, added in place: only macros call it, on their own map. A known key is a CelError."""
    if find(mapping, key) is not ABSENT:
        raise CelError(f"insert failed: key {show_key(key)} already exists")
    mapping[key] = value
    return mapping


def insert_all(mapping: dict[Value, Value], entries: dict[Value, Value]) -> dict[Value, Value]:
    """The map with all entries of another one, added in place."""
    spend(len(entries) * 0.3)
    for key, value in entries.items():
        insert(mapping, key, value)
    return mapping


COMPREHENSIONS = library(
    "comprehensions",
    ("@mapInsert_map_key_value: cel.@mapInsert(map(K, V), K, V) -> map(K, V)", insert),
    ("@mapInsert_map_map: cel.@mapInsert(map(K, V), map(K, V)) -> map(K, V)", insert_all),
)
