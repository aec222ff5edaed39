"""Quantities: reading, comparing and adding. Expected values are those of the Go reference."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cel.cellibrary import answer, charged

from policies.cel.errors import CelError
from policies.cel.library.kubernetes.quantity import LIBRARY, parse

READ = [
    ("0", "0"),
    ("1", "1"),
    ("1.5", "1500m"),
    ("1.5Gi", "1536Mi"),
    ("0.1n", "1n"),
    ("-0.5n", "-1n"),
    ("1e3", "1e3"),
    ("1E", "1E"),
    ("12Ti", "12Ti"),
    ("1Pi", "1Pi"),
    ("1000", "1k"),
    ("1024Ki", "1Mi"),
    ("0.5Ki", "512"),
    ("9Ei", "9223372036854775807"),
    ("9223372036854775808", "9223372036854775808"),
    ("1e-10", "1e-9"),
    (".", "0"),
    ("+.", "0"),
    ("1e4294967297", "10"),
    ("", "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    ("1x", "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    ("1ii", "error: unable to parse quantity's suffix"),
    ("é", "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    ("1 ", "error: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
    ("0.Ki", "0"),
    ("12345678901234567890e5", "1234567890123456789e6"),
    ("1e21", "1e21"),
    ("1.25Pi", "1280Ti"),
]
MEMBERS = [
    ("sign", "0", 0),
    ("isInteger", "0", True),
    ("asInteger", "0", 0),
    ("sign", "1.5Gi", 1),
    ("isInteger", "1.5Gi", False),
    ("asInteger", "1.5Gi", "error: cannot convert value to integer"),
    ("sign", "100m", 1),
    ("isInteger", "100m", False),
    ("asInteger", "100m", "error: cannot convert value to integer"),
    ("sign", "12Ti", 1),
    ("isInteger", "12Ti", True),
    ("asInteger", "12Ti", 13194139533312),
    ("sign", "1Pi", 1),
    ("isInteger", "1Pi", False),
    ("asInteger", "1Pi", "error: cannot convert value to integer"),
    ("sign", "-1n", -1),
    ("isInteger", "-1n", False),
    ("asInteger", "-1n", "error: cannot convert value to integer"),
    ("sign", "9223372036854775808", 1),
    ("isInteger", "9223372036854775808", False),
    ("asInteger", "9223372036854775808", "error: cannot convert value to integer"),
    ("sign", "1e19", 1),
    ("isInteger", "1e19", False),
    ("asInteger", "1e19", "error: cannot convert value to integer"),
    ("sign", "1e18", 1),
    ("isInteger", "1e18", True),
    ("asInteger", "1e18", 1000000000000000000),
]
PAIRS = [
    ("add", "-9Ei", ".5Mi", "-9223372036854251519"),
    ("compareTo", "1Gi", "1G", 1),
    ("isLessThan", "1Gi", "1G", False),
    ("isGreaterThan", "1Gi", "1G", True),
    ("add", "1Gi", "1G", "2073741824"),
    ("sub", "1Gi", "1G", "73741824"),
    ("compareTo", "1", "1000m", 0),
    ("isLessThan", "1", "1000m", False),
    ("isGreaterThan", "1", "1000m", False),
    ("add", "1", "1000m", "2"),
    ("sub", "1", "1000m", "0"),
    ("compareTo", "0", "5Ki", -1),
    ("isLessThan", "0", "5Ki", True),
    ("isGreaterThan", "0", "5Ki", False),
    ("add", "0", "5Ki", "5Ki"),
    ("sub", "0", "5Ki", "-5Ki"),
    ("compareTo", "1Ki", "1", 1),
    ("isLessThan", "1Ki", "1", False),
    ("isGreaterThan", "1Ki", "1", True),
    ("add", "1Ki", "1", "1025"),
    ("sub", "1Ki", "1", "1023"),
    ("compareTo", "-1Gi", "1e3", -1),
    ("isLessThan", "-1Gi", "1e3", True),
    ("isGreaterThan", "-1Gi", "1e3", False),
    ("add", "-1Gi", "1e3", "-1073740824"),
    ("sub", "-1Gi", "1e3", "-1073742824"),
    ("compareTo", "9223372036854775807", "1", 1),
    ("isLessThan", "9223372036854775807", "1", False),
    ("isGreaterThan", "9223372036854775807", "1", True),
    ("add", "9223372036854775807", "1", "9223372036854775808"),
    ("sub", "9223372036854775807", "1", "9223372036854775806"),
    ("compareTo", "1e1000", "1", 1),
    ("isLessThan", "1e1000", "1", False),
    ("isGreaterThan", "1e1000", "1", True),
    (
        "add",
        "1e1000",
        "1",
        "10000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001",
    ),
    (
        "sub",
        "1e1000",
        "1",
        "9999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
    ),
    ("compareTo", "1.5", "0.5", 1),
    ("isLessThan", "1.5", "0.5", False),
    ("isGreaterThan", "1.5", "0.5", True),
    ("add", "1.5", "0.5", "2"),
    ("sub", "1.5", "0.5", "1"),
    ("compareTo", "1n", "1E", -1),
    ("isLessThan", "1n", "1E", True),
    ("isGreaterThan", "1n", "1E", False),
    ("add", "1n", "1E", "1000000000000000000000000001n"),
    ("sub", "1n", "1E", "-999999999999999999999999999n"),
]
WITH_INTEGERS = [
    ("sub", "1Ei", -9223372036854775808, "9Ei"),
    ("add", "0", -9223372036854775808, "-9223372036854775808"),
    ("sub", "0", -9223372036854775808, "-9223372036854775808"),
    ("add", "1Gi", 1024, "1048577Ki"),
    ("sub", "1Gi", 1024, "1048575Ki"),
    ("add", "100m", -1, "-900m"),
    ("sub", "100m", -1, "1100m"),
    ("add", "0", 7000, "7e3"),
    ("sub", "0", 7000, "-7e3"),
]


FLOATS = [
    ("1.5Gi", 1610612736.0),
    ("100m", 0.1),
    ("0.1n", 1e-09),
    ("12345678901234567890", 1.234567890123457e19),
    ("1e1000", float("inf")),
]
MANTISSAS = st.integers(-(10**14), 10**14)
SUFFIXES = st.sampled_from(["", "m", "k", "M", "e3"])
SCALES = {"": 0, "m": -3, "k": 3, "M": 6, "e3": 3}


@pytest.mark.parametrize(("text", "expected"), READ)
def test_reading(text: str, expected: str) -> None:
    """A text is read and written as the reference does, or refused in its words."""
    assert answer(LIBRARY, "quantity", text) == expected
    assert answer(LIBRARY, "isQuantity", text) is not expected.startswith("error")


@pytest.mark.parametrize(("name", "text", "expected"), MEMBERS)
def test_members(name: str, text: str, expected: object) -> None:
    """Sign and whole number are the reference's, which gives up whole numbers beyond a certain length."""
    assert answer(LIBRARY, name, parse(text)) == expected


