r"""Escapes of regular expressions: `\n`, `\x{1F600}`, `\.` (parseEscape of Go's regexp/syntax), and their errors."""

from __future__ import annotations

import re

_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEX = frozenset("0123456789abcdefABCDEF")
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_LARGEST = 0x10FFFF


class RegexError(ValueError):
    """An expression that Go refuses, in its words."""

    def __init__(self, reason: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {reason}: `{part}`")


def closing(text: str, sign: str, at: int) -> int | None:
    """Where a sign ends that closes what starts before `at`; None if there is none."""
    found = text.find(sign, at)
    return None if found < 0 else found + len(sign)


def escape_end(text: str, at: int) -> tuple[int, int]:
    """The character that the escape at `at` stands for, and where the escape ends. Raises RegexError."""
    kind = text[at + 1 : at + 2]
    if not kind:
        raise RegexError("trailing backslash at end of expression", "")
    octal = _OCTAL.match(text, at + 1)
    if octal:
        return int(octal[0], 8), octal.end()
    if kind == "x":
        return _hexadecimal(text, at)
    if kind in _CONTROLS:
        return _CONTROLS[kind], at + 2
    if kind.isascii() and not kind.isalnum():
        return ord(kind), at + 2
    raise _invalid(text, at, at + 2)


def _hexadecimal(text: str, at: int) -> tuple[int, int]:
    if text.startswith("{", at + 2):
        return _braces(text, at)
    first, second = text[at + 2 : at + 3], text[at + 3 : at + 4]
    if first in _HEX and second in _HEX:
        return int(first + second, 16), at + 4
    raise _invalid(text, at, at + 4)


def _braces(text: str, at: int) -> tuple[int, int]:
    value, index = 0, at + 3
    while index < len(text) and text[index] in _HEX:
        value = value * 16 + int(text[index], 16)
        if value > _LARGEST:
            raise _invalid(text, at, index + 1)
        index += 1
    if index < len(text) and text[index] == "}" and index > at + 3:
        return value, index + 1
    raise _invalid(text, at, index + 1)


def _invalid(text: str, at: int, end: int) -> RegexError:
    return RegexError("invalid escape sequence", text[at:end])
