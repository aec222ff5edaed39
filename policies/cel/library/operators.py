"""Operators: arithmetic, relations, `size`, logic, indexing, and those of optional values (`a.?b`, `[?i]`, `orValue`).

Each function accepts values of any type and raises CelError with the reference's message: `no such overload` if the
right side does not fit the left, `no such overload: _+_` if the left side does not have the operator. Logic and
indexing are not strict, so they have only signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil, copysign, inf, isnan, nan

from policies.cel import types
from policies.cel.cost import STRING_TRAVERSAL, size
from policies.cel.environment import Row, library
from policies.cel.equality import alike, compare, contains, equal, find
from policies.cel.values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    CelError,
    Duration,
    Incomparable,
    Optional,
    Timestamp,
    Uint,
    Value,
    lacking,
    no_such_overload,
    shown,
)
from policies.engine.interruption import spend

SECOND = 1_000_000_000
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799  # 0001-01-01T00:00:00Z, 9999-12-31T23:59:59Z

_CONCATENATED, _NUMBERS, _TIMES = (str, bytes, list), (int, Uint, float), (Duration, Timestamp)


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
    raise _unfit("_+_", left, (*_NUMBERS, *_CONCATENATED, *_TIMES))


def _unfit(operator: str, left: Value, kinds: tuple[type, ...]) -> CelError:
    """The error for the values of an operator that has kinds of values on its left."""
    return no_such_overload() if left.__class__ in kinds else lacking(operator, left)


def _subtract(left: Value, right: Value) -> Value:
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
    raise _unfit("_-_", left, (*_NUMBERS, *_TIMES))


def _multiply(left: Value, right: Value) -> Value:
    kind = left.__class__
    if kind is right.__class__:
        if kind is int:
            return whole(left * right)
        if kind is float:
            return left * right
        if kind is Uint:
            return unsigned(int(left) * int(right))
    raise _unfit("_*_", left, _NUMBERS)


def _divide(left: Value, right: Value) -> Value:
    """`left / right`. Integers round towards zero; doubles follow IEEE 754."""
    kind = left.__class__
    if kind is right.__class__:
        if kind is float:
            if right != 0.0:
                return left / right
            return nan if isnan(left) or left == 0.0 else inf * copysign(1.0, left) * copysign(1.0, right)
        if kind in (int, Uint):
            if right == 0:
                raise CelError("division by zero")
            quotient = abs(left) // abs(right)
            return Uint(quotient) if kind is Uint else whole(quotient if (left < 0) == (right < 0) else -quotient)
    raise _unfit("_/_", left, _NUMBERS)


def _modulo(left: Value, right: Value) -> Value:
    """`left % right`, with the sign of the left side."""
    kind = left.__class__
    if kind is right.__class__ and kind in (int, Uint):
        if right == 0:
            raise CelError("modulus by zero")
        if left == INT_MIN and right == -1:
            raise CelError("integer overflow")
        rest = abs(left) % abs(right)
        return Uint(rest) if kind is Uint else (rest if left >= 0 else -rest)
    raise _unfit("_%_", left, (int, Uint))


def _negate(value: Value) -> Value:
    kind = value.__class__
    if kind is int:
        return whole(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return Duration(whole(-value.nanoseconds))
    raise _unfit("-_", value, (bool,))


def _concatenation(arguments: Sequence[Value], _: Value) -> int:
    return ceil((size(arguments[0]) + size(arguments[1])) * STRING_TRAVERSAL)


ARITHMETIC = library(
    "arithmetic",
    ("add_bytes: _+_(bytes, bytes) -> bytes", None, _concatenation),
    "add_double: _+_(double, double) -> double",
    "add_duration_duration: _+_(duration, duration) -> duration",
    "add_duration_timestamp: _+_(duration, timestamp) -> timestamp",
    "add_timestamp_duration: _+_(timestamp, duration) -> timestamp",
    "add_int64: _+_(int, int) -> int",
    "add_list: _+_(list(A), list(A)) -> list(A)",
    ("add_string: _+_(string, string) -> string", None, _concatenation),
    "add_uint64: _+_(uint, uint) -> uint",
    "divide_double: _/_(double, double) -> double",
    "divide_int: _/_(int, int) -> int",
    "divide_uint: _/_(uint, uint) -> uint",
    "modulo_int: _%_(int, int) -> int",
    "modulo_uint: _%_(uint, uint) -> uint",
    "multiply_double: _*_(double, double) -> double",
    "multiply_int: _*_(int, int) -> int",
    "multiply_uint: _*_(uint, uint) -> uint",
    "negate_double: -_(double) -> double",
    "negate_int64: -_(int) -> int",
    "subtract_double: _-_(double, double) -> double",
    "subtract_duration_duration: _-_(duration, duration) -> duration",
    "subtract_int64: _-_(int, int) -> int",
    "subtract_timestamp_duration: _-_(timestamp, duration) -> timestamp",
    "subtract_timestamp_timestamp: _-_(timestamp, timestamp) -> duration",
    "subtract_uint64: _-_(uint, uint) -> uint",
    calls={"_+_": add, "_/_": _divide, "_%_": _modulo, "_*_": _multiply, "-_": _negate, "_-_": _subtract},
)


_ORDERED = (bool, int, Uint, float, str, bytes, Duration, Timestamp)


def different(left: Value, right: Value) -> bool:
    """`left != right`, which is also true for values that cannot be compared."""
    return not alike(left, right)


def _ordered(name: str, holds: Callable[[int], bool], *, total: bool) -> Callable[[Value, Value], bool]:
    unsupported = f"no such overload: {name}"

    def relation(left: Value, right: Value) -> bool:
        if left.__class__ not in _ORDERED:
            raise CelError(unsupported)
        if not total and (_is_nan(left) or _is_nan(right)):
            return False
        return holds(compare(left, right))

    return relation


def _is_nan(value: Value) -> bool:
    return value.__class__ is float and value != value  # noqa: PLR0124 - true only for NaN


def comparisons(*, total: bool) -> dict[str, Callable[[Value, Value], bool]]:
    """The comparisons by name. total: whether one with NaN fails rather than be false."""
    return {
        "_<_": _ordered("_<_", lambda order: order < 0, total=total),
        "_<=_": _ordered("_<=_", lambda order: order <= 0, total=total),
        "_>_": _ordered("_>_", lambda order: order > 0, total=total),
        "_>=_": _ordered("_>=_", lambda order: order >= 0, total=total),
    }


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


def _opposite(value: Value) -> bool:
    if value.__class__ is not bool:
        raise no_such_overload()
    return not value


def _smaller(arguments: Sequence[Value], _: Value) -> int:
    return ceil(min(size(arguments[0]), size(arguments[1])) * STRING_TRAVERSAL)


def _equality(arguments: Sequence[Value], result: Value) -> int:
    """The cost of one pass over the smaller value; 1 for types of Kubernetes' libraries, whatever their size."""
    return 1 if isinstance(arguments[0], Incomparable) else _smaller(arguments, result)


