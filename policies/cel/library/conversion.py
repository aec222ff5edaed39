"""Conversions between types (`int(x)`, `string(x)`, `type(x)`), and the accessors of timestamps and durations.

Source: cel-go's common/stdlib/standard.go, common/types/duration.go, and ConvertToType of each type in common/types.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from policies.cel import cost, types
from policies.cel.environment import Implementation, Overload, library
from policies.cel.library.operators import unsigned as as_unsigned
from policies.cel.library.operators import whole
from policies.cel.patchtypes import JSONPatch
from policies.cel.types import Type
from policies.cel.values import INT_MAX, INT_MIN, UINT_MAX, CelError, Duration, Timestamp, Uint, Value, type_of
from policies.engine.interruption import spend
from policies.golang import time
from policies.golang.strconv import atoi, double, general, integer, unsigned

_BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


def _identity(value: Value) -> Value:
    return value


def _impossible(source: Type, target: Type) -> CelError:
    return CelError(f"type conversion error from '{source.name}' to '{target.name}'")


def text_of(value: Value) -> str:
    """`string(value)`, for every type that supports it."""
    return _TEXTS[value.__class__](value)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _reading(read: Callable[[str], Value | None], target: Type, make: Implementation = _identity) -> Implementation:
    """A conversion of texts. read: returns None, or raises OverflowError, for a text that is none of the type's."""

    def converted(text: str) -> Value:
        try:
            value = read(text)
        except OverflowError:
            value = None
        if value is None:
            raise _impossible(types.STRING, target)
        return make(value)

    return converted


text_to_double = _reading(double, types.DOUBLE)
"""`double(value)` for a string."""


def text_to_index(text: str) -> int:
    """An integer as Go's strconv.Atoi reads it. Raises CelError with its message."""
    try:
        return atoi(text)
    except ValueError as error:
        raise CelError(str(error)) from None


def _parse_duration(value: str) -> int | None:
    spend(len(value) * 0.4)
    return time.parse_duration(value)


def _timestamp(value: str | int) -> Timestamp:
    try:
        if isinstance(value, int):
            return Timestamp(time.in_range(value) * time.SECOND)
        moment = time.parse_timestamp(value)
    except OverflowError as error:
        raise CelError(str(error)) from None
    if moment is None:
        raise _impossible(types.STRING, types.TIMESTAMP)
    return Timestamp(*moment)


def _int_to_duration(_: int) -> Duration:
    raise _impossible(types.INT, types.DURATION)  # declared, but cel-go has no such conversion


def _double_to_int(value: float) -> int:
    if not INT_MIN < value < float(INT_MAX):  # NaN and the least integer fail as well
        raise CelError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if not 0 <= value < float(UINT_MAX):
        raise CelError("unsigned integer overflow")
    return Uint(value)


_TEXTS: dict[type, Callable[[Value], str]] = {
    str: _identity,
    bool: lambda value: "true" if value else "false",
    int: int.__repr__,
    Uint: int.__repr__,
    float: general,
    bytes: _decoded,
    Duration: lambda value: time.format_duration(value.nanoseconds),
    Timestamp: lambda value: time.format_timestamp(value.nanoseconds, value.offset),
    Type: lambda value: value.name,
}


def _type(value: Value) -> Type:
    """`type(value)`. For a JSONPatch the reference returns `type`."""
    return types.TYPE if value.__class__ is JSONPatch else type_of(value)


INT_TO_DURATION = Overload("int64_to_duration", (types.INT,), types.DURATION, _int_to_duration)

