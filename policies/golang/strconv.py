"""Text and numbers as Go reads and writes them: bytes, strconv.Quote, and numbers in fmt."""

from __future__ import annotations

import math
import re
from decimal import Decimal

_SURROGATE = re.compile("[\ud800-\udfff]")
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space in Go (unicode.IsSpace)."""
ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def clean(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, as when Go decodes JSON."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def trimmed(text: str) -> str:
    """The text without the white space around it (strings.TrimSpace)."""
    return text.strip(SPACE)


def utf8(text: str) -> bytes:
    """The UTF-8 bytes of a text, with lone surrogates replaced."""
    return clean(text).encode()


def text_of(raw: bytes) -> str:
    """The text that bytes encode, with U+FFFD for each byte that is not valid UTF-8."""
    return clean(raw.decode(errors="surrogateescape"))


def quote(text: str | bytes) -> str:
    """A text in double quotes with Go's escapes. Surrogateescape characters count as bytes that are not valid UTF-8."""
    if isinstance(text, bytes):
        text = text.decode(errors="surrogateescape")
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(character: str) -> str:
    escaped = ESCAPES.get(character)
    if escaped is not None:
        return escaped
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)
_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_LONGEST_INTEGER = 20  # digits of 2**64 - 1


def integer(text: str, low: int = _INT_MIN, high: int = _INT_MAX) -> int | None:
    """The integer in decimal digits with an optional sign (strconv.ParseInt, base 10); None for any other text.

    Raises OverflowError if the integer is out of bounds.
    """
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > _LONGEST_INTEGER:
        digits = digits.lstrip("0") or "0"
    if len(digits) > _LONGEST_INTEGER:
        raise OverflowError
    value = -int(digits) if text[0] == "-" else int(digits)
    if not low <= value <= high:
        raise OverflowError
    return value


def unsigned(text: str) -> int | None:
    """The integer in decimal digits without a sign (strconv.ParseUint); None or OverflowError as for `integer`."""
    return None if text[:1] in {"+", "-"} else integer(text, 0, _UINT_MAX)


def atoi(text: str) -> int:
    """An integer. Raises ValueError with the message of strconv.Atoi."""
    try:
        value = integer(text)
    except OverflowError:
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: value out of range") from None
    if value is None:
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    return value


def double(text: str) -> float | None:
    """A floating-point number (strconv.ParseFloat, without hexadecimal ones); None for other texts and an overflow."""
    if _DECIMAL.fullmatch(text):
        value = float(text)
        return None if math.isinf(value) else value
    return float(text) if _SPECIAL.fullmatch(text) else None


def general(value: float) -> str:
    """The shortest form of a double (fmt's %g). It has an exponent below 1e-04 and from 1e+06 on."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    digits = Decimal(repr(value)).normalize()
    if not value or -4 <= digits.adjusted() < 6:
        return f"{digits:f}"
    mantissa, _, exponent = f"{digits:e}".partition("e")
    return f"{mantissa}e{int(exponent):+03d}"


def fixed(value: float) -> str:
    """The shortest form of a finite double without an exponent (strconv.FormatFloat 'f', -1)."""
    return f"{Decimal(repr(value)).normalize():f}"
