"""Long texts, and forms for messages. What Go reads and writes is recorded in tests/conformance/golang.yaml."""

from __future__ import annotations

import pytest

from policies.golang.strconv import atoi, double, general, integer, quote
from policies.golang.time import go_duration, parse_duration


def test_long_texts_are_read_quickly() -> None:
    """A text of any length is read in one pass."""
    assert [double(f"{start}{unit * 200_000}x") for start in ("", "1", "0x", "0x1") for unit in "1_0."] == [None] * 16
    assert [parse_duration(text) for text in ("1" * 10**6 + "s", "0." + "1" * 10**6 + "s", "1ns" * 10**5)] == [
        None,
        111_111_111,
        100_000,
    ]
    with pytest.raises(OverflowError):
        integer("9" * 100_000)


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
    with pytest.raises(ValueError, match=r"strconv\.Atoi") as raised:
        atoi(text)
    assert str(raised.value) == expected


def test_forms_for_messages() -> None:
    """Parts of a second have their unit, what is not finite has a sign, and what cannot be printed is escaped."""
    text = 'a"\\\a\b\f\n\r\t\v\0\x7f\x80\xa0\u00e9\u2028\U0001f600\U000e0001\ufeff'

    assert list(map(go_duration, (0, 1, -1500, 1_500_000))) == ["0s", "1ns", "-1.5\u00b5s", "1.5ms"]
    assert list(map(general, (float("inf"), float("-inf"), float("nan")))) == ["+Inf", "-Inf", "NaN"]
    assert quote(text) == (
        '"a\\"\\\\\\a\\b\\f\\n\\r\\t\\v\\x00\\x7f\\u0080\\u00a0\u00e9\\u2028\U0001f600\\U000e0001\\ufeff"'
    )
