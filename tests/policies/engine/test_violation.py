"""What people read: refusals of several lines, warnings of one."""

from __future__ import annotations

from typing import Any

import pytest

from policies.engine.violation import Violation, describe, limited, one_line, quote, squeezed


def test_violations_are_ordered_and_grouped() -> None:
    """Lines stand below their summary, by rule and path, and each remedy is given once, after them."""
    found = [
        Violation("s", "spec.b", "7", "is odd", "Another.", "Do that."),
        Violation("r", "spec.z", "9", "is odd", "Odd numbers.", "Make it even."),
        Violation("r", "spec.a", "3", "is odd", "Odd numbers.", "Round it."),
        Violation("r", "spec.a", "1", "is odd", "Odd numbers.", "Make it even."),
    ]

    assert describe(found) == (
        "Odd numbers.\n"
        "  spec.a: 1 is odd\n"
        "  spec.a: 3 is odd\n"
        "  spec.z: 9 is odd\n"
        "Make it even.\n"
        "Round it.\n"
        "Another.\n"
        "  spec.b: 7 is odd\n"
        "Do that."
    )
    assert (describe(reversed(found)), describe([])) == (describe(found), "")


@pytest.mark.parametrize(("found", "counted"), [(0, ()), (24, ()), (25, ("and 1 more",)), (400, ("and 376 more",))])
def test_long_lists_of_warnings(found: int, counted: tuple[str, ...]) -> None:
    """A list that is too long for the API server, or has too many words, ends in the number that it leaves out."""
    lines = [f"spec.items[{number}]: 7 is odd" for number in range(found)]
    long = [str(number % 10) * 250 for number in range(20)]

    assert limited(lines) == (*lines[:24], *counted)
    assert limited(long, 1) == (*long[:16], "and 5 more")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("two\nlines", "two lines", id="line-break"),
        pytest.param("a\r\n\t b", "a b", id="blanks"),
        pytest.param("\x1b[31mred\x07\x00", r"\u001b[31mred\u0007\u0000", id="control-characters"),
        pytest.param("a\u2028b\u0085c", "a b c", id="line-breaks-of-unicode"),
        pytest.param("a\ud800b", r"a\ud800b", id="lone-surrogate"),
        pytest.param("a\u202eb", r"a\u202eb", id="change-of-direction"),
        pytest.param("größer ≥ 漢字", "größer ≥ 漢字", id="letters-of-any-script"),
        pytest.param("  a  ", "a", id="blanks-around"),
        pytest.param("x" * 120, "x" * 120, id="full"),
        pytest.param("x" * 121, "x" * 119 + "…", id="one-too-long"),
        pytest.param("\n" * 200 + "a", "a", id="short-after-cleaning"),
    ],
)
def test_one_line(text: str, line: str) -> None:
    """A warning is one line of printable characters and of 120 at most, since it travels as an HTTP header."""
    assert one_line(text) == line


def test_a_long_text_keeps_its_end() -> None:
    """A policy's warning of more than 250 characters is cut in its middle, for the remedy is at its end."""
    text = f"{'x' * 200} {'y' * 200} Remove\nthe label."

    assert squeezed(text) == f"{'x' * 125}…{'y' * 106} Remove the label."
    assert (squeezed("a" * 250), len(squeezed("a" * 251))) == ("a" * 250, 250)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("true", '"true"', id="text"),
        pytest.param("", '""', id="empty"),
        pytest.param('say "x"', r'"say \"x\""', id="quotes"),
        pytest.param("a\\b", r'"a\\b"', id="backslash"),
        pytest.param("a\nb", r'"a\nb"', id="line-break"),
        pytest.param("x" * 80, '"' + "x" * 80 + '"', id="full"),
        pytest.param("x" * 81, '"' + "x" * 80 + '…"', id="too-long"),
        pytest.param({"a": 1}, "a map", id="map"),
        pytest.param([1], "a list", id="list"),
        pytest.param(True, "a boolean", id="boolean"),
        pytest.param(None, "null", id="null"),
        pytest.param(7, "the number 7", id="integer"),
        pytest.param(1.5, "the number 1.5", id="float"),
    ],
)
def test_quoting(value: Any, text: str) -> None:
    """Text is shown in double quotes on one line and shortened, anything else by its type."""
    assert quote(value) == text
