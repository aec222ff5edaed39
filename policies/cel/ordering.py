"""The order of two values (cel-go's Compare), for comparisons, sorting, minimum and maximum."""

from __future__ import annotations

from policies.cel.errors import CelError, no_such_overload
from policies.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint, Value

_NUMBERS = (int, Uint, float)
_PLAIN = (str, bytes, bool)
_NOT_ORDERED = "NaN values cannot be ordered"
_TIMES = (Duration, Timestamp)


def compare(left: Value, right: Value) -> int:
    """The order of two values: -1, 0 or 1. Raises CelError for values without an order, and for NaN."""
    kind, other = left.__class__, right.__class__
    if kind in _NUMBERS and other in _NUMBERS:
        return _numbers(left, right)
    if kind is float and left != left:  # noqa: PLR0124 - true only for NaN
        raise CelError(_NOT_ORDERED)
    if kind is not other:
        raise no_such_overload()
    if kind in _PLAIN:
        return int(left > right) - int(left < right)
    if kind in _TIMES:
        return _signum(left.nanoseconds - right.nanoseconds)
    raise no_such_overload()


def _numbers(left: Value, right: Value) -> int:
    if left != left or right != right:  # noqa: PLR0124 - true only for NaN
        raise CelError(_NOT_ORDERED)
    if left.__class__ is float and right.__class__ is not float:
        return _double_to_integer(left, right)
    if right.__class__ is float and left.__class__ is not float:
        return -_double_to_integer(right, left)
    return int(left > right) - int(left < right)


def _double_to_integer(double: float, integer: int) -> int:
    low, high = (0.0, float(UINT_MAX)) if integer.__class__ is Uint else (float(INT_MIN), float(INT_MAX))
    if double < low:
        return -1
    if double > high:
        return 1
    return int(double > float(integer)) - int(double < float(integer))


def _signum(difference: int) -> int:
    return int(difference > 0) - int(difference < 0)
