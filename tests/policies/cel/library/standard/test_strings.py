from __future__ import annotations

from typing import Any

import pytest
from support.cel.overloads import Failed, declared, outcome, price

from policies.cel.library.standard.strings import LIBRARY
from policies.cel.values import Duration, Timestamp, Uint

TOO_EXPENSIVE = Failed("operation cancelled: actual cost limit exceeded")


def test_declares_the_functions_of_the_reference() -> None:
    """The functions are those of version 2, without `reverse`, with the overloads of the reference."""
    assert declared(LIBRARY) == {
        "charAt": ["string_char_at_int: string.(int) -> string"],
        "indexOf": [
            "string_index_of_string: string.(string) -> int",
            "string_index_of_string_int: string.(string, int) -> int stepwise",
        ],
        "lastIndexOf": [
            "string_last_index_of_string: string.(string) -> int",
            "string_last_index_of_string_int: string.(string, int) -> int stepwise",
        ],
        "lowerAscii": ["string_lower_ascii: string.() -> string"],
        "replace": [
            "string_replace_string_string: string.(string, string) -> string stepwise",
            "string_replace_string_string_int: string.(string, string, int) -> string stepwise",
        ],
        "split": [
            "string_split_string: string.(string) -> list(string)",
            "string_split_string_int: string.(string, int) -> list(string) stepwise",
        ],
        "substring": [
            "string_substring_int: string.(int) -> string",
            "string_substring_int_int: string.(int, int) -> string stepwise",
        ],
        "trim": ["string_trim: string.() -> string"],
        "upperAscii": ["string_upper_ascii: string.() -> string"],
        "format": ["string_format: string.(list(dyn)) -> string stepwise"],
        "strings.quote": ["strings_quote: (string) -> string"],
        "join": [
            "list_join: list(string).() -> string",
            "list_join_string: list(string).(string) -> string",
        ],
    }


@pytest.mark.parametrize(
    ("id", "arguments", "expected"),
    [
        ("char_at_int", ("\u00e9\U0001f600x", 1), "\U0001f600"),
        ("char_at_int", ("abc", 3), ""),
        ("char_at_int", ("abc", 4), Failed("index out of range: 4")),
        ("char_at_int", ("abc", -1), Failed("index out of range: -1")),
        ("index_of_string", ("\U0001f600tacocat", "cat"), 5),
        ("index_of_string", ("abc", ""), 0),
        ("index_of_string_int", ("tacocat", "a", 2), 5),
        ("index_of_string_int", ("tacocat", "a", 100), -1),
        ("index_of_string_int", ("tacocat", "", 100), 7),
        ("index_of_string_int", ("tacocat", "", -5), Failed("index out of range: -5")),
        ("index_of_string_int", ("", "a", -1), Failed("index out of range: -1")),
        ("last_index_of_string", ("tacocat", "a"), 5),
        ("last_index_of_string", ("tacocat", ""), 7),
        ("last_index_of_string", ("", "x"), -1),
        ("last_index_of_string", ("\u00e9", "ab"), -1),
        ("last_index_of_string_int", ("tacocat", "a", 3), 1),
        ("last_index_of_string_int", ("tacocat", "at", 5), 5),
        ("last_index_of_string_int", ("tacocat", "tacocat", 6), 0),
        ("last_index_of_string_int", ("tacocat", "a", 100), -1),
        ("last_index_of_string_int", ("tacocat", "", -100), Failed("index out of range: -100")),
        ("last_index_of_string_int", ("tacocat", "a", -1), Failed("index out of range: -1")),
        ("substring_int", ("abc", 3), ""),
        ("substring_int", ("abc", 4), Failed("index out of range: 4")),
        ("substring_int", ("abc", -1), Failed("index out of range: -1")),
        ("substring_int_int", ("abc", 1, 2), "b"),
        ("substring_int_int", ("abc", 2, 1), Failed("invalid substring range. start: 2, end: 1")),
        ("substring_int_int", ("abc", -1, 1), Failed("index out of range: -1")),
        ("substring_int_int", ("abc", 0, 9), Failed("index out of range: 9")),
    ],
)
def test_positions(id: str, arguments: tuple[Any, ...], expected: object) -> None:
    """Positions count characters; those outside of the text are told apart as in the reference."""
    assert outcome(LIBRARY, f"string_{id}", *arguments) == expected


def test_the_search_from_the_end_is_quick() -> None:
    """A text that nearly matches everywhere is searched in a time by its length, not by its square."""
    assert outcome(LIBRARY, "string_last_index_of_string", "a" * 400_000, "b" + "a" * 200_000) == -1
    assert outcome(LIBRARY, "string_last_index_of_string", "xab" + "a" * 400_000, "ab" + "a" * 10) == 1


