"""Durations and timestamps as Go reads and writes them: time.ParseDuration, RFC 3339 and calendar fields."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from typing import NamedTuple

from policies.golang.strconv import fixed

SECOND = 10**9
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
_INT_MAX = 2**63 - 1
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first second of the year 1 and the last of 9999. Every timestamp must lie between them."""

_UNITS = {"ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6, "s": SECOND, "m": MINUTE, "h": HOUR}
_PART = re.compile(r"([0-9]*)(\.[0-9]*)?([^.0-9]+)")
_LONGEST = 1 << 63
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_ERA = 146_097
"""The days of 400 years, after which the calendar repeats: Python's has only the years 1 to 9999."""
_DAYS_BEFORE_1970, _DAYS_BEFORE_2000 = date(1970, 1, 1).toordinal(), date(2000, 1, 1).toordinal()


def parse_duration(text: str) -> int | None:  # noqa: PLR0911 - a return for each refusal
    """The nanoseconds in a text such as `1h30m` or `-1.5s` (time.ParseDuration); None if Go refuses it."""
    negative = text[:1] == "-"
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    total, position = 0, 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            return None
        whole, fraction = part[1].lstrip("0"), (part[2] or "")[1:19]
        unit = _UNITS.get(part[3])
        if unit is None or not (part[1] or fraction) or len(whole) > 19:  # digits of 2**63
            return None
        nanoseconds = int(whole or "0") * unit
        if nanoseconds > _LONGEST - _LONGEST % unit:
            return None
        total += nanoseconds + int(fraction or "0") * unit // 10 ** len(fraction)
        if total > _LONGEST:
            return None
        position = part.end()
    if not rest or (total > _INT_MAX and not negative):
        return None
    return -total if negative else total


def format_duration(nanoseconds: int) -> str:
    """A duration as CEL writes it: decimal seconds with the precision of a double (`5400s`, `1.5s`)."""
    return f"{fixed(seconds(nanoseconds))}s"


def go_duration(nanoseconds: int) -> str:
    """A duration as Go's messages show it (time.Duration.String): `1h30m0s`, `1.5ms`."""
    size, sign = abs(nanoseconds), "-" if nanoseconds < 0 else ""
    if size < SECOND:
        unit, name = (10**6, "ms") if size >= 10**6 else (10**3, "\u00b5s") if size >= 10**3 else (1, "ns")
        return f"{sign}{_decimal(size, unit)}{name}" if size else "0s"
    minutes, rest = divmod(size, MINUTE)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, SECOND)}s"
    if hours:
        text = f"{hours}h{minutes}m{text}"
    elif minutes:
        text = f"{minutes}m{text}"
    return sign + text


def _decimal(size: int, unit: int) -> str:
    whole, rest = divmod(size, unit)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def seconds(nanoseconds: int, unit: int = SECOND) -> float:
    """A duration in seconds or another unit, rounded as by Go's Duration.Seconds, Minutes and Hours."""
    whole, rest = divmod(abs(nanoseconds), unit)
    value = float(whole) + float(rest) / float(unit)
    return -value if nanoseconds < 0 else value


def parse_timestamp(text: str) -> tuple[int, int] | None:
    """Nanoseconds since 1970 and the offset in seconds of an RFC 3339 text; None if Go's time.Parse refuses it.

    Like Go it accepts an hour of one digit, a comma before the fraction, and offsets up to 24:60. Raises OverflowError
    for a timestamp outside the years 1 to 9999.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if not (
        1 <= month <= 12
        and 1 <= day <= monthrange(2000 + year % 400, month)[1]
        and hour < 24
        and minute < 60
        and second < 60
    ):
        return None
    sign, hours, minutes = match.group(8) or "+", int(match.group(9) or 0), int(match.group(10) or 0)
    if hours > 24 or minutes > 60:  # as Go allows
        return None
    offset = (hours * 3600 + minutes * 60) * (-1 if sign == "-" else 1)
    era, of_era = divmod(year - 2000, 400)
    days = date(2000 + of_era, month, day).toordinal() + era * _ERA - _DAYS_BEFORE_1970
    moment = days * 86_400 + hour * 3600 + minute * 60 + second - offset
    return in_range(moment) * SECOND + int((match.group(7) or "")[:9].ljust(9, "0")), offset


def in_range(moment: int) -> int:
    """The moment, in seconds since 1970. Raises OverflowError if it is outside the years 1 to 9999."""
    if not FIRST_SECOND <= moment <= LAST_SECOND:
        raise OverflowError("timestamp overflow")
    return moment


def format_timestamp(nanoseconds: int, offset: int = 0) -> str:
    """RFC 3339 without trailing zeros in the fraction (Go's time.RFC3339Nano), at an offset in seconds."""
    moment, fraction = divmod(nanoseconds, SECOND)
    local = fields(moment, offset)
    text = f"{local.year:04d}-{local.month:02d}-{local.day:02d}T{local.hour:02d}:{local.minute:02d}:{local.second:02d}"
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    if not offset:
        return f"{text}Z"
    minutes = abs(offset) // 60
    return f"{text}{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


class CalendarFields(NamedTuple):
    """A moment in local time. Days of the year count from 0, days of the week from 0 for Sunday."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    day_of_year: int
    day_of_week: int


def fields(moment: int, offset: int = 0) -> CalendarFields:
    """The calendar fields of seconds since 1970, at an offset in seconds. As in Go, any year is possible."""
    days, rest = divmod(moment + offset, 86_400)
    era, of_era = divmod(days + _DAYS_BEFORE_1970 - _DAYS_BEFORE_2000, _ERA)
    local = date.fromordinal(_DAYS_BEFORE_2000 + of_era)
    clock = (rest // 3600, rest // 60 % 60, rest % 60)
    of_year = local.toordinal() - date(local.year, 1, 1).toordinal()
    return CalendarFields(local.year + 400 * era, local.month, local.day, *clock, of_year, (days + 4) % 7)
