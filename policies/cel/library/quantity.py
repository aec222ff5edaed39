"""The exact numbers of quantities (k8s.io/apimachinery's pkg/api/resource and gopkg.in/inf.v0).

A quantity holds its number in one of two forms, and some results depend on the form: 64 bits with a power of ten
(Small), or unlimited (Large). Decimal does the arithmetic and never rounds here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_UP, Context, Decimal
from enum import Enum
from functools import lru_cache
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import of_first
from policies.cel.environment import library, succeeds
from policies.cel.types import Type
from policies.cel.values import INT_MAX, INT_MIN, CelError, Incomparable, no_such_overload
from policies.engine.interruption import spend

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_DIGITS_LIMIT = 100_000
_FLOAT_EXPONENT = 309  # no double has so large a power of ten


@dataclass(frozen=True, slots=True)
class Small:
    """`value * 10**scale` with a value of 64 bits."""

    value: int
    scale: int

    @property
    def decimal(self) -> Decimal:
        """The same number."""
        return EXACT.scaleb(Decimal(self.value), self.scale) if self.scale else Decimal(self.value)

    def plus(self, other: Small) -> Small | None:
        """The sum; None if it needs more than 64 bits."""
        if other.value == 0:
            return self
        if self.value == 0:
            return other
        scale = min(self.scale, other.scale)
        left = _shifted(self.value, self.scale - scale)
        right = _shifted(other.value, other.scale - scale)
        if left is None or right is None or not INT_MIN <= left + right <= INT_MAX:
            return None
        return Small(left + right, scale)

    def negated(self) -> Small:
        """The negated number. As in Go, the smallest number does not change."""
        return self if self.value == INT_MIN else Small(-self.value, self.scale)


@dataclass(frozen=True, slots=True)
class Large:
    """An unlimited number, and the number of decimal places with which the reference would write it."""

    decimal: Decimal
    places: int

    def plus(self, other: Large) -> Large:
        """The sum. Raises CelError if it needs more memory than a request may use."""
        return Large(_sum(self.decimal, other.decimal), max(self.places, other.places))

    def negated(self) -> Large:
        """The negated number."""
        return Large(self.decimal.copy_negate() if self.decimal else self.decimal, self.places)


Amount = Small | Large


def _shifted(value: int, scale: int) -> int | None:
    """`value * 10**scale` for a non-negative scale; None if it needs more than 64 bits."""
    if value == 0 or scale <= 0:
        return value
    if scale > 18 or value == INT_MIN:
        return None
    result: int = value * 10**scale
    return result if INT_MIN <= result <= INT_MAX else None


def _sum(left: Decimal, right: Decimal) -> Decimal:
    if left and right:
        top = max(left.adjusted(), right.adjusted())
        bottom = min(_exponent(left), _exponent(right))
        known = max(_len_digits(left), _len_digits(right))
        if top - bottom > known + _DIGITS_LIMIT:
            raise CelError("quantities are too far apart to add")
    return EXACT.add(left, right)


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _len_digits(number: Decimal) -> int:
    """The number of digits of a number, without its power of ten."""
    return number.adjusted() - _exponent(number) + 1


def compare(left: Amount, right: Amount) -> int:
    """The order of two amounts: -1, 0 or 1."""
    if isinstance(left, Small) and isinstance(right, Small) and left.scale == right.scale:
        return int(left.value > right.value) - int(left.value < right.value)
    return int(left.decimal.compare(right.decimal, EXACT))


def round_up(number: Decimal, places: int) -> Decimal:
    """A number with at most this many decimal places, rounded away from zero (inf.RoundUp)."""
    if _exponent(number) >= -places:
        return number
    return number.quantize(Decimal(1).scaleb(-places), ROUND_UP, EXACT)


def _approximate(amount: Amount) -> float:
    """The double nearest to an amount, as the reference computes it: first the digits, then the power of ten."""
    if isinstance(amount, Small):
        return float(amount.value) if amount.scale == 0 else float(amount.value) * _power(amount.scale)
    unscaled = EXACT.scaleb(amount.decimal, amount.places)
    if unscaled and unscaled.adjusted() >= _FLOAT_EXPONENT:
        base = float("-inf" if unscaled.is_signed() else "inf")
    else:
        base = float(unscaled)
    return base if amount.places == 0 else base * _power(-amount.places)


def _power(exponent: int) -> float:
    """`10**exponent` from two tables (Go's math.Pow10), which is not always the nearest double."""
    if exponent > 308:
        return float("inf")
    if exponent < -323:
        return 0.0
    high, low = divmod(abs(exponent), 32)
    if exponent >= 0:
        return float(f"1e{32 * high}") * float(f"1e{low}")
    return float(f"1e-{32 * high}") / float(f"1e{low}")


def _without_factors(number: Decimal, factor: int) -> tuple[Decimal, int]:
    """A whole number divided by a factor as often as possible, and the number of divisions."""
    times, by = 0, Decimal(factor)
    while number and not EXACT.remainder(number, by):
        number, times = EXACT.divide_int(number, by), times + 1
    return number, times


TYPE = types.struct("kubernetes.Quantity")
_DIGITS, _FORMER_DIGITS, _PLACES = 19, 18, 9  # of 64 bits; nano is the smallest unit
# Possessive quantifiers, because the reference reads from left to right and never backtracks.
_TEXT = re.compile(r"([+-]?+0*+([0-9]*+)(?:\.([0-9]*+))?+)([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_LONGEST_EXPONENT = 10
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"


class Form(Enum):
    """The notation of a quantity: 12e6, 12Mi, 12M."""

    EXPONENT = "DecimalExponent"
    BINARY = "BinarySI"
    DECIMAL = "DecimalSI"


_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Quantity(Incomparable):
    """An amount and its notation. `text`: the text that it was parsed from, if that is canonical.

    `computed`: True for results of add() and sub(). The reference stores them differently and cannot compare them on
    the right of `==`.
    """

    cel_type: ClassVar[Type] = TYPE
    amount: Amount
    form: Form
    text: str = ""
    computed: bool = False

    def cel_equal(self, other: object) -> bool:
        """Whether `==` holds. Raises CelError for a value of another type, and for a computed one on the right."""
        if not isinstance(other, Quantity) or other.computed:
            raise no_such_overload()
        return compare(self.amount, other.amount) == 0

    def __str__(self) -> str:
        return self.text or _canonical(self)


def parse(text: str, most: int = _DIGITS) -> Quantity:
    """The quantity in a text. Raises CelError with the reference's message. most: the digits that 64 bits may hold."""
    spend(len(text) * 0.02)
    match = _TEXT.fullmatch(text)
    if not match or not text:
        raise CelError(_WRONG)
    number, whole, fraction, suffix = match[1], match[2] or "0", match[3] or "", match[4]
    # The form of the suffix, and its exponent of ten or of two.
    if suffix in _DECIMAL:
        form, exponent = Form.DECIMAL, _DECIMAL[suffix]
    elif suffix in _BINARY:
        form, exponent = Form.BINARY, _BINARY[suffix]
    elif (powers := _EXPONENT.fullmatch(suffix)) and len(powers[1]) <= _LONGEST_EXPONENT:
        form, exponent = Form.EXPONENT, int(powers[1])
    else:
        raise CelError(_WRONG_SUFFIX)
    # Without its sign the amount may need more than 64 bits, or a smaller unit than nano.
    digits, is_negative = whole + fraction, number.startswith("-")
    if form is Form.BINARY:
        fits = not fraction and len(whole) + exponent * 3 // 10 <= 14
        small = Small(int(whole) << exponent if fits else 0, 0)
    else:
        small = Small(int(digits) if len(digits) <= most else 0, exponent - len(fraction))
        fits = len(digits) <= most and small.scale >= -_PLACES
    if not fits or small.value > INT_MAX + is_negative:
        return _large(number, form, exponent, exact=most == _DIGITS)
    if form is Form.BINARY:
        is_canonical = bool((small.value >> exponent) & 7)
    else:
        is_canonical = small.scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    is_kept = is_canonical and len(digits) <= _FORMER_DIGITS
    return Quantity(small.negated() if is_negative else small, form, text if is_kept else "")


_remembered = lru_cache(maxsize=1024)(parse)
_REMEMBERED_LENGTH = 32


def read(text: str, most: int = _DIGITS) -> Quantity:
    """The quantity in a text, as `parse` returns it. Short texts are cached, because most objects use the same few."""
    return _remembered(text, most) if len(text) <= _REMEMBERED_LENGTH else parse(text, most)


def read_formerly(text: str) -> Quantity:
    """The quantity in a text before 1.38, which kept fewer digits in 64 bits."""
    return read(text, _FORMER_DIGITS)


def _large(text: str, form: Form, exponent: int, *, exact: bool) -> Quantity:
    """The quantity with an unlimited amount: rounded up to nano, and capped at 64 bits if the suffix is binary.

    exact: whether it keeps the places that it has, and is not written with those of nano.
    """
    if not any(map(str.isdigit, text)):
        raise CelError(_WRONG_NUMBER)
    sign = text.startswith("-")
    number = Decimal(text).copy_abs()
    places = len(text) - text.index(".") - 1 if "." in text else 0
    if form is Form.BINARY:
        number = EXACT.multiply(number, Decimal(2**exponent))
    else:
        number, places = EXACT.scaleb(number, exponent), places - exponent
    if number:
        number, places = round_up(number, _PLACES), min(places, _PLACES) if exact else _PLACES
    if form is Form.BINARY:
        if number > INT_MAX:
            number, places = Decimal(INT_MAX), 0
        if 0 < number < 1:
            form = Form.DECIMAL
    return Quantity(Large(number.copy_negate() if sign and number else number, places), form)


def _canonical(quantity: Quantity) -> str:
    """The text with the largest suffix that leaves no fraction (Quantity.CanonicalizeBytes)."""
    number, form = quantity.amount.decimal, quantity.form
    if not number:
        return "0"
    if form is Form.BINARY and (abs(number) < 1024 or round_up(number, 0) != number):
        form = Form.DECIMAL
    if form is Form.BINARY:
        mantissa, times = _without_factors(EXACT.to_integral_value(number), 1024)
        return f"{mantissa:f}{_BINARY_SUFFIX.get(times * 10, '')}"
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):  # never: no quantity is infinite or NaN
        raise TypeError(exponent)
    text = "".join(map(str, digits))
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    extra = exponent % 3
    power = exponent - extra
    suffix = (f"e{power}" if power else "") if form is Form.EXPONENT else _DECIMAL_SUFFIX.get(power, "")
    return f"{'-' if sign else ''}{stripped}{'0' * extra}{suffix}"


def _integer(quantity: Quantity) -> int | None:
    """The number as a 64-bit integer; None if it is not whole or is too large."""
    amount = quantity.amount
    return _shifted(amount.value, amount.scale) if isinstance(amount, Small) and amount.scale >= 0 else None


def _as_integer(quantity: Quantity) -> int:
    integer = _integer(quantity)
    if integer is None:
        raise CelError("cannot convert value to integer")
    return integer


def _compare(left: Quantity, right: Quantity) -> int:
    return compare(left.amount, right.amount)


def _total(
    left: Quantity, other: Amount, other_form: Form = Form.EXPONENT, *, negative: bool = False, wrapping: bool = False
) -> Quantity:
    """The sum or the difference, in the form of the first quantity unless that is zero.

    wrapping: whether the negation of the least number of 64 bits is that number, as in Go.
    """
    amount = left.amount
    form = left.form if amount.decimal else other_form
    total: Amount | None = None
    fits = wrapping or not negative or other.decimal != INT_MIN
    if isinstance(amount, Small) and isinstance(other, Small) and fits:
        total = amount.plus(other.negated() if negative else other)
    if total is None:
        own, large = (one if isinstance(one, Large) else Large(one.decimal, -one.scale) for one in (amount, other))
        total = own.plus(large.negated() if negative else large)
    return Quantity(total, form, computed=True)


def subtract_formerly(left: Quantity, right: int) -> Quantity:
    """`left.sub(right)` before 1.38, which could not negate the least integer."""
    return _total(left, Small(right, 0), negative=True, wrapping=True)


LIBRARY = library(
    "kubernetes.quantity",
    ("string_to_quantity: quantity(string) -> Quantity", read, of_first),
    ("is_quantity_string: isQuantity(string) -> bool", succeeds(read), of_first),
    (
        "quantity_sign: sign(Quantity) -> int",
        lambda quantity: (quantity.amount.decimal > 0) - (quantity.amount.decimal < 0),
    ),
    ("quantity_is_greater_than: Quantity.isGreaterThan(Quantity) -> bool", lambda one, other: _compare(one, other) > 0),
    ("quantity_is_less_than: Quantity.isLessThan(Quantity) -> bool", lambda one, other: _compare(one, other) < 0),
    ("quantity_compare_to: Quantity.compareTo(Quantity) -> int", _compare),
    ("quantity_get_float: Quantity.asApproximateFloat() -> double", lambda quantity: _approximate(quantity.amount)),
    ("quantity_get_int: Quantity.asInteger() -> int", _as_integer),
    ("quantity_is_integer: Quantity.isInteger() -> bool", lambda quantity: _integer(quantity) is not None),
    ("quantity_add: Quantity.add(Quantity) -> Quantity", lambda one, other: _total(one, other.amount, other.form)),
    ("quantity_add_int: Quantity.add(int) -> Quantity", lambda one, other: _total(one, Small(other, 0))),
    (
        "quantity_sub: Quantity.sub(Quantity) -> Quantity",
        lambda one, other: _total(one, other.amount, other.form, negative=True),
    ),
    ("quantity_sub_int: Quantity.sub(int) -> Quantity", lambda one, other: _total(one, Small(other, 0), negative=True)),
    named={"Quantity": TYPE},
)
