"""Reads objects into the types of built-in kinds and writes them again, as the API server does.

Quantities and times have one spelling, and empty fields are gone. The errors are those of Go's JSON decoder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from policies.admissionpolicy.builtin.table import MICRO_TIME, QUANTITY, TIME
from policies.admissionpolicy.schema import Atom, ListType, MapType, Scalar, SchemaNode
from policies.cel.library import quantity
from policies.cel.library.quantity import Large, round_up
from policies.cel.values import ABSENT, CelError
from policies.golang.strconv import general
from policies.golang.time import SECOND, format_timestamp, parse_timestamp
from policies.kubernetes.spelling import json_name

MILLI = 3
"""The decimal places to which amounts of resources are rounded up (SetDefaults_ResourceList)."""


def canonical(value: Any, places: int | None = None) -> Any:
    """A quantity as Kubernetes writes it, rounded up to this many decimal places; any other value unchanged."""
    read = quantity_of(value)
    if read is None:
        return value
    if places is not None and (rounded := round_up(read.amount.decimal, places)) != read.amount.decimal:
        read = quantity.Quantity(Large(rounded, places), read.form)
    return str(read)


def quantity_of(value: Any) -> quantity.Quantity | None:
    """The quantity in a string or number, or None."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        return quantity.read(str(value))
    except CelError:
        return None


_IF_EMPTY = ("empty", "zero")
_BITS = {"int32": 32, "int64": 64, "integer": 64}
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_FOREIGN = re.compile("[^A-Za-z0-9+/=\r\n]")
_BAD_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class DecodingError(Exception):
    """A value does not have the type of its place."""


