"""`== != < <= > >= in`, `size`, logic and indexing. Logic and indexing are not strict, so they have only signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

from policies.cel import types
from policies.cel.cost import STRING_TRAVERSAL, size
from policies.cel.equality import alike, compare, contains, equal, find
from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Function, Library, Overload, function, single
from policies.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type
from policies.cel.values import ABSENT, Duration, Incomparable, Timestamp, Uint, Value, lacking

_A, _B = types.parameter("A"), types.parameter("B")
_LIST_OF_A, _MAP_OF_AB = types.list_of(_A), types.map_of(_A, _B)
_ORDERED = (bool, int, Uint, float, str, bytes, Duration, Timestamp)


def different(left: Value, right: Value) -> bool:
    """`left != right`, which is also true for values that cannot be compared."""
    return not alike(left, right)


def _ordered(name: str, holds: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    unsupported = f"no such overload: {name}"

    def relation(left: Value, right: Value) -> bool:
        if left.__class__ not in _ORDERED:
            raise CelError(unsupported)
        return holds(compare(left, right))

    return relation


less = _ordered("_<_", lambda order: order < 0)
less_or_equal = _ordered("_<=_", lambda order: order <= 0)
greater = _ordered("_>_", lambda order: order > 0)
greater_or_equal = _ordered("_>=_", lambda order: order >= 0)


def is_in(item: Value, container: Value) -> bool:
    """`item in container`, for an element of a list or a key of a map."""
    if container.__class__ is dict:
        return find(container, item) is not ABSENT
    if container.__class__ is list:
        return contains(container, item)
    raise no_such_overload()


def length(value: Value) -> int:
    """`size(value)`: characters, bytes, elements or entries."""
    if value.__class__ in (str, list, dict, bytes):
        return len(value)
    raise lacking("size", value)


def opposite(value: Value) -> bool:
    """`!value`."""
    if value.__class__ is not bool:
        raise no_such_overload()
    return not value


def _smaller(arguments: Sequence[Value], _: Value) -> int:
    """The cost of one pass over the smaller of two values."""
    return ceil(min(size(arguments[0]), size(arguments[1])) * STRING_TRAVERSAL)


def _equality(arguments: Sequence[Value], result: Value) -> int:
    """The cost of one pass over the smaller value; 1 for types of Kubernetes' libraries, whatever their size."""
    return 1 if isinstance(arguments[0], Incomparable) else _smaller(arguments, result)


def _elements(arguments: Sequence[Value], _: Value) -> int:
    return size(arguments[1])


def _comparison(name: str, id_: str, call: Callable[[Value, Value], bool]) -> Function:
    def overload(left: Type, right: Type) -> Overload:
        names = {DURATION: "duration", TIMESTAMP: "timestamp", INT: "int64", UINT: "uint64"}
        suffix = names.get(left, left.name) + ("" if left == right else "_" + names.get(right, right.name))
        return Overload(
            id=f"{id_}_{suffix}",
            parameters=(left, right),
            result=BOOL,
            cost=_smaller if left in (STRING, BYTES) else None,
        )

    numbers = [(INT, INT), (INT, DOUBLE), (INT, UINT), (UINT, UINT), (UINT, DOUBLE), (UINT, INT)]
    numbers += [(DOUBLE, DOUBLE), (DOUBLE, INT), (DOUBLE, UINT)]
    pairs = [(BOOL, BOOL), *numbers, *((kind, kind) for kind in (STRING, BYTES, TIMESTAMP, DURATION))]
    return Function(name=name, overloads=tuple(overload(*pair) for pair in pairs), call=call)


def _sizes(kind: Type, name: str) -> tuple[Overload, Overload]:
    return (
        Overload(id=f"size_{name}", parameters=(kind,), result=INT),
        Overload(id=f"{name}_size", parameters=(kind,), result=INT, member=True),
    )


LIBRARY = Library(
    name="relations",
    functions=(
        single("_?_:_", "conditional", (BOOL, _A, _A), _A),
        single("_&&_", "logical_and", (BOOL, BOOL), BOOL),
        single("_||_", "logical_or", (BOOL, BOOL), BOOL),
        Function(name="!_", overloads=(Overload(id="logical_not", parameters=(BOOL,), result=BOOL),), call=opposite),
        single("@not_strictly_false", "not_strictly_false", (BOOL,), BOOL),
        Function(
            name="_==_",
            overloads=(Overload(id="equals", parameters=(_A, _A), result=BOOL, cost=_equality),),
            call=equal,
        ),
        Function(
            name="_!=_",
            overloads=(Overload(id="not_equals", parameters=(_A, _A), result=BOOL, cost=_smaller),),
            call=different,
        ),
        _comparison("_<_", "less", less),
        _comparison("_<=_", "less_equals", less_or_equal),
        _comparison("_>_", "greater", greater),
        _comparison("_>=_", "greater_equals", greater_or_equal),
        function(
            "_[_]",
            Overload(id="index_list", parameters=(_LIST_OF_A, INT), result=_A),
            Overload(id="index_map", parameters=(_MAP_OF_AB, _A), result=_B),
        ),
        Function(
            name="@in",
            overloads=(
                Overload(id="in_list", parameters=(_A, _LIST_OF_A), result=BOOL, cost=_elements),
                Overload(id="in_map", parameters=(_A, _MAP_OF_AB), result=BOOL),
            ),
            call=is_in,
        ),
        Function(
            name="size",
            overloads=(
                *_sizes(BYTES, "bytes"),
                *_sizes(_LIST_OF_A, "list"),
                *_sizes(_MAP_OF_AB, "map"),
                *_sizes(STRING, "string"),
            ),
            call=length,
        ),
    ),
)
