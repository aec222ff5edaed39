"""Splits text into tokens by CEL's grammar, the longest token wins; and the values of literals.

The kind of an operator, of punctuation and of `in`, `true`, `false` and `null` is its text; others are named below.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from policies.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

IDENTIFIER, QUOTED_IDENTIFIER = "IDENTIFIER", "ESC_IDENTIFIER"
INT, UINT, DOUBLE, STRING, BYTES = "NUM_INT", "NUM_UINT", "NUM_FLOAT", "STRING", "BYTES"
END = "<EOF>"
ERROR = "ERROR"
"""A character that does not start a token. Only END follows it."""
KEYWORDS = frozenset({"in", "true", "false", "null"})

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_EXPONENT = r"(?:[eE][+-]?[0-9]++)"
_QUOTED = rf"""
    (?: \"\"\" (?:[^\\]|{_ESCAPE})*? \"\"\" | ''' (?:[^\\]|{_ESCAPE})*? '''
      | [rR] (?: \"\"\" .*? \"\"\" | ''' .*? ''' | "[^"\n\r]*+" | '[^'\n\r]*+' )
      | "(?:[^\\"\n\r]|{_ESCAPE})*+" | '(?:[^\\'\n\r]|{_ESCAPE})*+' )
"""

_TOKEN = re.compile(
    rf"""
    (?: [ \t\r\n\f]++ | //[^\n]*+ )*+
    (?: (?P<{DOUBLE}> [0-9]++ (?: \.[0-9]++ {_EXPONENT}? | {_EXPONENT} ) | \.[0-9]++ {_EXPONENT}? )
      | (?P<{UINT}> (?: 0x[0-9a-fA-F]++ | [0-9]++ ) [uU] )
      | (?P<{INT}> 0x[0-9a-fA-F]++ | [0-9]++ )
      | (?P<{STRING}> {_QUOTED} )
      | (?P<{BYTES}> [bB] {_QUOTED} )
      | (?P<{IDENTIFIER}> [A-Za-z_][A-Za-z0-9_]*+ )
      | (?P<operator> == | != | <= | >= | && | \|\| | [][(){{}}<>.,!?:+*/%-] )
      | (?P<{QUOTED_IDENTIFIER}> `[A-Za-z0-9_./ -]++` )
      | (?P<{ERROR}> . )
      | \Z
    )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(slots=True)
class Tokens:
    """The tokens of an expression, as lists of the same length; the last token is END."""

    kinds: list[str]
    texts: list[str]
    starts: list[int]


def tokenize(text: str) -> Tokens:
    """All tokens of a text, up to the first invalid character."""
    tokens = Tokens([], [], [])
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind is None:
            break
        word = match[kind]
        tokens.kinds.append(word if kind == "operator" or word in KEYWORDS else kind)
        tokens.texts.append(word)
        tokens.starts.append(match.start(kind))
        if kind == ERROR:
            break
    tokens.kinds.append(END)
    tokens.texts.append(END)
    tokens.starts.append(len(text))
    return tokens


_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPED = re.compile(r"\\(?:([xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_LARGEST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_MOST_DIGITS = 20  # of any number in range; Python refuses to parse thousands of digits


class LiteralValueError(Exception):
    """A literal is well formed but has no valid value. The text is the reference's message."""


def integer(text: str, sign: str = "") -> int:
    """The value of a literal such as `12` or `0x1f`, with its sign."""
    return _within(sign + text, INT_MIN, INT_MAX, "invalid int literal")


def unsigned(text: str) -> Uint:
    """The value of a literal such as `12u` or `0x1fu`."""
    return Uint(_within(text[:-1], 0, UINT_MAX, "invalid uint literal"))


def double(text: str, sign: str = "") -> float:
    """The value of a literal such as `1.5` or `1e3`."""
    value = float(sign + text)
    if math.isinf(value):
        raise LiteralValueError("invalid double literal")
    return value


def string(text: str) -> str:
    """The value of a string literal of any form."""
    inner, raw = _inner(text)
    return inner if raw or "\\" not in inner else _ESCAPED.sub(_character, inner)


def octets(text: str) -> bytes:
    """The value of a bytes literal: escapes stand for bytes, other characters are encoded as UTF-8."""
    inner, raw = _inner(text[1:])
    if raw or "\\" not in inner:
        return inner.encode(errors="surrogatepass")
    value, end = bytearray(), 0
    for match in _ESCAPED.finditer(inner):
        value += inner[end : match.start()].encode(errors="surrogatepass")
        code, octal, simple = match.groups()
        if code is not None and code[0] in "uU":
            raise LiteralValueError("unable to unescape string")
        point = int(octal, 8) if octal is not None else int(code[1:], 16) if code is not None else ord(_SIMPLE[simple])
        value.append(point)
        end = match.end()
    return bytes(value + inner[end:].encode(errors="surrogatepass"))


def _within(text: str, least: int, most: int, complaint: str) -> int:
    negative = text.startswith("-")
    digits, base = text.lstrip("-"), 10
    if digits.startswith("0x"):
        digits, base = digits[2:], 16
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:
        raise LiteralValueError(complaint)
    value = -int(digits, base) if negative else int(digits, base)
    if not least <= value <= most:
        raise LiteralValueError(complaint)
    return value


def _inner(text: str) -> tuple[str, bool]:
    """The text between the quotes, with Unix line ends, and whether the literal is raw."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in {'"""', "'''"} else 1
    return text[quotes:-quotes], raw


def _character(match: re.Match[str]) -> str:
    code, octal, simple = match.groups()
    if simple is not None:
        return _SIMPLE[simple]
    point = int(octal, 8) if code is None else int(code[1:], 16)
    if point > _LARGEST or point in _SURROGATES:
        raise LiteralValueError("invalid unicode code point")
    return chr(point)