@pytest.mark.parametrize(
    ("id", "arguments", "expected"),
    [
        ("lower_ascii", ("a\u00c9A\u0130",), "a\u00c9a\u0130"),
        ("lower_ascii", ("ABC",), "abc"),
        ("upper_ascii", ("a\u00e9\u00df\u0131",), "A\u00e9\u00df\u0131"),
        ("upper_ascii", ("abc",), "ABC"),
        ("trim", (" \t\n\v\f\r\x85\xa0\u2003x\u3000\u2028\u200b",), "x\u3000\u2028\u200b"),
        ("trim", ("\x1cx\x1f",), "\x1cx\x1f"),
        ("trim", ("\u1680x\u180e",), "x\u180e"),
        ("replace_string_string", ("aaa", "a", "b"), "bbb"),
        ("replace_string_string", ("a\u00e9", "", "-"), "-a-\u00e9-"),
        ("replace_string_string_int", ("aaa", "a", "b", 2), "bba"),
        ("replace_string_string_int", ("aaa", "a", "b", 0), "aaa"),
        ("replace_string_string_int", ("aaa", "a", "b", -1), "bbb"),
        ("replace_string_string_int", ("", "", "-", 0), ""),
        ("split_string", ("a,b,,c", ","), ["a", "b", "", "c"]),
        ("split_string", ("a\u00e9", ""), ["a", "\u00e9"]),
        ("split_string", ("", ""), []),
        ("split_string", ("", ","), [""]),
        ("split_string_int", ("a,b,c", ",", 2), ["a", "b,c"]),
        ("split_string_int", ("a,b,c", ",", 1), ["a,b,c"]),
        ("split_string_int", ("a,b,c", ",", 0), []),
        ("split_string_int", ("a,b,c", ",", -1), ["a", "b", "c"]),
        ("split_string_int", ("a\u00e9x", "", 2), ["a", "\u00e9x"]),
        ("split_string_int", ("", "", 1), []),
    ],
)
def test_changes(id: str, arguments: tuple[Any, ...], expected: object) -> None:
    """Only letters of ASCII change their case, white space is Go's, and an empty text stands between characters."""
    assert outcome(LIBRARY, f"string_{id}", *arguments) == expected


def test_quote() -> None:
    """Quotes, backslashes and the control characters with a name are escaped, and nothing else."""
    assert outcome(LIBRARY, "strings_quote", 'a"b\\\a\b\f\n\r\t\v\0\u00e9') == (
        '"a\\"b\\\\\\a\\b\\f\\n\\r\\t\\v\0\u00e9"'
    )


@pytest.mark.parametrize(
    ("items", "separator", "expected"),
    [
        ([], ",", ""),
        (["a"], ",", "a"),
        (["a", "", "b"], ", ", "a, , b"),
        (["a", 1], ",", Failed("join: invalid input: 1")),
        (["a", Uint(5)], ",", Failed("join: invalid input: 5")),
        (["a", 1e20], ",", Failed("join: invalid input: 1e+20")),
        (["a", None], ",", Failed("join: invalid input: 0")),
        (["a", b"ab"], ",", Failed("join: invalid input: [97 98]")),
        (["a", Duration(5_400_000_000_000)], ",", Failed("join: invalid input: 1h30m0s")),
        (["a", Timestamp(0)], ",", Failed("join: invalid input: 1970-01-01 00:00:00 +0000 UTC")),
        (["a" * 100] * 50_001, "", TOO_EXPENSIVE),
    ],
)
def test_join(items: list[Any], separator: str, expected: object) -> None:
    """Only texts can be joined, and not to one that costs more than an evaluation may."""
    assert outcome(LIBRARY, "list_join_string", items, separator) == expected


def test_replace_does_not_grow_without_bounds() -> None:
    """A text that would become too long to be read once is not made; one that shrinks or fits is."""
    text = "a" * 10_000
    assert outcome(LIBRARY, "string_replace_string_string", text, "", text) == TOO_EXPENSIVE
    assert len(outcome(LIBRARY, "string_replace_string_string_int", text, "a", text, 2)) == 29_998


@pytest.mark.parametrize(
    ("id", "arguments", "result", "expected"),
    [
        ("string_char_at_int", ("a" * 100, 0), "a", 1),
        ("string_index_of_string", ("\u00e9" * 21, "x"), -1, 4),
        ("string_lower_ascii", ("a" * 21,), "a" * 21, 3),
        ("string_trim", ("",), "", 0),
        ("string_substring_int_int", ("a" * 21, 0, 1), "a", 3),
        ("string_replace_string_string", ("a" * 21, "a", ""), "", 5),
        ("string_split_string", ("a" * 21, ","), ["a" * 21], 5),
        ("list_join", (["a"],), "a" * 1000, 200),
        ("string_format", ("%s" * 11, []), "x", 3),
        ("strings_quote", ("a" * 21,), "", 3),
    ],
)
def test_costs(id: str, arguments: tuple[Any, ...], result: object, expected: int) -> None:
    """Texts cost a tenth of their length to read, and as much again to build."""
    assert price(LIBRARY, id, *arguments, result=result) == expected