@pytest.mark.parametrize(("name", "left", "right", "expected"), PAIRS)
def test_pairs(name: str, left: str, right: str, expected: object) -> None:
    """Two quantities are compared and added exactly."""
    assert answer(LIBRARY, name, parse(left), parse(right)) == expected


@pytest.mark.parametrize(("name", "left", "right", "expected"), WITH_INTEGERS)
def test_with_integers(name: str, left: str, right: int, expected: str) -> None:
    """An integer is added like a quantity with an exponent."""
    assert answer(LIBRARY, name, parse(left), right) == expected


@pytest.mark.parametrize(("text", "expected"), FLOATS)
def test_approximate_float(text: str, expected: float) -> None:
    """A double is computed from digits and power of ten one after the other."""
    assert answer(LIBRARY, "asApproximateFloat", parse(text)) == expected


def test_equality() -> None:
    """Equal numbers are equal in any notation; a computed quantity on the right, or another type, is an error."""
    assert parse("1k").cel_equal(parse("1000")) is True
    assert (parse("1k") == parse("1e3"), hash(parse("1k")) == hash(parse("1000"))) == (True, True)
    computed = LIBRARY.functions[-2].overloads[1].call
    assert computed is not None
    two = computed(parse("1"), 1)
    assert two.cel_equal(parse("2")) is True
    for other in (two, "2", 2):
        with pytest.raises(CelError, match=r"^no such overload$"):
            parse("2").cel_equal(other)


def test_cost() -> None:
    """Reading costs a tenth of the length, everything else 1."""
    assert charged(LIBRARY, "quantity", "1" * 41) == 5
    assert charged(LIBRARY, "add", parse("1"), 1) == 1


@pytest.mark.parametrize(
    "text", ["9" * 1_000_000, "0" * 1_000_000 + "x", "1" * 1_000_000 + "x", "1e2147483647"], ids=len
)
def test_hostile_texts(text: str) -> None:
    """A long text, or a huge exponent, takes no time worth mentioning."""
    answer(LIBRARY, "isQuantity", text)
    if not text.endswith("x"):
        assert answer(LIBRARY, "isLessThan", parse("1"), parse(text)) is True


def test_too_far_apart() -> None:
    """A sum that would take gigabytes is refused, which the reference would try to compute."""
    assert answer(LIBRARY, "add", parse("1e2147483647"), parse("1")) == "error: quantities are too far apart to add"


@given(MANTISSAS, SUFFIXES, MANTISSAS, SUFFIXES)
def test_arithmetic_is_exact(left: int, left_suffix: str, right: int, right_suffix: str) -> None:
    """Sums and comparisons are those of the rational numbers, and a sum is read back as itself."""
    first, second = parse(f"{left}{left_suffix}"), parse(f"{right}{right_suffix}")
    one, other = left * Fraction(10) ** SCALES[left_suffix], right * Fraction(10) ** SCALES[right_suffix]
    assert answer(LIBRARY, "compareTo", first, second) == (one > other) - (one < other)
    total = answer(LIBRARY, "add", first, second)
    assert Fraction(parse(total).amount.decimal) == one + other
    assert str(parse(total)) == total
