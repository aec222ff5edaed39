from __future__ import annotations

from typing import Any

import pytest

from policies.cel import types
from policies.cel.errors import BudgetError, CelError
from policies.cel.library.standard.textformat import format_text, letters, unsuitable
from policies.cel.values import NONE, Duration, Timestamp, Uint

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("", [1], ""),
        ("%%", [], "%"),
        ("%%%d%%", [5], "%5%"),
        ("\u00e9 %s \u00e9", ["\u00e9"], "\u00e9 \u00e9 \u00e9"),
        ("%.3s", ["abcdef"], "abcdef"),
        ("%s", [None], "null"),
        ("%s", [True], "true"),
        ("%s", [1e6], "1e+06"),
        ("%s", [Uint(5)], "5"),
        ("%s", [b"abc"], "abc"),
        ("%s", [types.INT], "int"),
        ("%s", [Timestamp(0)], "1970-01-01T00:00:00Z"),
        ("%s", [Duration(3_600_000_000_000)], "3600s"),
        ("%s", [[1, 1.0, -0.0, "a", b"abc", None, types.LIST]], '[1, 1.000000, -0.000000, "a", b"abc", null, list]'),
        ("%s", [[NAN, INFINITY, -INFINITY]], '["NaN", "+Inf", "-Inf"]'),
        ("%s", [[Timestamp(0), Duration(1)]], '[timestamp("1970-01-01T00:00:00Z"), duration("0.000000001s")]'),
        ("%s", [['"\\\x00\x7f\xa0\u2028\U0001f600\ufeff']], '["\\"\\\\\\x00\\x7f\\u00a0\\u2028\U0001f600\\ufeff"]'),
        ("%s", [{"x": None, "a": {"b": [Uint(1)]}}], '{"a":{"b":[1]}, "x":null}'),
        ("%s", [{1: 1, -1: 2, 10: 3, 2: 4}], "{-1:2, 1:1, 10:3, 2:4}"),
        ("%d", [-5], "-5"),
        ("%.3d", [Uint(5)], "5"),
        ("%b", [-5], "-101"),
        ("%b", [True], "1"),
        ("%o", [-8], "-10"),
        ("%x", [-255], "-ff"),
        ("%X", [Uint(255)], "FF"),
        ("%x", ["h\u00e9"], "68c3a9"),
        ("%X", [b"\xff"], "FF"),
    ],
)
def test_clauses(text: str, arguments: list[Any], expected: str) -> None:
    """Each clause writes the types that it knows as the reference does."""
    assert format_text(text, arguments) == expected


@pytest.mark.parametrize(
    ("clause", "value", "expected"),
    [
        ("%f", 1234567.891, "1,234,567.891000"),
        ("%f", -0.0, "0.000000"),
        ("%f", -1e-10, "-0.000000"),
        ("%.0f", 2.5, "2"),
        ("%.2f", 0.005, "0.01"),
        ("%.1f", 0.25, "0.2"),
        ("%f", "NaN", "NaN"),
        ("%f", INFINITY, "\u221e"),
        ("%f", "-Infinity", "-\u221e"),
        ("%.257f", 1.5, "1.5"),
        ("%.300f", 1.5, "1.5" + "0" * 43),
        ("%.300f", 0.1, "0.1000000000000000055511151231257827021181583404541015625"),
        ("%.32768f", 0.1, "0.1"),
        ("%.65537f", 1234.5678, "1,234.6"),
        ("%.9999999999f", 0.1, "%!(NOVERB)"),
        ("%e", 1234567.891, "1.234568\u00d710\u2070\u2076"),
        ("%e", 0.0, "0.000000\u00d710\u2070\u2070"),
        ("%e", -0.1, "-1.000000\u00d710\u207b\u2070\u00b9"),
        ("%e", 5e-324, "4.940656\u00d710\u207b\u00b3\u00b2\u2074"),
        ("%.3e", 1e-05, "1.000000\u00d710\u207b\u2070\u2075"),
        ("%.20e", 0.1, "      1.000000\u00d710\u207b\u2070\u00b9"),
        ("%e", -INFINITY, "    -\u221e"),
        ("%e", "NaN", "   NaN"),
    ],
)
def test_doubles(clause: str, value: object, expected: str) -> None:
    """Doubles are written for American readers, with the reference's own idea of a precision."""
    assert format_text(clause, [value]) == expected


