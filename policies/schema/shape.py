"""The forms of values that the API server decodes. They are made once, and objects are walked through with them.

A form looks at a value, notes what is wrong with it, and goes on below it. Most values are right: they cost little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from policies.admissionpolicy.builtin.reader import no_base64, quantity_of
from policies.golang.time import parse_timestamp
from policies.schema.flaw import Flaws, Format, Place

Rule = Callable[[Mapping[str, Any], Place, Flaws], None]
"""Notes what is wrong with the fields of a map together."""
_QUANTITIES = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_PERCENT = re.compile(r"[0-9]+%\Z")
_BITS = {"int32": 31, "int64": 63}


class Shape:
    """Any value."""

    plain: type | None = None
    """The class whose values have the form without a look at them."""

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note what is wrong with a value."""

    def absent(self, place: Place, flaws: Flaws) -> None:
        """Note what is wrong with the value that a missing field has."""


class Text(Shape):
    """A string, one of some or of a format."""

    def __init__(self, enum: Iterable[str] = (), form: Format | None = None) -> None:
        self.enum = tuple(enum)
        self.format = form
        self.plain = None if self.enum or form else str

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note another type, and a text that is none of those that may be."""
        if not isinstance(value, str):
            flaws.mismatch(place, "string", value, _in_quotes(value))
        elif value:
            self._content(value, place, flaws)

    def absent(self, place: Place, flaws: Flaws) -> None:
        """Note what is wrong with an empty text."""
        self._content("", place, flaws)

    def _content(self, value: str, place: Place, flaws: Flaws) -> None:
        if self.enum and value not in self.enum:
            flaws.unsupported(place, value, self.enum)
        elif self.format is not None:
            for problem in self.format(value):
                flaws.invalid(place, value, problem)


class Flag(Shape):
    """true or false."""

    plain = bool

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note another type."""
        if not isinstance(value, bool):
            word = str(value).lower()
            flaws.mismatch(place, "boolean", value, f"write {word} without quotes" if word in ("true", "false") else "")


class Number(Shape):
    """A number, of a size and in a range. zero: whether 0 counts as no value, which is always right."""

    def __init__(self, form: str, bounds: Mapping[str, Any]) -> None:
        self.form = form if form in _BITS else "int64" if form == "integer" else ""
        self._bits = _BITS.get(self.form)
        self._least, self._most, self._above = (bounds.get(name) for name in ("minimum", "maximum", "above"))
        self._zero = bounds.get("zero", False)

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note another type, a part of a whole, and what is too small or too large."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            remedy = f"write {value} without quotes" if isinstance(value, str) and value.isdecimal() else ""
            flaws.mismatch(place, "numeric (int or float)", value, remedy)
        elif self._bits is not None and not (-(2**self._bits) <= value < 2**self._bits and value == int(value)):
            problem = f"cannot unmarshal number {value} into a field of type {self.form}"
            flaws.undecodable(place, problem, "write a whole number" if value % 1 else "")
        else:
            self.bound(value, place, flaws)

    def absent(self, place: Place, flaws: Flaws) -> None:
        """Note that 0 is not in the range."""
        self.bound(0, place, flaws)

    def bound(self, value: float, place: Place, flaws: Flaws) -> None:
        """Note that a number is out of the range."""
        least, most = self._least, self._most
        if self._zero and value == 0:
            return
        if most is not None and least is not None:
            if not least <= value <= most:
                flaws.invalid(place, value, f"must be between {least} and {most}, inclusive")
        elif least is not None and value < least:
            flaws.invalid(place, value, f"must be greater than or equal to {least}")
        elif self._above is not None and value <= self._above:
            flaws.invalid(place, value, f"must be greater than {self._above}")


class IntOrString(Shape):
    """A number, such as a port or a count, or a string, such as the name of a port or a percentage."""

    def __init__(self, range_: Number, form: Format | None = None) -> None:
        self._range = range_
        self._format = form

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note another type, and numbers and names that may not be."""
        if isinstance(value, str):
            for problem in self._format(value) if self._format else ():
                flaws.invalid(place, value, problem)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            flaws.mismatch(place, "number or string", value)
        else:
            self._range.judge(value, place, flaws)

    def absent(self, place: Place, flaws: Flaws) -> None:
        """Note that 0 is not in the range."""
        self._range.absent(place, flaws)


class Quantity(Shape):
    """An amount, such as 500m or 2Gi. least: how much it is at least."""

    def __init__(self, least: int | None = None) -> None:
        self._least = least

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note what is no amount, and what is too little."""
        if isinstance(value, str) and value.isdecimal():
            return
        amount = quantity_of(value)
        if amount is None:
            flaws.undecodable(place, _QUANTITIES, _amount(value))
        elif self._least is not None and str(value).startswith("-"):
            flaws.invalid(place, str(amount), f"must be greater than or equal to {self._least}")