CONVERSION = library(
    "conversion",
    ("type: type(A) -> type(A)", _type),
    ("bool_to_bool: bool(bool) -> bool", _identity),
    ("string_to_bool: bool(string) -> bool", _reading(_BOOLEANS.get, types.BOOL)),
    ("bytes_to_bytes: bytes(bytes) -> bytes", _identity),
    ("string_to_bytes: bytes(string) -> bytes", lambda text: text.encode(errors="surrogatepass"), cost.of_first),
    ("double_to_double: double(double) -> double", _identity),
    ("int64_to_double: double(int) -> double", float),
    ("string_to_double: double(string) -> double", text_to_double),
    ("uint64_to_double: double(uint) -> double", float),
    ("duration_to_duration: duration(duration) -> duration", _identity),
    ("string_to_duration: duration(string) -> duration", _reading(_parse_duration, types.DURATION, Duration)),
    ("to_dyn: dyn(A) -> dyn", _identity),
    ("int64_to_int64: int(int) -> int", _identity),
    ("double_to_int64: int(double) -> int", _double_to_int),
    ("duration_to_int64: int(duration) -> int", lambda value: value.nanoseconds),
    ("string_to_int64: int(string) -> int", _reading(integer, types.INT)),
    ("timestamp_to_int64: int(timestamp) -> int", lambda value: value.nanoseconds // time.SECOND),
    ("uint64_to_int64: int(uint) -> int", lambda value: whole(int(value))),
    ("string_to_string: string(string) -> string", _identity),
    ("bool_to_string: string(bool) -> string", text_of),
    ("bytes_to_string: string(bytes) -> string", _decoded, cost.of_first),
    ("double_to_string: string(double) -> string", general),
    ("duration_to_string: string(duration) -> string", text_of),
    ("int64_to_string: string(int) -> string", int.__repr__),
    ("timestamp_to_string: string(timestamp) -> string", text_of),
    ("uint64_to_string: string(uint) -> string", int.__repr__),
    ("timestamp_to_timestamp: timestamp(timestamp) -> timestamp", _identity),
    ("int64_to_timestamp: timestamp(int) -> timestamp", _timestamp),
    ("string_to_timestamp: timestamp(string) -> timestamp", _timestamp),
    ("uint64_to_uint64: uint(uint) -> uint", _identity),
    ("double_to_uint64: uint(double) -> uint", _double_to_uint),
    ("int64_to_uint64: uint(int) -> uint", as_unsigned),
    ("string_to_uint64: uint(string) -> uint", _reading(unsigned, types.UINT, Uint)),
)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AWAY_FROM_THE_EDGE = timedelta(days=3)
_UTC_NAMES = frozenset({"", "UTC", "Local"})  # a server's own zone is UTC


def _offset_at(name: str, moment: int) -> int:
    """The offset of a zone from UTC at a moment, in seconds east: an IANA name, or `+01:30` as cel-go reads it."""
    hours, colon, minutes = name.partition(":")
    if colon:  # as in the reference, it has no bounds
        hour, minute = text_to_index(hours), text_to_index(minutes)
        return 60 * (hour * 60 - minute if name[0] == "-" else hour * 60 + minute)
    if name in _UTC_NAMES:
        return 0
    if ".." in name or name[0] in "/\\":
        raise CelError("time: invalid location name")
    try:
        zone = ZoneInfo(name)
    except IsADirectoryError:
        raise CelError("is a directory") from None
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        is_invalid = isinstance(error, ValueError) and "\0" in name
        raise CelError("invalid argument" if is_invalid else f"unknown time zone {name}") from None
    near = _EPOCH + timedelta(seconds=moment)
    try:
        local = near.astimezone(zone)
    except OverflowError:  # the local date is in the year 0 or 10000, when no zone changes
        inwards = _AWAY_FROM_THE_EDGE if moment < 0 else -_AWAY_FROM_THE_EDGE
        local = (near + inwards).astimezone(zone)
    offset = local.utcoffset()
    return 0 if offset is None else offset // timedelta(seconds=1)


def _milliseconds(moment: Timestamp, zone: str = "") -> int:
    _offset_at(zone, moment.nanoseconds // time.SECOND)  # the zone must exist
    return moment.nanoseconds % time.SECOND // 10**6


def _of_local(read: Callable[[time.CalendarFields], int]) -> Implementation:
    def part(moment: Timestamp, zone: str = "") -> int:
        second = moment.nanoseconds // time.SECOND
        return read(time.fields(second, _offset_at(zone, second)))

    return part


def _of_duration(unit: int) -> Implementation:
    return lambda duration: int(time.seconds(duration.nanoseconds, unit))


def _duration_milliseconds(duration: Duration) -> int:
    whole = abs(duration.nanoseconds) // 10**6
    return -whole if duration.nanoseconds < 0 else whole


_PARTS: tuple[tuple[str, str, Implementation], ...] = (
    ("getFullYear", "year", _of_local(lambda local: local.year)),
    ("getMonth", "month", _of_local(lambda local: local.month - 1)),
    ("getDayOfYear", "day_of_year", _of_local(lambda local: local.day_of_year)),
    ("getDayOfMonth", "day_of_month", _of_local(lambda local: local.day - 1)),
    ("getDate", "day_of_month_1_based", _of_local(lambda local: local.day)),
    ("getDayOfWeek", "day_of_week", _of_local(lambda local: local.day_of_week)),
    ("getHours", "hours", _of_local(lambda local: local.hour)),
    ("getMinutes", "minutes", _of_local(lambda local: local.minute)),
    ("getSeconds", "seconds", _of_local(lambda local: local.second)),
    ("getMilliseconds", "milliseconds", _milliseconds),
)


_ZONED = {name: f"{part}_tz" if part == "seconds" else f"{part}_with_tz" for name, part, _ in _PARTS}
TIME = library(
    "time",
    *((f"timestamp_to_{part}: timestamp.{name}() -> int", call) for name, part, call in _PARTS),
    *((f"timestamp_to_{_ZONED[name]}: timestamp.{name}(string) -> int", call) for name, _, call in _PARTS),
    ("duration_to_hours: duration.getHours() -> int", _of_duration(time.HOUR)),
    ("duration_to_minutes: duration.getMinutes() -> int", _of_duration(time.MINUTE)),
    ("duration_to_seconds: duration.getSeconds() -> int", _of_duration(time.SECOND)),
    ("duration_to_milliseconds: duration.getMilliseconds() -> int", _duration_milliseconds),
)