PARSING, FORMATTING = "could not parse formatting clause: ", "error during formatting: "
PRECISION = f"{PARSING}error while parsing precision: "
CONVERTING = f"{PRECISION}error while converting precision to integer: strconv.Atoi: parsing "
STRING_CLAUSE = (
    f"{FORMATTING}string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps, was given "
)


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("%d %d", [5], "index 1 out of range"),
        ("%", [], "index 0 out of range"),
        ("%", [1], "unexpected end of string"),
        ("%.", [1], f"{PRECISION}could not find end of precision specifier"),
        ("%.5", [1], f"{PRECISION}could not find end of precision specifier"),
        ("%.d", [1], f'{CONVERTING}"": invalid syntax'),
        ("%.99999999999999999999f", [0.1], f'{CONVERTING}"99999999999999999999": value out of range'),
        ("%y", [1], f'{PARSING}unrecognized formatting clause "y"'),
        ("%\u00e9", [1], f'{PARSING}unrecognized formatting clause "\u00c3"'),
        ("%5d", [1], f'{PARSING}unrecognized formatting clause "5"'),
        ("%s", [NONE], f"{STRING_CLAUSE}optional_type"),
        ("%s", [[NONE]], f"{FORMATTING}no formatting function for optional_type"),
        (
            "%s",
            [[b"\xff"]],
            f'{FORMATTING}could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string',
        ),
        ("%d", [1.5], f"{FORMATTING}decimal clause can only be used on integers, was given double"),
        ("%d", [True], f"{FORMATTING}decimal clause can only be used on integers, was given bool"),
        ("%f", [1], f"{FORMATTING}fixed-point clause can only be used on doubles, was given int"),
        ("%f", ["x"], f"{FORMATTING}fixed-point clause can only be used on doubles, was given string"),
        ("%e", [None], f"{FORMATTING}scientific clause can only be used on doubles, was given null_type"),
        ("%b", ["x"], f"{FORMATTING}only integers and bools can be formatted as binary, was given string"),
        ("%o", [True], f"{FORMATTING}octal clause can only be used on integers, was given bool"),
        (
            "%x",
            [True],
            f"{FORMATTING}only integers, byte buffers, and strings can be formatted as hex, was given bool",
        ),
    ],
)
def test_failures(text: str, arguments: list[Any], expected: str) -> None:
    """What is wrong with a clause or its argument is said in the reference's words."""
    with pytest.raises(CelError) as raised:
        format_text(text, arguments)
    assert raised.value.message == expected


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        pytest.param("%s" * 1000, ["a" * 100_000] * 1000, id="one text a thousand times"),
        pytest.param("%s", [[[["a" * 1000] * 1000] * 1000] * 1000], id="lists that share their parts"),
        pytest.param("%s", [[{"a": ["a" * 1000] * 1000}] * 1000], id="maps that share their parts"),
    ],
)
def test_does_not_grow_without_bounds(text: str, arguments: list[Any]) -> None:
    """A result that would cost more to read than an evaluation may is not made."""
    with pytest.raises(BudgetError):
        format_text(text, arguments)


def test_letters() -> None:
    """Before a text runs, the clauses that take an argument can be known."""
    assert list(letters("%s %% %.3f\u00e9%X", 3)) == ["s", "f", "X"]
    assert unsuitable("d", "string") == f"{FORMATTING}decimal clause can only be used on integers, was given string"


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        ("%d %d", 1, "index 1 out of range"),
        ("%", 0, "unexpected end of string"),
        ("%y", 0, "index 0 out of range"),
        ("%y", 1, f'{PARSING}unrecognized formatting clause "y"'),
        ("%.", 1, f"{PRECISION}could not find end of precision specifier"),
    ],
)
def test_letters_that_cannot_be_read(text: str, count: int, expected: str) -> None:
    """A literal text is refused in the words of the reference's validator."""
    with pytest.raises(CelError) as raised:
        list(letters(text, count))
    assert raised.value.message == expected
