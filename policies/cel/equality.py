"""Equality and order of values across types, and the look-up of keys in maps (cel-go's Equal, Compare and Find)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from policies.cel.types import Type
from policies.cel.values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    CelError,
    Duration,
    Optional,
    Timestamp,
    Uint,
    Value,
    no_such_overload,
)
from policies.engine.interruption import spend

_NUMBERS = (int, Uint, float)
ELEMENT = 0.5
"""The microseconds that a comparison of two elements, or a step of another loop over them, may take."""
_SOME = 1_000
_compared = 0  # elements, in all threads: it only says when to look at the clock


def equal(left: Value, right: Value) -> bool:
    """Whether CEL's `==` holds. Values of different types differ, except that numbers compare by value.

    Raises CelError if the type of a library cannot be compared with the other type.
    """
    kind, other = left.__class__, right.__class__
    if kind is str:
        return kind is other and bool(left == right)
    if left is None or right is None or kind is bool:
        return left is right
    return _EQUAL.get(kind, _own)(left, right)


def _numbers(left: Value, right: Value) -> bool:
    kind, other = left.__class__, right.__class__
    if other not in _NUMBERS:
        return False
    if (kind is float) == (other is float):
        return bool(left == right)
    return same_number(left, right) if kind is float else same_number(right, left)


def same_number(double: float, integer: int) -> bool:
    """Whether a double equals an integer. They are compared as doubles, so integers beyond 2**53 lose precision."""
    low, high = _bounds(integer)
    return low <= double <= high and double == float(integer)


def _bounds(integer: int) -> tuple[float, float]:
    """The least and the greatest double that an integer of this type is compared with."""
    return (0.0, float(UINT_MAX)) if integer.__class__ is Uint else (float(INT_MIN), float(INT_MAX))


def _announce() -> None:
    """Say how long the comparisons of the elements that were counted may take."""
    global _compared
    compared, _compared = _compared, 0
    spend(compared * ELEMENT)


def _lists(left: Value, right: Value) -> bool:
    global _compared  # noqa: PLW0603 - as in _maps
    if right.__class__ is not list or len(left) != len(right):
        return False
    _compared += len(left)
    if _compared > _SOME:
        _announce()
    return all(map(_not_different, left, right))


def _not_different(left: Value, right: Value) -> bool:
    """Whether elements of lists or maps are equal. As in the reference, incomparable elements count as equal."""
    try:
        return equal(left, right)
    except CelError:
        return True


def _maps(left: Value, right: Value) -> bool:
    global _compared  # noqa: PLW0603 - a call for each list and map would take a fifth of the time of a comparison
    if right.__class__ is not dict or len(left) != len(right):
        return False
    _compared += len(left)
    if _compared > _SOME:
        _announce()
    for key, value in left.items():
        other = find(right, key)
        if other is ABSENT or not _not_different(value, other):
            return False
    return True


def _optionals(left: Value, right: Value) -> bool:
    if right.__class__ is not Optional:
        return False
    if left.value is ABSENT or right.value is ABSENT:
        return left.value is right.value
    return equal(left.value, right.value)


def _types(left: Value, right: Value) -> bool:
    return right.__class__ is Type and left.name == right.name


def _own(left: Value, right: Value) -> bool:
    compare = getattr(left, "cel_equal", None)
    return bool(left == right if compare is None else compare(right))


_EQUAL: dict[type, Callable[[Value, Value], bool]] = {
    int: _numbers,
    Uint: _numbers,
    float: _numbers,
    list: _lists,
    dict: _maps,
    Optional: _optionals,
    Type: _types,
}


def find(mapping: dict[Any, Value], key: Value) -> Value:
    """The value of a key, or ABSENT. A double or integer finds an integer of the same value; a bool does not."""
    kind = key.__class__
    if kind is str:
        return mapping.get(key, ABSENT)
    if kind not in _NUMBERS and kind is not bool:
        return ABSENT
    value = mapping.get(key, ABSENT)
    if value is ABSENT:
        return value
    for stored in mapping:
        if stored == key:
            other = stored.__class__
            same = stored is key if bool in (kind, other) else other is not float or kind is float
            return value if same else ABSENT
    return ABSENT


def contains(items: list[Value], item: Value) -> bool:
    """Whether `item in items` holds. Elements that cannot be compared are skipped."""
    global _compared  # noqa: PLW0603 - as in _maps
    _compared += len(items) if item.__class__ is not str else len(items) // 10
    if _compared > _SOME:
        _announce()
    if item.__class__ is str:  # a str equals only a str, so Python's own search gives the right answer
        try:
            return item in items
        except CelError:  # the list has a value of a library's type
            pass
    return any(map(partial(alike, item), items))


def alike(left: Value, right: Value) -> bool:
    """Whether two values are equal; False for values that cannot be compared."""
    try:
        return equal(left, right)
    except CelError:
        return False


_PLAIN = (str, bytes, bool)
_TIMES = (Duration, Timestamp)


def compare(left: Value, right: Value) -> int:
    """The order of two values: -1, 0 or 1. Raises CelError for values without an order, and for NaN."""
    kind, other = left.__class__, right.__class__
    if (kind is float and left != left) or (other is float and right != right and kind in _NUMBERS):  # noqa: PLR0124
        raise CelError("NaN values cannot be ordered")
    if kind in _NUMBERS and other in _NUMBERS:
        if kind is float and other is not float:
            return _double_to_integer(left, right)
        if other is float and kind is not float:
            return -_double_to_integer(right, left)
    elif kind is not other or (kind not in _PLAIN and kind not in _TIMES):
        raise no_such_overload()
    elif kind in _TIMES:
        left, right = left.nanoseconds, right.nanoseconds
    return int(left > right) - int(left < right)


def _double_to_integer(double: float, integer: int) -> int:
    low, high = _bounds(integer)
    if double < low:
        return -1
    if double > high:
        return 1
    return int(double > float(integer)) - int(double < float(integer))
