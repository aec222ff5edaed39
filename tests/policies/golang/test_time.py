from __future__ import annotations

import pytest

from policies.golang.time import (
    FIRST_SECOND,
    LAST_SECOND,
    CalendarFields,
    fields,
    format_duration,
    format_timestamp,
    go_duration,
    parse_duration,
    parse_timestamp,
)

MOST = 9_223_372_036_854_775_807


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h", 3_600_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("-1.5h", -5_400_000_000_000),
        ("+5s", 5_000_000_000),
        ("0", 0),
        ("-0", 0),
        (".5s", 500_000_000),
        ("5.s", 5_000_000_000),
        ("1\u00b5s", 1000),
        ("1\u03bcs", 1000),
        ("1us", 1000),
        ("1.9ns", 1),
        ("1h1h", 7_200_000_000_000),
        ("00001s", 1_000_000_000),
        ("1.99999999999999999999h", 7_200_000_000_000),
        ("9223372036854775807ns", MOST),
        ("-9223372036854775808ns", -MOST - 1),
        ("2562047h47m16.854775807s", MOST),
        ("9223372036854775808ns", None),
        ("-9223372036854775809ns", None),
        ("2562048h", None),
        ("99999999999999999999s", None),
        ("", None),
        ("-", None),
        ("+-1s", None),
        (".s", None),
        ("1", None),
        ("1d", None),
        ("1H", None),
        ("1 s", None),
        ("1s2", None),
        ("1e3s", None),
        ("1_0s", None),
        ("\u0661s", None),
    ],
)
def test_parse_duration(text: str, expected: int | None) -> None:
    """Durations are numbers with units, within 64 bits of nanoseconds."""
    assert parse_duration(text) == expected


def test_long_durations_are_refused_quickly() -> None:
    """A text of any length is read in one pass."""
    assert parse_duration("1" * 1_000_000 + "s") is None
    assert parse_duration("0." + "1" * 1_000_000 + "s") == 111_111_111
    assert parse_duration("1ns" * 100_000) == 100_000


@pytest.mark.parametrize(
    ("nanoseconds", "of_cel", "of_go"),
    [
        (0, "0s", "0s"),
        (1, "0.000000001s", "1ns"),
        (-1, "-0.000000001s", "-1ns"),
        (1500, "0.0000015s", "1.5\u00b5s"),
        (1_500_000, "0.0015s", "1.5ms"),
        (-500_000_000, "-0.5s", "-500ms"),
        (60_000_000_000, "60s", "1m0s"),
        (3_600_500_000_000, "3600.5s", "1h0m0.5s"),
        (360_000_500_000_000, "360000.5s", "100h0m0.5s"),
        (MOST, "9223372036.854776s", "2562047h47m16.854775807s"),
    ],
)
def test_format_duration(nanoseconds: int, of_cel: str, of_go: str) -> None:
    """CEL writes seconds as a double; Go's messages have hours and minutes."""
    assert (format_duration(nanoseconds), go_duration(nanoseconds)) == (of_cel, of_go)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", (0, 0)),
        ("1970-01-01T00:00:00.1234567899Z", (123_456_789, 0)),
        ("1970-01-01T00:00:00,5Z", (500_000_000, 0)),
        ("1970-01-01T1:00:00Z", (3_600_000_000_000, 0)),
        ("1970-01-01T01:30:00+01:30", (0, 5400)),
        ("1969-12-31T23:59:00-00:01", (0, -60)),
        ("1970-01-02T01:00:00+24:60", (0, 90_000)),
        ("1969-12-31T23:59:59.5Z", (-500_000_000, 0)),
        ("2000-02-29T00:00:00Z", (951_782_400_000_000_000, 0)),
        ("0001-01-01T00:00:00Z", (FIRST_SECOND * 10**9, 0)),
        ("9999-12-31T23:59:59Z", (LAST_SECOND * 10**9, 0)),
        ("2019-02-29T00:00:00Z", None),
        ("2020-13-01T00:00:00Z", None),
        ("2020-01-00T00:00:00Z", None),
        ("2020-01-01T24:00:00Z", None),
        ("2020-01-01T23:60:00Z", None),
        ("2020-01-01T23:59:60Z", None),
        ("2020-01-01T00:00:00+25:00", None),
        ("2020-01-01T00:00:00+24:61", None),
        ("2020-01-01T00:00:00+0000", None),
        ("2020-01-01T00:00:00", None),
        ("2020-01-01T00:00:00.Z", None),
        ("2020-01-01t00:00:00Z", None),
        ("2020-01-01T00:00:00z", None),
        ("2020-1-01T00:00:00Z", None),
        ("2020-01-01T00:0:00Z", None),
        ("10000-01-01T00:00:00Z", None),
        ("2020-01-01T00:00:00Z\n", None),
        ("\u0662020-01-01T00:00:00Z", None),
    ],
)
def test_parse_timestamp(text: str, expected: tuple[int, int] | None) -> None:
    """Timestamps are RFC 3339 as Go reads it, with an offset."""
    assert parse_timestamp(text) == expected


@pytest.mark.parametrize("text", ["0000-12-31T23:59:59Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"])
def test_timestamps_have_bounds(text: str) -> None:
    """A moment has to be in the years 1 to 9999 of UTC."""
    with pytest.raises(OverflowError, match=r"^timestamp overflow$"):
        parse_timestamp(text)


@pytest.mark.parametrize(
    ("nanoseconds", "offset", "expected"),
    [
        (0, 0, "1970-01-01T00:00:00Z"),
        (-1, 0, "1969-12-31T23:59:59.999999999Z"),
        (250_000_000, 5400, "1970-01-01T01:30:00.25+01:30"),
        (0, -3600, "1969-12-31T23:00:00-01:00"),
        (0, 90_000, "1970-01-02T01:00:00+25:00"),
        (LAST_SECOND * 10**9, 3600, "10000-01-01T00:59:59+01:00"),
        (FIRST_SECOND * 10**9, 0, "0001-01-01T00:00:00Z"),
    ],
)
def test_format_timestamp(nanoseconds: int, offset: int, expected: str) -> None:
    """Timestamps are written with as many digits as needed, at their offset."""
    assert format_timestamp(nanoseconds, offset) == expected


@pytest.mark.parametrize(
    ("moment", "offset", "expected"),
    [
        (0, 0, CalendarFields(1970, 1, 1, 0, 0, 0, 0, 4)),
        (-1, 0, CalendarFields(1969, 12, 31, 23, 59, 59, 364, 3)),
        (951_782_399, 1, CalendarFields(2000, 2, 29, 0, 0, 0, 59, 2)),
        (FIRST_SECOND, -3600, CalendarFields(0, 12, 31, 23, 0, 0, 365, 0)),
        (LAST_SECOND, 3600, CalendarFields(10_000, 1, 1, 0, 59, 59, 0, 6)),
    ],
)
def test_fields(moment: int, offset: int, expected: CalendarFields) -> None:
    """The calendar goes on before the year 1 and after the year 9999."""
    assert fields(moment, offset) == expected