def _elements(arguments: Sequence[Value], _: Value) -> int:
    return size(arguments[1])


_COMPARED = (
    *("bool", "int", "int double", "int uint", "uint", "uint double", "uint int", "double", "double int"),
    *("double uint", "string", "bytes", "timestamp", "duration"),
)
"""The types on both sides of a comparison, in the order of its overloads."""


def _comparisons(sign: str, word: str) -> Iterator[Row]:
    for pair in _COMPARED:
        left, right = pair.split()[0], pair.split()[-1]
        id_ = "_".join(f"{name}64" if name in ("int", "uint") else name for name in (word, *pair.split()))
        signature = f"{id_}: _{sign}_({left}, {right}) -> bool"
        yield (signature, None, _smaller) if left in ("string", "bytes") else signature


RELATIONS = library(
    "relations",
    "conditional: _?_:_(bool, A, A) -> A",
    "logical_and: _&&_(bool, bool) -> bool",
    "logical_or: _||_(bool, bool) -> bool",
    "logical_not: !_(bool) -> bool",
    "not_strictly_false: @not_strictly_false(bool) -> bool",
    ("equals: _==_(A, A) -> bool", None, _equality),
    ("not_equals: _!=_(A, A) -> bool", None, _smaller),
    *_comparisons("<", "less"),
    *_comparisons("<=", "less_equals"),
    *_comparisons(">", "greater"),
    *_comparisons(">=", "greater_equals"),
    "index_list: _[_](list(A), int) -> A",
    "index_map: _[_](map(A, B), A) -> B",
    ("in_list: @in(A, list(A)) -> bool", None, _elements),
    "in_map: @in(A, map(A, B)) -> bool",
    "size_bytes: size(bytes) -> int",
    "bytes_size: bytes.size() -> int",
    "size_list: size(list(A)) -> int",
    "list_size: list(A).size() -> int",
    "size_map: size(map(A, B)) -> int",
    "map_size: map(A, B).size() -> int",
    "size_string: size(string) -> int",
    "string_size: string.size() -> int",
    calls={
        "!_": _opposite, "_==_": equal, "_!=_": different, "@in": is_in, "size": length, **comparisons(total=False),
    },
)  # fmt: skip


