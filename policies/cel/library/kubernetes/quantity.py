"""Resource quantities: `quantity('1.5Gi').isGreaterThan(quantity('1G'))`.

Sources: k8s.io/apiserver's pkg/cel/library/quantity.go and pkg/cel/quantity.go, k8s.io/apimachinery's
pkg/api/resource/quantity.go and suffix.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import of_first
from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Function, Implementation, Library, Overload, function, single, succeeds
from policies.cel.library.kubernetes.amount import (
    EXACT,
    Amount,
    Large,
    Small,
    approximate,
    compare,
    round_up,
    without_factors,
    wrap,
)
from policies.cel.types import Type
from policies.cel.values import INT_MAX, INT_MIN, Incomparable

TYPE = types.struct("kubernetes.Quantity")
_DIGITS, _PLACES = 18, 9  # of 64 bits; nano is the smallest unit
# Possessive quantifiers, because the reference reads from left to right and never backtracks.
_TEXT = re.compile(r"([+-]?+0*+([0-9]*+)(?:\.([0-9]*+))?+)([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
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


def parse(text: str) -> Quantity:
    """The quantity in a text. Raises CelError with the reference's message."""
    match = _TEXT.fullmatch(text)
    if not match or not text:
        raise CelError(_WRONG)
    number, whole, fraction, suffix = match[1], match[2] or "0", match[3] or "", match[4]
    form, exponent = _suffix(suffix)
    small = _small(whole, fraction, form, exponent)
    if small is None:
        return _large(number, form, exponent)
    if number.startswith("-"):
        small = small.negated()
    return Quantity(small, form, text if _is_canonical(whole + fraction, small, form, exponent) else "")


_remembered = lru_cache(maxsize=1024)(parse)
_REMEMBERED_LENGTH = 32


def read(text: str) -> Quantity:
    """The quantity in a text, as `parse` returns it. Short texts are cached, because most objects use the same few."""
    return _remembered(text) if len(text) <= _REMEMBERED_LENGTH else parse(text)


def _suffix(suffix: str) -> tuple[Form, int]:
    """The form of a suffix, and its exponent of ten or of two."""
    if suffix in _DECIMAL:
        return Form.DECIMAL, _DECIMAL[suffix]
    if suffix in _BINARY:
        return Form.BINARY, _BINARY[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if not match:
        raise CelError(_WRONG_SUFFIX)
    digits = match[1].lstrip("+-").lstrip("0") or "0"
    if len(digits) > 19:
        raise CelError(_WRONG_SUFFIX)
    exponent = -int(digits) if match[1][0] == "-" else int(digits)
    if not INT_MIN <= exponent <= INT_MAX:
        raise CelError(_WRONG_SUFFIX)
    return Form.EXPONENT, wrap(exponent, 32)


def _small(whole: str, fraction: str, form: Form, exponent: int) -> Small | None:
    """The amount without its sign; None if it needs more than 64 bits or a smaller unit than nano."""
    digits = len(whole) + len(fraction)
    if form is Form.BINARY:
        room = 15 - len(whole) - exponent * 3 // 10 - 1
        return None if fraction or room < 0 else Small(int(whole) << exponent, 0)
    scale = wrap(exponent - len(fraction), 32)
    if digits > _DIGITS or scale < -_PLACES:
        return None
    return Small(int(whole + fraction), scale)


def _is_canonical(digits: str, small: Small, form: Form, exponent: int) -> bool:
    if form is Form.BINARY:
        return bool((abs(small.value) >> exponent) & 7)
    return small.scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _large(text: str, form: Form, exponent: int) -> Quantity:
    """The quantity with an unlimited amount: rounded up to nano, and capped at 64 bits if the suffix is binary."""
    if not any(map(str.isdigit, text)):
        raise CelError(_WRONG_NUMBER)
    sign = text.startswith("-")
    number = Decimal(text).copy_abs()
    places = len(text) - text.index(".") - 1 if "." in text else 0
    if form is Form.BINARY:
        number = EXACT.multiply(number, Decimal(2**exponent))
    else:
        number, places = EXACT.scaleb(number, exponent), wrap(places - exponent, 32)
    if number:
        number, places = round_up(number, _PLACES), _PLACES
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
        mantissa, times = without_factors(EXACT.to_integral_value(number), 1024)
        return f"{mantissa:f}{_BINARY_SUFFIX.get(times * 10, '')}"
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):  # never: no quantity is infinite or NaN
        raise TypeError(exponent)
    text = "".join(map(str, digits))
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    extra = exponent % 3
    suffix = _exponent_suffix(exponent - extra) if form is Form.EXPONENT else _DECIMAL_SUFFIX.get(exponent - extra, "")
    return f"{'-' if sign else ''}{stripped}{'0' * extra}{suffix}"