class Reader:
    """Reads one object.

    as_json: whether the object is the JSON result of a JSON Patch, where numbers must fit their type; in a merged
    object Go converts them. lenient: whether a value of another type than its place is left as it is. `unknown`: the
    paths of unknown fields, which are left as they are.
    """

    def __init__(self, *, as_json: bool, lenient: bool = False) -> None:
        self._as_json = as_json
        self._lenient = lenient
        self.unknown: list[str] = []

    def read(self, before: Any, after: Any, node: SchemaNode, context: _Context | None = None) -> Any:
        """The value as its type encodes it. before: an earlier value, or ABSENT. Raises DecodingError."""
        if after is before:
            return after
        try:
            return self._value(before, after, node.atom, context)
        except DecodingError:
            if not self._lenient:
                raise
            return after

    def _value(self, before: Any, after: Any, atom: Atom, context: _Context | None) -> Any:
        if atom.scalar is not None and atom.scalar.form == "int-or-string":
            is_int = isinstance(after, int) and not isinstance(after, bool) and -(2**31) <= after < 2**31
            if isinstance(after, str) or is_int:
                return after
            raise _mismatch(context, after, atom)
        if (atom.map, atom.list, atom.scalar).count(None) < 2:  # any JSON is allowed
            return after
        if atom.map is not None:
            if not isinstance(after, dict):
                raise _mismatch(context, after, atom)
            return self._map(before if isinstance(before, dict) else {}, after, atom.map, context)
        if atom.list is not None:
            if not isinstance(after, list):
                raise _mismatch(context, after, atom)
            return self._list(before if isinstance(before, list) else [], after, atom.list, context)
        return after if atom.scalar is None else self._scalar(after, atom, atom.scalar, context)

    def _map(
        self, before: Mapping[str, Any], after: dict[str, Any], kind: MapType, context: _Context | None
    ) -> dict[str, Any]:
        read: dict[str, Any] = {}
        # The order of keys in the JSON that the API server decodes is that of its errors.
        for key in after if self._lenient else sorted(after):
            value = after[key]
            child = kind.fields.get(key, kind.element)
            if child is None and key not in before:
                self.unknown.append(_Context(context, key).path)
            if child is None or (value is before.get(key, ABSENT) and value is not None):
                read[key] = value
            elif value is None:
                if key not in kind.fields:
                    read[key] = self._zero(child.atom)
            elif value.__class__ is str and child.is_text:
                read[key] = value
            else:
                read[key] = self.read(before.get(key, ABSENT), value, child, _Context(context, key))
        result = {key: read[key] for key in after if key in read}
        if kind.omissions is not None:
            result = self._encoded(result, kind, kind.omissions)
        same = len(result) == len(after) and all(result.get(key, ABSENT) is after[key] for key in after)
        return after if same else result

    def _encoded(self, fields: dict[str, Any], kind: MapType, omissions: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a struct without those that its encoding omits, and with those that it always writes."""
        result = {name: value for name, value in fields.items() if value or omissions.get(name) not in _IF_EMPTY}
        for name in kind.written:
            if name not in result:
                result[name] = None if omissions[name] else self._zero(kind.fields[name].atom)
        return result

    def _zero(self, atom: Atom) -> Any:
        """The encoding of the zero value of a Go type."""
        if atom.map is not None and atom.map.omissions is not None:
            return self._encoded({}, atom.map, atom.map.omissions)
        if atom.scalar is None or atom.name in {TIME, MICRO_TIME} or atom.list is not None:
            return None
        if atom.name == QUANTITY:
            return "0"
        if atom.scalar.form == "int-or-string":
            return 0
        return {"string": "", "boolean": False, "numeric": 0}.get(atom.scalar.type)

    def _list(self, before: list[Any], after: list[Any], kind: ListType, context: _Context | None) -> list[Any]:
        if not before and None not in after:
            return [self.read(ABSENT, item, kind.element, _Context(context, at)) for at, item in enumerate(after)]
        kept = set(map(id, before))
        known = None
        read = []
        for index, item in enumerate(after):
            if id(item) in kept and item is not None:
                read.append(item)
                continue
            if item is None:
                read.append(self._zero(kind.element.atom))
                continue
            if known is None:
                known = {name: item for item in before if (name := _name(item, kind)) is not None}
            twin = known.get(_name(item, kind), before[index] if len(before) == len(after) else ABSENT)
            read.append(self.read(twin, item, kind.element, _Context(context, index)))
        return after if all(new is old for new, old in zip(read, after, strict=True)) else read

    def _scalar(self, value: Any, atom: Atom, kind: Scalar, context: _Context | None) -> Any:
        if kind.form == "quantity" or atom.name == QUANTITY:
            return _quantity(value)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if kind.type == "numeric" and number:
            return self._number(value, atom, kind, context)
        if kind.form == "byte" and isinstance(value, str):
            if (place := no_base64(value)) is not None:
                start = "" if self._as_json else "error decoding from json: "
                raise DecodingError(f"{start}illegal base64 data at input byte {place}")
            return value.replace("\r", "").replace("\n", "")
        if atom.name in {TIME, MICRO_TIME} and isinstance(value, str):
            return _time(value, "." if atom.name == MICRO_TIME else "")
        expected = {"string": str, "boolean": bool}.get(kind.type)
        if kind.type == "numeric" or (expected is not None and not isinstance(value, expected)):
            raise _mismatch(context, value, atom)
        return value

    def _number(self, value: float, atom: Atom, kind: Scalar, context: _Context | None) -> float:
        bits = _BITS.get(kind.form)
        if bits is None:
            return value
        half: int = 2 ** (bits - 1)
        if isinstance(value, float):
            if self._as_json and not (self._lenient and value.is_integer()):
                raise _mismatch(context, value, atom)
            if not value.is_integer():
                raise DecodingError(f"cannot convert {value} to {kind.form}")
            value = int(value)
        if -half <= value < half:
            return value
        if self._as_json:
            raise _mismatch(context, value, atom)
        return (value + half) % (2 * half) - half  # as Go converts a number to a smaller type


class _Context(NamedTuple):
    """The reader's position for messages: a step below another one."""

    above: _Context | None
    step: str | int

    @property
    def path(self) -> str:
        above = "" if self.above is None else self.above.path
        if isinstance(self.step, int):
            return f"{above}[{self.step}]"
        return f"{above}.{self.step}" if above else self.step


def _mismatch(context: _Context | None, value: Any, atom: Atom) -> DecodingError:
    scalar = "any value" if atom.scalar is None else atom.scalar.form or atom.scalar.type
    expected, given = "map" if atom.map else "list" if atom.list else scalar, json_name(value)
    given = f"number {value}" if given == "number" else given
    return DecodingError(f"{'' if context is None else f'{context.path}: '}expected {expected}, got {given}")


def _name(item: Any, kind: ListType) -> Any:
    if kind.relation != "map" or not isinstance(item, dict):
        return None
    return tuple(str(item.get(key)) for key in kind.keys)


def _quantity(value: Any) -> str:
    if isinstance(value, list | dict | bool):
        raise DecodingError(_BAD_QUANTITY)
    text = general(value) if isinstance(value, float) else str(value)
    try:
        return str(quantity.parse(text))
    except CelError as error:
        raise DecodingError(str(error)) from error


def _time(text: str, point: str) -> str:
    """A time in UTC, in whole seconds or, with a point, in microseconds; unchanged if it is none."""
    try:
        moment = parse_timestamp(text)
    except OverflowError:
        return text
    if moment is None:
        return text
    seconds, rest = divmod(moment[0], SECOND)
    fraction = f"{point}{rest // 1000:06d}" if point else ""
    return f"{format_timestamp(seconds * SECOND).removesuffix('Z')}{fraction}Z"


def no_base64(text: str) -> int | None:
    """The offset of the first character that is no base64, else of the end; None for base64, also with line breaks."""
    if _BASE64.fullmatch(text.replace("\n", "").replace("\r", "")):
        return None
    foreign = _FOREIGN.search(text)
    return len(text) if foreign is None else foreign.start()