class Time(Shape):
    """A time as in RFC 3339."""

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note what is no time."""
        if not isinstance(value, str):
            flaws.mismatch(place, "string", value, _in_quotes(value))
        elif value and not is_time(value):
            flaws.undecodable(
                place,
                f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse',
                "write it like 2006-01-02T15:04:05Z",
            )


class Bytes(Shape):
    """Text in base64."""

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note what is no base64."""
        if not isinstance(value, str):
            flaws.mismatch(place, "string", value, _in_quotes(value))
        elif (at := no_base64(value)) is not None:
            flaws.undecodable(place, f"illegal base64 data at input byte {at}", "encode it, or write it in stringData")


class ListOf(Shape):
    """A list whose items have one form."""

    def __init__(self, item: Shape) -> None:
        self.item = item

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note another type, and go through the items."""
        if not isinstance(value, list):
            flaws.mismatch(place, "list", value, "begin each item with a dash" if isinstance(value, dict) else "")
            return
        item = self.item
        for index, entry in enumerate(value):
            if entry is not None and entry.__class__ is not item.plain:
                item.judge(entry, (place, index), flaws)


class MapOf(Shape):
    """A map with any keys, whose values have one form."""

    def __init__(self, value: Shape, keys: Format | None = None) -> None:
        self.value = value
        self._keys = keys

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note another type, wrong keys, and go through the values."""
        if not isinstance(value, dict):
            flaws.mismatch(place, "map", value)
            return
        below = self.value
        for key, entry in value.items():
            if self._keys is not None:
                for problem in self._keys(key):
                    flaws.invalid((place, key), key, problem)
            if entry is not None and entry.__class__ is not below.plain:
                below.judge(entry, (place, key), flaws)


class Struct(Shape):
    """A map with the fields of a type.

    required: fields that must have a value, with what the API server says then. defaulted: those that are judged
    without one, too: as 0, as an empty text or, where Go has no pointer, as a map without fields.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: Mapping[str, Shape] = {}
        self.required: tuple[tuple[str, str], ...] = ()
        self.defaulted: tuple[str, ...] = ()
        self.rule: Rule | None = None

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Note another type, unknown and missing fields, and what is wrong with the fields together."""
        if not isinstance(value, dict):
            flaws.mismatch(place, "map", value)
            return
        fields = self.fields
        for key, entry in value.items():
            shape = fields.get(key)
            if shape is None:
                flaws.unknown((place, key), fields)
            elif entry is not None and entry.__class__ is not shape.plain:
                shape.judge(entry, (place, key), flaws)
        if not flaws.decoding:
            self._together(value, place, flaws)

    def absent(self, place: Place, flaws: Flaws) -> None:
        """Note what a map without fields lacks."""
        self._together({}, place, flaws)

    def _together(self, value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
        for name, detail in self.required:
            if value.get(name) in _NOTHING:
                flaws.required((place, name), detail)
        for name in self.defaulted:
            if value.get(name) in _NOTHING:
                self.fields[name].absent((place, name), flaws)
        if self.rule is not None:
            self.rule(value, place, flaws)


class StructOr(Shape):
    """A map with the fields of a type, or something else, such as a list of them or a boolean."""

    def __init__(self, struct: Struct) -> None:
        self._struct = struct

    def judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        """Judge a map."""
        if isinstance(value, dict):
            self._struct.judge(value, place, flaws)


_NOTHING: tuple[Any, ...] = (None, "", [])


def _in_quotes(value: object) -> str:
    if isinstance(value, bool):
        return "write it in quotes: YAML takes the word for a boolean"
    return f'write it in quotes: "{value}"' if isinstance(value, int | float) else ""


def _amount(value: object) -> str:
    """How a quantity is written whose unit has a B too much."""
    text = str(value)
    if isinstance(value, str) and text[-1:] in ("B", "b") and quantity_of(text[:-1]) is not None:
        return f"did you mean {text[:-1]}?"
    return "write it like 500m, 2, 1.5Gi or 10G"


def is_time(text: str) -> bool:
    """Whether a text is a time as in RFC 3339, of whatever year."""
    try:
        return parse_timestamp(text) is not None
    except OverflowError:
        return True
