"""`+ - * / %` and negation: int64 and uint64 with overflow, doubles, durations and timestamps, texts and lists.

Each function accepts values of any type and raises CelError with the reference's message: `no such overload` if the
right side does not fit the left, `no such overload: _+_` if the left side does not have the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, copysign, inf, isnan, nan

from policies.cel import types
from policies.cel.cost import STRING_TRAVERSAL, size
from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Function, Library, Overload
from policies.cel.types import Type
from policies.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint, Value, lacking

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


LIBRARY = Library(
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
