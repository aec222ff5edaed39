from __future__ import annotations

import pytest
from support.cel.overloads import Failed, declared, outcome

from policies.cel.library.standard.time import LIBRARY
from policies.cel.values import Duration, Timestamp
from policies.golang.time import parse_duration, parse_timestamp

CHRISTMAS = "2023-12-25T00:00:00.987654321Z"


def timestamp(text: str) -> Timestamp:
    """The moment of an RFC 3339 text."""
    found = parse_timestamp(text)
    assert found is not None
    return Timestamp(found[0])


def duration(text: str) -> Duration:
    """The duration of a text such as `1h30m`."""
    found = parse_duration(text)
    assert found is not None
    return Duration(found)


def _accessor(part: str, *, zone: str = "with_tz", duration: bool = False) -> list[str]:
    moment, length = "google.protobuf.Timestamp", "google.protobuf.Duration"
    plain = [f"timestamp_to_{part}: {moment}.() -> int", f"timestamp_to_{part}_{zone}: {moment}.(string) -> int"]
    return [*plain, f"duration_to_{part}: {length}.() -> int"] if duration else plain


def test_declares_the_functions_of_the_reference() -> None:
    """The functions have the overloads of the reference."""
    assert declared(LIBRARY) == {
        "getFullYear": _accessor("year"),
        "getMonth": _accessor("month"),
        "getDayOfYear": _accessor("day_of_year"),
        "getDayOfMonth": _accessor("day_of_month"),
        "getDate": _accessor("day_of_month_1_based"),
        "getDayOfWeek": _accessor("day_of_week"),
        "getHours": _accessor("hours", duration=True),
        "getMinutes": _accessor("minutes", duration=True),
        "getSeconds": _accessor("seconds", zone="tz", duration=True),
        "getMilliseconds": _accessor("milliseconds", duration=True),
    }


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("year", 2023),
        ("month", 11),
        ("day_of_year", 358),
        ("day_of_month", 24),
        ("day_of_month_1_based", 25),
        ("day_of_week", 1),
        ("hours", 0),
        ("minutes", 0),
        ("seconds", 0),
        ("milliseconds", 987),
    ],
)
def test_parts_of_a_moment(part: str, expected: int) -> None:
    """Without a zone the parts are those of UTC; months and days count from 0, dates from 1."""
    assert outcome(LIBRARY, f"timestamp_to_{part}", timestamp(CHRISTMAS)) == expected


@pytest.mark.parametrize(
    ("moment", "part", "zone", "expected"),
    [
        (CHRISTMAS, "hours", "", 0),
        (CHRISTMAS, "hours", "UTC", 0),
        (CHRISTMAS, "hours", "Local", 0),
        (CHRISTMAS, "hours", "Europe/Berlin", 1),
        (CHRISTMAS, "hours", "EST", 19),
        (CHRISTMAS, "day_of_month_1_based", "America/Los_Angeles", 24),
        (CHRISTMAS, "milliseconds", "America/Los_Angeles", 987),
        ("2024-03-31T00:59:59Z", "hours", "Europe/Berlin", 1),
        ("2024-03-31T01:00:00Z", "hours", "Europe/Berlin", 3),
        ("9999-07-31T23:59:59Z", "hours", "Europe/Berlin", 1),
        ("1800-07-31T23:59:59Z", "minutes", "Europe/Berlin", 53),
        ("0001-01-01T00:00:00Z", "year", "America/New_York", 0),
        ("0001-01-01T00:00:00Z", "minutes", "America/New_York", 3),
        ("9999-12-31T23:59:59Z", "year", "Asia/Tokyo", 10_000),
        (CHRISTMAS, "hours", "+01:30", 1),
        (CHRISTMAS, "minutes", "-00:30", 30),
        (CHRISTMAS, "minutes", "00:30", 30),
        (CHRISTMAS, "minutes", "1:-30", 30),
        (CHRISTMAS, "year", "999999:1", 2138),
        (CHRISTMAS, "year", "100000000:1", 1740),
        (CHRISTMAS, "year", "9223372036854775807:1", 2023),
        (CHRISTMAS, "day_of_year", "-2000000:1", 299),
        ("9999-12-31T23:59:59Z", "year", "+01:00", 10_000),
        ("0001-01-01T00:00:00Z", "day_of_week", "-01:00", 0),
        (CHRISTMAS, "hours", "utc", Failed("unknown time zone utc")),
        (CHRISTMAS, "hours", "Nowhere/Land", Failed("unknown time zone Nowhere/Land")),
        (CHRISTMAS, "hours", "../etc/passwd", Failed("time: invalid location name")),
        (CHRISTMAS, "hours", "/etc/passwd", Failed("time: invalid location name")),
        (CHRISTMAS, "hours", "\\x", Failed("time: invalid location name")),
        (CHRISTMAS, "hours", "a\0b", Failed("invalid argument")),
        (CHRISTMAS, "milliseconds", "x", Failed("unknown time zone x")),
        (CHRISTMAS, "hours", ":30", Failed('strconv.Atoi: parsing "": invalid syntax')),
        (CHRISTMAS, "hours", "1:", Failed('strconv.Atoi: parsing "": invalid syntax')),
        (CHRISTMAS, "hours", "1:2:3", Failed('strconv.Atoi: parsing "2:3": invalid syntax')),
        (CHRISTMAS, "hours", "1_0:1", Failed('strconv.Atoi: parsing "1_0": invalid syntax')),
    ],
)
def test_zones(moment: str, part: str, zone: str, expected: object) -> None:
    """A zone is an IANA name or hours and minutes, of any size, as the reference has it."""
    assert outcome(LIBRARY, f"timestamp_to_{part}_with_tz", timestamp(moment), zone) == expected


def test_seconds_in_a_zone() -> None:
    """The overload with a name of its own."""
    assert outcome(LIBRARY, "timestamp_to_seconds_tz", timestamp("2023-12-25T00:00:59Z"), "+01:00") == 59


@pytest.mark.parametrize(
    ("text", "hours", "minutes", "seconds", "milliseconds"),
    [
        ("3723.456s", 1, 62, 3723, 3_723_456),
        ("-3723.456s", -1, -62, -3723, -3_723_456),
        ("0s", 0, 0, 0, 0),
        ("2562046h59m59.999999999s", 2_562_047, 153_722_820, 9_223_369_200, 9_223_369_199_999),
    ],
)
def test_durations(text: str, hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    """The whole of a duration in each unit; the largest ones are rounded up, being doubles in between."""
    parts = ("hours", "minutes", "seconds", "milliseconds")
    found = [outcome(LIBRARY, f"duration_to_{part}", duration(text)) for part in parts]
    assert found == [hours, minutes, seconds, milliseconds]