def _exponent_suffix(exponent: int) -> str:
    return f"e{exponent}" if exponent else ""


def _sign(quantity: Quantity) -> int:
    number = quantity.amount.decimal
    return (number > 0) - (number < 0)


def _integer(quantity: Quantity) -> int | None:
    return quantity.amount.integer() if isinstance(quantity.amount, Small) else None


def _as_integer(quantity: Quantity) -> int:
    integer = _integer(quantity)
    if integer is None:
        raise CelError("cannot convert value to integer")
    return integer


def _compare(left: Quantity, right: Quantity) -> int:
    return compare(left.amount, right.amount)


def _sum(left: Quantity, other: Amount, other_form: Form, *, negative: bool) -> Quantity:
    """The sum or the difference, in the form of the first quantity unless that is zero."""
    amount = left.amount
    form = left.form if amount.decimal else other_form
    total: Amount | None = None
    if isinstance(amount, Small) and isinstance(other, Small):
        total = amount.plus(other.negated() if negative else other)
    if total is None:
        large = _without_limits(other)
        total = _without_limits(amount).plus(large.negated() if negative else large)
    return Quantity(total, form, computed=True)


def _without_limits(amount: Amount) -> Large:
    return amount if isinstance(amount, Large) else amount.large()


def _member(name: str, overload: str, others: tuple[Type, ...], result: Type, call: Implementation) -> Function:
    return single(name, overload, (TYPE, *others), result, call, member=True, cost=1)


def _overload(overload: str, parameters: tuple[Type, ...], result: Type, call: Implementation) -> Overload:
    return Overload(id=overload, parameters=parameters, result=result, call=call, member=True)


def _reading(name: str, overload: str, result: Type, call: Implementation) -> Function:
    return single(name, overload, (types.STRING,), result, call, cost=of_first)


def _arithmetic(name: str, *, negative: bool) -> Function:
    def on_quantity(left: Quantity, right: Quantity) -> Quantity:
        return _sum(left, right.amount, right.form, negative=negative)

    def on_integer(left: Quantity, right: int) -> Quantity:
        return _sum(left, Small(right, 0), Form.EXPONENT, negative=negative)

    return function(
        name,
        _overload(f"quantity_{name}", (TYPE, TYPE), TYPE, on_quantity),
        _overload(f"quantity_{name}_int", (TYPE, types.INT), TYPE, on_integer),
        cost=1,
    )


LIBRARY = Library(
    name="kubernetes.quantity",
    functions=(
        _reading("quantity", "string_to_quantity", TYPE, read),
        _reading("isQuantity", "is_quantity_string", types.BOOL, succeeds(read)),
        single("sign", "quantity_sign", (TYPE,), types.INT, _sign, cost=1),
        _member(
            "isGreaterThan",
            "quantity_is_greater_than",
            (TYPE,),
            types.BOOL,
            lambda left, right: _compare(left, right) > 0,
        ),
        _member(
            "isLessThan", "quantity_is_less_than", (TYPE,), types.BOOL, lambda left, right: _compare(left, right) < 0
        ),
        _member("compareTo", "quantity_compare_to", (TYPE,), types.INT, _compare),
        _member(
            "asApproximateFloat", "quantity_get_float", (), types.DOUBLE, lambda quantity: approximate(quantity.amount)
        ),
        _member("asInteger", "quantity_get_int", (), types.INT, _as_integer),
        _member("isInteger", "quantity_is_integer", (), types.BOOL, lambda quantity: _integer(quantity) is not None),
        _arithmetic("add", negative=False),
        _arithmetic("sub", negative=True),
    ),
)
