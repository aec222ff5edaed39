"""Conversions between types (`int(x)`, `string(x)`, `type(x)`), and the accessors of timestamps and durations.

Source: cel-go's common/stdlib/standard.go, common/types/duration.go, and ConvertToType of each type in common/types.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from policies.cel import cost, types
from policies.cel.errors import CelError
from policies.cel.function import Cost, Function, Implementation, Library, Overload, function
from policies.cel.patchtypes import JSONPatch
from policies.cel.types import Type
from policies.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint, Value, type_of
from policies.engine.interruption import spend
from policies.golang.strconv import atoi, double, general, integer, unsigned
from policies.golang.time import (
    HOUR,
    MINUTE,
    SECOND,
    CalendarFields,
    fields,
    format_duration,
    format_timestamp,
    in_range,
    parse_duration,
    parse_timestamp,
    seconds,
)

_BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)
_ANY = types.parameter("A")


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


def _encoded(value: str) -> bytes:
    return value.encode(errors="surrogatepass")


def _text_to_bool(value: str) -> bool:
    if value not in _BOOLEANS:
        raise _impossible(types.STRING, types.BOOL)
    return _BOOLEANS[value]


def _text_to_int(value: str) -> int:
    return _digits(integer, value, types.INT)


def _text_to_uint(value: str) -> Uint:
    return Uint(_digits(unsigned, value, types.UINT))


def _digits(read: Callable[[str], int | None], value: str, target: Type) -> int:
    try:
        number = read(value)
    except OverflowError:
        number = None
    if number is None:
        raise _impossible(types.STRING, target)
    return number


def text_to_double(value: str) -> float:
    """`double(value)` for a string."""
    number = double(value)
    if number is None:
        raise _impossible(types.STRING, types.DOUBLE)
    return number


def text_to_index(text: str) -> int:
    """An integer as Go's strconv.Atoi reads it. Raises CelError with its message."""
    try:
        return atoi(text)
    except ValueError as error:
        raise CelError(str(error)) from None


def _text_to_duration(value: str) -> Duration:
    spend(len(value) * 0.4)
    nanoseconds = parse_duration(value)
    if nanoseconds is None:
        raise _impossible(types.STRING, types.DURATION)
    return Duration(nanoseconds)


def _text_to_timestamp(value: str) -> Timestamp:
    try:
        moment = parse_timestamp(value)
    except OverflowError as error:
        raise CelError(str(error)) from None
    if moment is None:
        raise _impossible(types.STRING, types.TIMESTAMP)
    return Timestamp(*moment)


def _int_to_duration(_: int) -> Duration:
    raise _impossible(types.INT, types.DURATION)  # declared, but cel-go has no such conversion


def _int_to_timestamp(value: int) -> Timestamp:
    try:
        return Timestamp(in_range(value) * SECOND)
    except OverflowError as error:
        raise CelError(str(error)) from None


def _double_to_int(value: float) -> int:
    if not INT_MIN < value < float(INT_MAX):  # NaN and the least integer fail as well
        raise CelError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if not 0 <= value < float(UINT_MAX):
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _int_to_uint(value: int) -> Uint:
    if value < 0:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _uint_to_int(value: Uint) -> int:
    if value > INT_MAX:
        raise CelError("integer overflow")
    return int(value)


_TEXTS: dict[type, Callable[[Value], str]] = {
    str: _identity,
    bool: lambda value: "true" if value else "false",
    int: int.__repr__,
    Uint: int.__repr__,
    float: general,
    bytes: _decoded,
    Duration: lambda value: format_duration(value.nanoseconds),
    Timestamp: lambda value: format_timestamp(value.nanoseconds, value.offset),
    Type: lambda value: value.name,
}


def _from(source: Type, id: str, target: Type, call: Implementation, price: Cost | None = None) -> Overload:
    return Overload(id=id, parameters=(source,), result=target, call=call, cost=price)


def _type(value: Value) -> Type:
    """`type(value)`. For a JSONPatch the reference returns `type`."""
    return types.TYPE if value.__class__ is JSONPatch else type_of(value)


INT_TO_DURATION = _from(types.INT, "int64_to_duration", types.DURATION, _int_to_duration)

