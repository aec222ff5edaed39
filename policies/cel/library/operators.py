"""Operators: arithmetic, relations, `size`, logic, indexing, and those of optional values (`a.?b`, `[?i]`, `orValue`).

Each function accepts values of any type and raises CelError with the reference's message: `no such overload` if the
right side does not fit the left, `no such overload: _+_` if the left side does not have the operator. Logic and
indexing are not strict, so they have only signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, copysign, inf, isnan, nan

from policies.cel import types
from policies.cel.cost import STRING_TRAVERSAL, size
from policies.cel.equality import alike, compare, contains, equal, find
from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Function, Library, Overload, function, single
from policies.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, UINT, Type
from policies.cel.values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    Duration,
    Incomparable,
    Optional,
    Timestamp,
    Uint,
    Value,
    lacking,
    shown,
)
from policies.engine.interruption import spend

SECOND = 1_000_000_000
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799  # 0001-01-01T00:00:00Z, 9999-12-31T23:59:59Z

_CONCATENATED = (str, bytes, list)


def whole(value: int) -> int:
    """The value as an int64. Raises CelError if it overflows."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def unsigned(value: int) -> Uint:
    """The value as a uint64. Raises CelError if it overflows."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


def _moment(nanoseconds: int, offset: int) -> Timestamp:
    if _FIRST_SECOND <= nanoseconds // SECOND <= _LAST_SECOND:
        return Timestamp(nanoseconds, offset)
    raise CelError("timestamp overflow")


def add(left: Value, right: Value) -> Value:
    """`left + right`."""
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind is int:
            return whole(left + right)
        if kind in _CONCATENATED or kind is float:
            if kind is list:
                spend((len(left) + len(right)) * 0.02)
            return left + right
        if kind is Uint:
            return unsigned(int(left) + int(right))
        if kind is Duration:
            return Duration(whole(left.nanoseconds + right.nanoseconds))
    if {kind, other} == {Duration, Timestamp}:
        moment = left if kind is Timestamp else right
        return _moment(left.nanoseconds + right.nanoseconds, moment.offset)
    if kind in _ADDABLE:
        raise no_such_overload()
    raise lacking("_+_", left)


_ADDABLE = (int, Uint, float, str, bytes, list, Duration, Timestamp)


def subtract(left: Value, right: Value) -> Value:
    """`left - right`."""
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind is int:
            return whole(left - right)
        if kind is float:
            return left - right
        if kind is Uint:
            return unsigned(int(left) - int(right))
        if kind in (Duration, Timestamp):
            return Duration(whole(left.nanoseconds - right.nanoseconds))
    if kind is Timestamp and other is Duration:
        whole(-right.nanoseconds)
        return _moment(left.nanoseconds - right.nanoseconds, left.offset)
    if kind in (int, Uint, float, Duration, Timestamp):
        raise no_such_overload()
    raise lacking("_-_", left)


def multiply(left: Value, right: Value) -> Value:
    """`left * right`."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return whole(left * right)
        if kind is float:
            return left * right
        if kind is Uint:
            return unsigned(int(left) * int(right))
    if kind in (int, Uint, float):
        raise no_such_overload()
    raise lacking("_*_", left)


