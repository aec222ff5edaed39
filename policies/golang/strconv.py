"""Numbers and text as Go reads and writes them (strconv, and numbers in fmt)."""

from __future__ import annotations

import math
import re

from policies.golang.quote import quote

_DECIMAL = re.compile(r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?=_*(?:\._*)?[0-9a-fA-F])[0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?[pP][+-]?[0-9][0-9_]*")
_SPECIAL = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)
_UNDERSCORES = re.compile(r"(?<![0-9a-fA-FxX])_|_(?![0-9a-fA-F])")
_DECIMAL_UNDERSCORES = re.compile(r"(?<![0-9])_|_(?![0-9])")
_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_LONGEST_INTEGER = 20  # digits of 2**64 - 1
__all__ = ["atoi", "double", "fixed", "general", "integer", "quote", "unsigned"]


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
    """A floating-point number in Go's grammar (strconv.ParseFloat); None for any other text and for an overflow."""
    if _HEXADECIMAL.fullmatch(text):
        if "_" in text and _UNDERSCORES.search(text):
            return None
        try:
            return float.fromhex(text.replace("_", ""))
        except OverflowError:
            return None
    if _DECIMAL.fullmatch(text):
        if "_" in text and _DECIMAL_UNDERSCORES.search(text):
            return None
        value = float(text.replace("_", ""))
        return None if math.isinf(value) else value
    return float(text) if _SPECIAL.fullmatch(text) else None


def general(value: float) -> str:
    """The shortest form of a double (fmt's %g). It has an exponent below 1e-04 and from 1e+06 on."""
    if not math.isfinite(value):
        return _not_finite(value)
    sign, digits, point = _shortest(value)
    exponent = point - 1
    if not -4 <= exponent < 6:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{exponent:+03d}"
    return sign + _plain(digits, point)


def fixed(value: float) -> str:
    """The shortest form of a finite double without an exponent (strconv.FormatFloat 'f', -1)."""
    sign, digits, point = _shortest(value)
    return sign + _plain(digits, point)


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def _shortest(value: float) -> tuple[str, str, int]:
    """The sign, the digits without leading and trailing zeros, and the position of the point in them."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    stripped = digits.lstrip("0")
    point = len(whole) + int(exponent or "0") - (len(digits) - len(stripped))
    stripped = stripped.rstrip("0")
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return (sign, stripped, point) if stripped else (sign, "0", 1)


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"
