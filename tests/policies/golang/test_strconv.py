from __future__ import annotations

import pytest

from policies.golang.strconv import atoi, double, fixed, general, integer, quote, unsigned

LEAST, MOST = -9_223_372_036_854_775_808, 9_223_372_036_854_775_807


@pytest.mark.parametrize(
    ("text", "signed", "without_sign"),
    [
        ("5", 5, 5),
        ("-5", -5, None),
        ("+5", 5, None),
        ("-0", 0, None),
        ("0" * 30 + "12", 12, 12),
        (str(MOST), MOST, MOST),
        (str(LEAST), LEAST, None),
        ("", None, None),
        ("-", None, None),
        ("0x1F", None, None),
        ("1_000", None, None),
        (" 1", None, None),
        ("1.5", None, None),
        ("\u0661", None, None),
        ("\u00b2", None, None),
    ],
)
def test_integers(text: str, signed: int | None, without_sign: int | None) -> None:
    """Integers are decimal digits of ASCII, with a sign where that is allowed."""
    assert (integer(text), unsigned(text)) == (signed, without_sign)


@pytest.mark.parametrize("text", [str(MOST + 1), str(LEAST - 1), "9" * 100_000])
def test_integers_beyond_the_bounds(text: str) -> None:
    """What does not fit is told apart from what is no integer, at once for any length."""
    with pytest.raises(OverflowError):
        integer(text)


def test_unsigned_integers_beyond_the_bounds() -> None:
    """An unsigned integer has 64 bits."""
    assert unsigned("18446744073709551615") == 2**64 - 1
    with pytest.raises(OverflowError):
        unsigned("18446744073709551616")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 'strconv.Atoi: parsing "": invalid syntax'),
        ('1"\n', 'strconv.Atoi: parsing "1\\"\\n": invalid syntax'),
        ("9" * 20, f'strconv.Atoi: parsing "{"9" * 20}": value out of range'),
    ],
)
def test_atoi_says_what_is_wrong(text: str, expected: str) -> None:
    """A text that is no integer fails in Go's words."""
    with pytest.raises(ValueError, match="Atoi") as raised:
        atoi(text)
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".5", "0.5"),
        ("5.", "5.0"),
        ("+1E5", "100000.0"),
        ("1_000.5", "1000.5"),
        ("1e5_0", "1e+50"),
        ("0x1p-2", "0.25"),
        ("0x.8p1", "1.0"),
        ("0x_1p-2", "0.25"),
        ("0X1_0P0", "16.0"),
        ("0x1.fffffffffffff8p1022", "8.98846567431158e+307"),
        ("1e-400", "0.0"),
        ("-0", "-0.0"),
        ("inf", "inf"),
        ("+Infinity", "inf"),
        ("-iNF", "-inf"),
        ("NaN", "nan"),
        ("-nan", "None"),
        ("infinit", "None"),
        ("1e309", "None"),
        ("0x1p1024", "None"),
        ("0x1", "None"),
        ("0x1p", "None"),
        ("0xp1", "None"),
        ("1__0", "None"),
        ("_1", "None"),
        ("1_", "None"),
        ("1_.5", "None"),
        ("1._5", "None"),
        ("1e_5", "None"),
        (".", "None"),
        ("1e", "None"),
        (" 1", "None"),
        ("\u0661", "None"),
    ],
)
def test_doubles(text: str, expected: str) -> None:
    """Doubles follow the grammar of Go, with hexadecimal ones and underscores between digits."""
    assert repr(double(text)) == expected


@pytest.mark.parametrize("unit", ["1", "_", "0", "."])
def test_long_texts_are_read_quickly(unit: str) -> None:
    """A text of any length is read in one pass."""
    for start in ("", "1", "0x", "0x1"):
        assert double(f"{start}{unit * 200_000}x") is None


@pytest.mark.parametrize(
    ("value", "shortest", "without_exponent"),
    [
        (0.0, "0", "0"),
        (-0.0, "-0", "-0"),
        (1.0, "1", "1"),
        (-2.5, "-2.5", "-2.5"),
        (100_000.0, "100000", "100000"),
        (1e6, "1e+06", "1000000"),
        (123_456_789.0, "1.23456789e+08", "123456789"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "1e-05", "0.00001"),
        (1e21, "1e+21", "1000000000000000000000"),
        (1.5e-7, "1.5e-07", "0.00000015"),
        (1.7976931348623157e308, "1.7976931348623157e+308", "17976931348623157" + "0" * 292),
        (5e-324, "5e-324", "0." + "0" * 323 + "5"),
    ],
)
def test_shortest_forms(value: float, shortest: str, without_exponent: str) -> None:
    """A double is written with as few digits as tell it apart from all others."""
    assert (general(value), fixed(value)) == (shortest, without_exponent)


def test_what_is_not_finite() -> None:
    """Infinities have a sign."""
    assert list(map(general, (float("inf"), float("-inf"), float("nan")))) == ["+Inf", "-Inf", "NaN"]


def test_quote() -> None:
    """What cannot be printed is escaped, by name, by byte or by code point."""
    text = 'a"\\\a\b\f\n\r\t\v\0\x7f\x80\xa0\u00e9\u2028\U0001f600\U000e0001\ufeff'
    assert quote(text) == (
        '"a\\"\\\\\\a\\b\\f\\n\\r\\t\\v\\x00\\x7f\\u0080\\u00a0\u00e9\\u2028\U0001f600\\U000e0001\\ufeff"'
    )