def divide(left: Value, right: Value) -> Value:
    """`left / right`. Integers round towards zero; doubles follow IEEE 754."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is float:
            return _divide_doubles(left, right)
        if kind in (int, Uint):
            if right == 0:
                raise CelError("division by zero")
            quotient = abs(left) // abs(right)
            return Uint(quotient) if kind is Uint else whole(quotient if (left < 0) == (right < 0) else -quotient)
    if kind in (int, Uint, float):
        raise no_such_overload()
    raise lacking("_/_", left)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0.0:
        return left / right
    if isnan(left) or left == 0.0:
        return nan
    return inf * copysign(1.0, left) * copysign(1.0, right)


def modulo(left: Value, right: Value) -> Value:
    """`left % right`, with the sign of the left side."""
    kind = left.__class__
    if kind is right.__class__ and kind in (int, Uint):
        if right == 0:
            raise CelError("modulus by zero")
        if left == INT_MIN and right == -1:
            raise CelError("integer overflow")
        rest = abs(left) % abs(right)
        return Uint(rest) if kind is Uint else (rest if left >= 0 else -rest)
    if kind in (int, Uint):
        raise no_such_overload()
    raise lacking("_%_", left)


def negate(value: Value) -> Value:
    """`-value`."""
    kind = value.__class__
    if kind is int:
        return whole(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return Duration(whole(-value.nanoseconds))
    if kind is bool:
        raise no_such_overload()
    raise lacking("-_", value)


def _signatures(name: str, *signatures: tuple[str, Type, Type, Type]) -> tuple[Overload, ...]:
    return tuple(
        Overload(id=f"{name}_{suffix}", parameters=(left, right), result=result)
        for suffix, left, right, result in signatures
    )


def _numbers(name: str, *kinds: Type) -> tuple[Overload, ...]:
    return tuple(Overload(id=f"{name}_{kind.name}", parameters=(kind, kind), result=kind) for kind in kinds)


_INT, _UINT, _DOUBLE = types.INT, types.UINT, types.DOUBLE
_DURATION, _TIMESTAMP = types.DURATION, types.TIMESTAMP
_LIST_OF_A = types.list_of(types.parameter("A"))


def _concatenation(arguments: Sequence[Value], _: Value) -> int:
    return ceil((size(arguments[0]) + size(arguments[1])) * STRING_TRAVERSAL)


def _text(id_: str, type_: Type) -> Overload:
    return Overload(id=id_, parameters=(type_, type_), result=type_, cost=_concatenation)


def _binary(name: str, call: Callable[[Value, Value], Value], *overloads: Overload) -> Function:
    return Function(name=name, overloads=overloads, call=call)


ARITHMETIC = Library(
    name="arithmetic",
    functions=(
        _binary(
            "_+_",
            add,
            _text("add_bytes", types.BYTES),
            *_signatures(
                "add",
                ("double", _DOUBLE, _DOUBLE, _DOUBLE),
                ("duration_duration", _DURATION, _DURATION, _DURATION),
                ("duration_timestamp", _DURATION, _TIMESTAMP, _TIMESTAMP),
                ("timestamp_duration", _TIMESTAMP, _DURATION, _TIMESTAMP),
                ("int64", _INT, _INT, _INT),
                ("list", _LIST_OF_A, _LIST_OF_A, _LIST_OF_A),
            ),
            _text("add_string", types.STRING),
            *_signatures("add", ("uint64", _UINT, _UINT, _UINT)),
        ),
        _binary("_/_", divide, *_numbers("divide", _DOUBLE, _INT, _UINT)),
        _binary("_%_", modulo, *_numbers("modulo", _INT, _UINT)),
        _binary("_*_", multiply, *_numbers("multiply", _DOUBLE, _INT, _UINT)),
        Function(
            name="-_",
            overloads=(
                Overload(id="negate_double", parameters=(_DOUBLE,), result=_DOUBLE),
                Overload(id="negate_int64", parameters=(_INT,), result=_INT),
            ),
            call=negate,
        ),
        _binary(
            "_-_",
            subtract,
            *_signatures(
                "subtract",
                ("double", _DOUBLE, _DOUBLE, _DOUBLE),
                ("duration_duration", _DURATION, _DURATION, _DURATION),
                ("int64", _INT, _INT, _INT),
                ("timestamp_duration", _TIMESTAMP, _DURATION, _TIMESTAMP),
                ("timestamp_timestamp", _TIMESTAMP, _TIMESTAMP, _DURATION),
                ("uint64", _UINT, _UINT, _UINT),
            ),
        ),
    ),
)


_A, _B = types.parameter("A"), types.parameter("B")
_LISTS, _MAP_OF_AB = types.list_of(_A), types.map_of(_A, _B)
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


RELATIONS = Library(
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
            Overload(id="index_list", parameters=(_LISTS, INT), result=_A),
            Overload(id="index_map", parameters=(_MAP_OF_AB, _A), result=_B),
        ),
        Function(
            name="@in",
            overloads=(
                Overload(id="in_list", parameters=(_A, _LISTS), result=BOOL, cost=_elements),
                Overload(id="in_map", parameters=(_A, _MAP_OF_AB), result=BOOL),
            ),
            call=is_in,
        ),
        Function(
            name="size",
            overloads=(
                *_sizes(BYTES, "bytes"),
                *_sizes(_LISTS, "list"),
                *_sizes(_MAP_OF_AB, "map"),
                *_sizes(STRING, "string"),
            ),
            call=length,
        ),
    ),
)


_K, _V = types.parameter("K"), types.parameter("V")
_OPTIONAL, _LIST, _MAP = types.optional_of(_V), types.list_of(_V), types.map_of(_K, _V)
_OPTIONALS = types.list_of(_OPTIONAL)
_ZERO_LENGTH = (str, bytes, list, dict)
_NUMBERS = (bool, int, Uint, float)


def of_non_zero(value: Value) -> Optional:
    """`optional.ofNonZeroValue(value)`, which is none for null, false, 0, and an empty text, list or map."""
    if value is None:
        return NONE
    kind = value.__class__
    zero = kind in (*_ZERO_LENGTH, *_NUMBERS) and not value
    zero = zero or (kind is Duration and value.nanoseconds == 0)
    zero = zero or (kind is Timestamp and value.nanoseconds == _ZERO_TIME)
    return NONE if zero else Optional(value)


_ZERO_TIME = _FIRST_SECOND * SECOND  # Go's zero time


def value_of(optional: Optional) -> Value:
    """`optional.value()`."""
    if optional.value is ABSENT:
        raise CelError("optional.none() dereference")
    return optional.value


def _unwrap(values: list[Value]) -> list[Value]:
    for value in values:
        if value.__class__ is not Optional:
            raise CelError(f"value {shown(value)} is not optional")
    return [optional.value for optional in values if optional.value is not ABSENT]


OPTIONAL = Library(
    name="optional",
    types={"optional_type": _OPTIONAL},
    functions=(
        single("optional.of", "optional_of", (_V,), _OPTIONAL, Optional),
        single("optional.ofNonZeroValue", "optional_ofNonZeroValue", (_V,), _OPTIONAL, of_non_zero),
        single("optional.none", "optional_none", (), _OPTIONAL, lambda: NONE, stepwise=True),
        single("value", "optional_value", (_OPTIONAL,), _V, value_of, member=True),
        single(
            "hasValue",
            "optional_hasValue",
            (_OPTIONAL,),
            BOOL,
            lambda optional: optional.value is not ABSENT,
            member=True,
        ),
        Function(  # has a step of its own, which evaluates the right side only if needed
            name="or",
            overloads=(
                Overload(id="optional_or_optional", parameters=(_OPTIONAL, _OPTIONAL), result=_OPTIONAL, member=True),
            ),
        ),
        single("orValue", "optional_orValue_value", (_OPTIONAL, _V), _V, member=True),
        single("_?._", "select_optional_field", (DYN, STRING), _OPTIONAL),
        function(
            "_[?_]",
            Overload(id="list_optindex_optional_int", parameters=(_LIST, INT), result=_OPTIONAL),
            Overload(
                id="optional_list_optindex_optional_int",
                parameters=(types.optional_of(_LIST), INT),
                result=_OPTIONAL,
            ),
            Overload(id="map_optindex_optional_value", parameters=(_MAP, _K), result=_OPTIONAL),
            Overload(
                id="optional_map_optindex_optional_value",
                parameters=(types.optional_of(_MAP), _K),
                result=_OPTIONAL,
            ),
        ),
        function(
            "_[_]",
            Overload(id="optional_list_index_int", parameters=(types.optional_of(_LIST), INT), result=_OPTIONAL),
            Overload(id="optional_map_index_value", parameters=(types.optional_of(_MAP), _K), result=_OPTIONAL),
        ),
        single(
            "last",
            "list_last",
            (_LIST,),
            _OPTIONAL,
            lambda values: Optional(values[-1]) if values else NONE,
            member=True,
        ),
        single(
            "first",
            "list_first",
            (_LIST,),
            _OPTIONAL,
            lambda values: Optional(values[0]) if values else NONE,
            member=True,
        ),
        single("optional.unwrap", "optional_unwrap", (_OPTIONALS,), _LIST, _unwrap),
        single("unwrapOpt", "optional_unwrapOpt", (_OPTIONALS,), _LIST, _unwrap, member=True),
    ),
)
