"""The exact numbers of quantities (k8s.io/apimachinery's pkg/api/resource and gopkg.in/inf.v0).

A quantity holds its number in one of two forms, and some results depend on the form: 64 bits with a power of ten
(Small), or unlimited (Large). Decimal does the arithmetic and never rounds here.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_UP, Context, Decimal

from policies.cel.errors import CelError
from policies.cel.values import INT_MAX, INT_MIN

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_DIGITS_LIMIT = 100_000
_FLOAT_EXPONENT = 309  # no double has so large a power of ten


def wrap(number: int, bits: int) -> int:
    """A number as a signed integer in Go, which keeps only the lower bits."""
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


@dataclass(frozen=True, slots=True)
class Small:
    """`value * 10**scale` with a value of 64 bits."""

    value: int
    scale: int

    @property
    def decimal(self) -> Decimal:
        """The same number."""
        return scaled(self.value, self.scale)

    def integer(self) -> int | None:
        """The number as a 64-bit integer; None if it is not whole or is too large."""
        return None if self.scale < 0 else shifted(self.value, self.scale)

    def large(self) -> Large:
        """The same number in the unlimited form."""
        return Large(self.decimal, -self.scale)

    def plus(self, other: Small) -> Small | None:
        """The sum; None if it needs more than 64 bits."""
        if other.value == 0:
            return self
        if self.value == 0:
            return other
        scale = min(self.scale, other.scale)
        left = shifted(self.value, wrap(self.scale - scale, 32))
        right = shifted(other.value, wrap(other.scale - scale, 32))
        if left is None or right is None or not INT_MIN <= left + right <= INT_MAX:
            return None
        return Small(left + right, scale)

    def negated(self) -> Small:
        """The negated number. As in Go, the smallest number does not change."""
        return Small(wrap(-self.value, 64), self.scale)


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


def scaled(value: int, scale: int) -> Decimal:
    """`value * 10**scale`, exactly."""
    return EXACT.scaleb(Decimal(value), scale) if scale else Decimal(value)


def shifted(value: int, scale: int) -> int | None:
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
        known = max(len_digits(left), len_digits(right))
        if top - bottom > known + _DIGITS_LIMIT:
            raise CelError("quantities are too far apart to add")
    return EXACT.add(left, right)


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def len_digits(number: Decimal) -> int:
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


def approximate(amount: Amount) -> float:
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


def without_factors(number: Decimal, factor: int) -> tuple[Decimal, int]:
    """A whole number divided by a factor as often as possible, and the number of divisions."""
    times, by = 0, Decimal(factor)
    while number and not EXACT.remainder(number, by):
        number, times = EXACT.divide_int(number, by), times + 1
    return number, times