_ZERO_TIME = _FIRST_SECOND * SECOND  # Go's zero time


def _of_non_zero(value: Value) -> Optional:
    """`optional.ofNonZeroValue(value)`, which is none for null, false, 0, and an empty text, list or map."""
    kind = value.__class__
    is_zero = value is None or (kind in (bool, dict, *_NUMBERS, *_CONCATENATED) and not value)
    is_zero = is_zero or (kind is Duration and value.nanoseconds == 0)
    return NONE if is_zero or (kind is Timestamp and value.nanoseconds == _ZERO_TIME) else Optional(value)


def _value_of(optional: Optional) -> Value:
    if optional.value is ABSENT:
        raise CelError("optional.none() dereference")
    return optional.value


def _unwrap(values: list[Value]) -> list[Value]:
    for value in values:
        if value.__class__ is not Optional:
            raise CelError(f"value {shown(value)} is not optional")
    return [optional.value for optional in values if optional.value is not ABSENT]


OPTIONAL = library(
    "optional",
    ("optional_of: optional.of(V) -> optional(V)", Optional),
    ("optional_ofNonZeroValue: optional.ofNonZeroValue(V) -> optional(V)", _of_non_zero),
    ("optional_none: optional.none() -> optional(V)", lambda: NONE),
    ("optional_value: optional(V).value() -> V", _value_of),
    ("optional_hasValue: optional(V).hasValue() -> bool", lambda optional: optional.value is not ABSENT),
    "optional_or_optional: optional(V).or(optional(V)) -> optional(V)",
    "optional_orValue_value: optional(V).orValue(V) -> V",
    "select_optional_field: _?._(dyn, string) -> optional(V)",
    "list_optindex_optional_int: _[?_](list(V), int) -> optional(V)",
    "optional_list_optindex_optional_int: _[?_](optional(list(V)), int) -> optional(V)",
    "map_optindex_optional_value: _[?_](map(K, V), K) -> optional(V)",
    "optional_map_optindex_optional_value: _[?_](optional(map(K, V)), K) -> optional(V)",
    "optional_list_index_int: _[_](optional(list(V)), int) -> optional(V)",
    "optional_map_index_value: _[_](optional(map(K, V)), K) -> optional(V)",
    ("list_last: list(V).last() -> optional(V)", lambda values: Optional(values[-1]) if values else NONE),
    ("list_first: list(V).first() -> optional(V)", lambda values: Optional(values[0]) if values else NONE),
    ("optional_unwrap: optional.unwrap(list(optional(V))) -> list(V)", _unwrap),
    ("optional_unwrapOpt: list(optional(V)).unwrapOpt() -> list(V)", _unwrap),
    types={"optional_type": types.optional_of(types.parameter("V"))},
)
