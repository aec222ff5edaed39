"""The accessors of timestamps and durations: `getFullYear`, `getHours` and others.

Source: cel-go's common/stdlib/standard.go and common/types/duration.go.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from policies.cel import types
from policies.cel.errors import CelError
from policies.cel.function import Function, Library, Overload, function
from policies.cel.library.conversion import text_to_index
from policies.cel.values import INT_MIN, Duration, Timestamp
from policies.golang.time import HOUR, MINUTE, SECOND, CalendarFields, fields, seconds

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


LIBRARY = Library(
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