CONVERSION = Library(
    name="conversion",
    functions=(
        Function(
            name="type", overloads=(Overload(id="type", parameters=(_ANY,), result=types.type_of(_ANY)),), call=_type
        ),
        function(
            "bool",
            _from(types.BOOL, "bool_to_bool", types.BOOL, _identity),
            _from(types.STRING, "string_to_bool", types.BOOL, _text_to_bool),
        ),
        function(
            "bytes",
            _from(types.BYTES, "bytes_to_bytes", types.BYTES, _identity),
            _from(types.STRING, "string_to_bytes", types.BYTES, _encoded, cost.of_first),
        ),
        function(
            "double",
            _from(types.DOUBLE, "double_to_double", types.DOUBLE, _identity),
            _from(types.INT, "int64_to_double", types.DOUBLE, float),
            _from(types.STRING, "string_to_double", types.DOUBLE, text_to_double),
            _from(types.UINT, "uint64_to_double", types.DOUBLE, float),
        ),
        function(
            "duration",
            _from(types.DURATION, "duration_to_duration", types.DURATION, _identity),
            _from(types.STRING, "string_to_duration", types.DURATION, _text_to_duration),
        ),
        Function(name="dyn", overloads=(Overload(id="to_dyn", parameters=(_ANY,), result=types.DYN),), call=_identity),
        function(
            "int",
            _from(types.INT, "int64_to_int64", types.INT, _identity),
            _from(types.DOUBLE, "double_to_int64", types.INT, _double_to_int),
            _from(types.DURATION, "duration_to_int64", types.INT, lambda value: value.nanoseconds),
            _from(types.STRING, "string_to_int64", types.INT, _text_to_int),
            _from(types.TIMESTAMP, "timestamp_to_int64", types.INT, lambda value: value.nanoseconds // SECOND),
            _from(types.UINT, "uint64_to_int64", types.INT, _uint_to_int),
        ),
        function(
            "string",
            _from(types.STRING, "string_to_string", types.STRING, _identity),
            _from(types.BOOL, "bool_to_string", types.STRING, text_of),
            _from(types.BYTES, "bytes_to_string", types.STRING, _decoded, cost.of_first),
            _from(types.DOUBLE, "double_to_string", types.STRING, general),
            _from(types.DURATION, "duration_to_string", types.STRING, text_of),
            _from(types.INT, "int64_to_string", types.STRING, int.__repr__),
            _from(types.TIMESTAMP, "timestamp_to_string", types.STRING, text_of),
            _from(types.UINT, "uint64_to_string", types.STRING, int.__repr__),
        ),
        function(
            "timestamp",
            _from(types.TIMESTAMP, "timestamp_to_timestamp", types.TIMESTAMP, _identity),
            _from(types.INT, "int64_to_timestamp", types.TIMESTAMP, _int_to_timestamp),
            _from(types.STRING, "string_to_timestamp", types.TIMESTAMP, _text_to_timestamp),
        ),
        function(
            "uint",
            _from(types.UINT, "uint64_to_uint64", types.UINT, _identity),
            _from(types.DOUBLE, "double_to_uint64", types.UINT, _double_to_uint),
            _from(types.INT, "int64_to_uint64", types.UINT, _int_to_uint),
            _from(types.STRING, "string_to_uint64", types.UINT, _text_to_uint),
        ),
    ),
)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AWAY_FROM_THE_EDGE = timedelta(days=3)
_UTC_NAMES = frozenset({"", "UTC", "Local"})  # a server's own zone is UTC


def offset_at(zone: str, moment: int) -> int:
    """The offset of a zone from UTC at a moment, in seconds east: an IANA name, or `+01:30` as cel-go reads it."""
    hours, colon, minutes = zone.partition(":")
    if colon:
        return _numeric(zone[0], text_to_index(hours), text_to_index(minutes))
    return 0 if zone in _UTC_NAMES else _named(zone, moment)


def _numeric(sign: str, hours: int, minutes: int) -> int:
    """The offset in seconds. As in the reference, it has no bounds, and multiplications wrap around as int64."""
    offset = _int64(hours * 60 - minutes if sign == "-" else hours * 60 + minutes)
    return int(seconds(_int64(offset * MINUTE)))


def _int64(value: int) -> int:
    return (value - INT_MIN) % 2**64 + INT_MIN


def _named(name: str, moment: int) -> int:
    if ".." in name or name[0] in "/\\":
        raise CelError("time: invalid location name")
    zone = _zone(name)
    near = _EPOCH + timedelta(seconds=moment)
    try:
        local = near.astimezone(zone)
    except OverflowError:  # the local date is in the year 0 or 10000, when no zone changes
        inwards = _AWAY_FROM_THE_EDGE if moment < 0 else -_AWAY_FROM_THE_EDGE
        local = (near + inwards).astimezone(zone)
    offset = local.utcoffset()
    return 0 if offset is None else offset // timedelta(seconds=1)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except IsADirectoryError:
        raise CelError("is a directory") from None
    except ValueError:
        raise CelError("invalid argument" if "\0" in name else f"unknown time zone {name}") from None
    except (ZoneInfoNotFoundError, OSError):
        raise CelError(f"unknown time zone {name}") from None


def _of_timestamp(name: str, part: str, read: Callable[[CalendarFields], int], *durations: Overload) -> Function:
    """A function with overloads without a zone (UTC), with a zone, and for durations if that exists."""

    def plain(moment: Timestamp) -> int:
        return read(fields(moment.nanoseconds // SECOND))

    def zoned(moment: Timestamp, zone: str) -> int:
        second = moment.nanoseconds // SECOND
        return read(fields(second, offset_at(zone, second)))

    return _function(name, part, plain, zoned, *durations)


def _function(
    name: str,
    part: str,
    plain: Callable[[Timestamp], int],
    zoned: Callable[[Timestamp, str], int],
    *durations: Overload,
) -> Function:
    utc = Overload(id=f"timestamp_to_{part}", parameters=(types.TIMESTAMP,), result=types.INT, call=plain, member=True)
    elsewhere = Overload(
        id="timestamp_to_seconds_tz" if part == "seconds" else f"timestamp_to_{part}_with_tz",
        parameters=(types.TIMESTAMP, types.STRING),
        result=types.INT,
        call=zoned,
        member=True,
    )
    return function(name, utc, elsewhere, *durations)


def _of_duration(part: str, read: Callable[[Duration], int]) -> Overload:
    return Overload(id=f"duration_to_{part}", parameters=(types.DURATION,), result=types.INT, call=read, member=True)


def _truncated(unit: int) -> Callable[[Duration], int]:
    return lambda duration: int(seconds(duration.nanoseconds, unit))


def _duration_milliseconds(duration: Duration) -> int:
    whole = abs(duration.nanoseconds) // 10**6
    return -whole if duration.nanoseconds < 0 else whole


def _milliseconds(moment: Timestamp) -> int:
    return moment.nanoseconds % SECOND // 10**6


def _milliseconds_in(moment: Timestamp, zone: str) -> int:
    offset_at(zone, moment.nanoseconds // SECOND)  # the zone must exist
    return _milliseconds(moment)


TIME = Library(
    name="time",
    functions=(
        _of_timestamp("getFullYear", "year", lambda local: local.year),
        _of_timestamp("getMonth", "month", lambda local: local.month - 1),
        _of_timestamp("getDayOfYear", "day_of_year", lambda local: local.day_of_year),
        _of_timestamp("getDayOfMonth", "day_of_month", lambda local: local.day - 1),
        _of_timestamp("getDate", "day_of_month_1_based", lambda local: local.day),
        _of_timestamp("getDayOfWeek", "day_of_week", lambda local: local.day_of_week),
        _of_timestamp("getHours", "hours", lambda local: local.hour, _of_duration("hours", _truncated(HOUR))),
        _of_timestamp("getMinutes", "minutes", lambda local: local.minute, _of_duration("minutes", _truncated(MINUTE))),
        _of_timestamp("getSeconds", "seconds", lambda local: local.second, _of_duration("seconds", _truncated(SECOND))),
        _function(
            "getMilliseconds",
            "milliseconds",
            _milliseconds,
            _milliseconds_in,
            _of_duration("milliseconds", _duration_milliseconds),
        ),
    ),
)
