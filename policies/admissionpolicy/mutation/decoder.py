"""Decodes a patched object as the API server decodes it into the Go type of its kind.

Nulls disappear, numbers have a size, quantities become canonical, and after a JSON Patch unknown fields are refused.
Only what the patch changed is decoded. What the API server sent is accepted as it is, because its version may be newer
than the table of fields.

Source of the messages: sigs.k8s.io/json, and FromUnstructured in k8s.io/apimachinery's pkg/runtime/converter.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.admissionpolicy.schema import QUANTITY, Atom, ListType, MapType, Scalar, SchemaNode
from policies.cel.errors import CelError
from policies.cel.library.kubernetes import quantity
from policies.cel.values import ABSENT
from policies.golang.strconv import general
from policies.kubernetes.encoding import json_name

_BITS = {"int32": 32, "int64": 64, "integer": 64}
_NUMBERS = {"int32": "int32", "int64": "int64", "integer": "int64"}
_INT32 = Atom(Scalar("numeric", "int32"))
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BAD_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class DecodingError(Exception):
    """A value does not have the type of its place."""


class Reader:
    """Decodes one object.

    as_json: whether the object is the JSON result of a JSON Patch, where numbers must fit their type; in a merged
    object Go converts them. `unknown`: the paths of unknown fields.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self.unknown: list[str] = []

    def read(self, before: Any, after: Any, node: SchemaNode) -> Any:
        """The decoded value. Raises DecodingError."""
        return self._read(before, after, node, _Context())

    def _read(self, before: Any, after: Any, node: SchemaNode, context: _Context) -> Any:
        if after is before:
            return after
        atom = node.atom
        if atom.scalar is not None and atom.scalar.form == "int-or-string":
            return self._int_or_string(after, context)
        if (atom.map, atom.list, atom.scalar).count(None) < 2:  # any JSON is allowed
            return after
        if atom.map is not None:
            if not isinstance(after, dict):
                raise context.mismatch(after, atom)
            return self._map(before if isinstance(before, dict) else {}, after, atom, atom.map, context)
        if atom.list is not None:
            if not isinstance(after, list):
                raise context.mismatch(after, atom)
            return self._list(before if isinstance(before, list) else [], after, atom.list, context)
        return after if atom.scalar is None else self._scalar(after, atom, atom.scalar, context)

    def _map(
        self, before: Mapping[str, Any], after: dict[str, Any], atom: Atom, kind: MapType, context: _Context
    ) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for key in sorted(after):  # the order of keys in the JSON that the API server decodes
            if after[key] is before.get(key, ABSENT) and after[key] is not None:
                read[key] = after[key]
                continue
            child = kind.fields.get(key, kind.element)
            if child is None:
                if key not in before:
                    self.unknown.append(context.path_of(key))
                read[key] = after[key]
            elif after[key] is None:
                if key not in kind.fields:
                    read[key] = _zero(child.atom)
            else:
                inner = context.field(key, atom) if key in kind.fields else context.key(key)
                read[key] = self._read(before.get(key, ABSENT), after[key], child, inner)
        result = {key: read[key] for key in after if key in read}
        return after if len(result) == len(after) and all(result[key] is after[key] for key in after) else result

    def _list(self, before: list[Any], after: list[Any], kind: ListType, context: _Context) -> list[Any]:
        kept = set(map(id, before))
        known = None
        read = []
        for index, item in enumerate(after):
            if id(item) in kept:
                read.append(item)
                continue
            if known is None:
                known = {name: item for item in before if (name := _name(item, kind)) is not None}
            twin = known.get(_name(item, kind), before[index] if len(before) == len(after) else ABSENT)
            read.append(self._read(twin, item, kind.element, context.item(index)))
        return after if all(new is old for new, old in zip(read, after, strict=True)) else read

    def _scalar(self, value: Any, atom: Atom, kind: Scalar, context: _Context) -> Any:
        if kind.form == "quantity" or atom.name == QUANTITY:
            return _quantity(value)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if kind.type == "numeric" and number:
            return self._number(value, atom, kind, context)
        if kind.form == "byte" and isinstance(value, str) and (place := _no_base64(value)) is not None:
            start = "" if self._as_json else "error decoding from json: "
            raise DecodingError(f"{start}illegal base64 data at input byte {place}")
        expected = {"string": str, "boolean": bool}.get(kind.type)
        if kind.type == "numeric" or (expected is not None and not isinstance(value, expected)):
            raise context.mismatch(value, atom)
        return value

    def _int_or_string(self, value: Any, context: _Context) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31:
            return value
        raise (context if self._as_json else _Context()).mismatch(value, _INT32)

    def _number(self, value: float, atom: Atom, kind: Scalar, context: _Context) -> float:
        bits = _BITS.get(kind.form)
        if bits is None:
            return value
        half: int = 2 ** (bits - 1)
        if isinstance(value, float):
            if self._as_json:
                raise context.mismatch(value, atom)
            if not value.is_integer():
                raise DecodingError(f"cannot convert float64 to {_NUMBERS[kind.form]}")
            value = int(value)
        if -half <= value < half:
            return value
        if self._as_json:
            raise context.mismatch(value, atom)
        return (value + half) % (2 * half) - half  # as Go converts a number to a smaller type


class _Context:
    """The reader's position for messages: the type that has the field, and the path down to it."""

    def __init__(self, type_name: str = "", fields: tuple[str, ...] = (), path: str = "") -> None:
        self._type_name = type_name
        self._fields = fields
        self._path = path

    def field(self, name: str, owner: Atom) -> _Context:
        """The context of a field."""
        return _Context(owner.name.rpartition(".")[2], (*self._fields, name), self.path_of(name))

    def key(self, name: str) -> _Context:
        """The context of a key of a map."""
        return _Context(self._type_name, self._fields, self.path_of(name))

    def item(self, index: int) -> _Context:
        """The context of an item of a list."""
        return _Context(self._type_name, self._fields, f"{self._path}[{index}]")

    def path_of(self, name: str) -> str:
        """The path of a field here."""
        return f"{self._path}.{name}" if self._path else name

    def mismatch(self, value: Any, atom: Atom) -> DecodingError:
        """The error for a value of the wrong type."""
        place = f"struct field {self._type_name}.{'.'.join(self._fields)}" if self._fields else "value"
        return DecodingError(f"json: cannot unmarshal {_described(value, atom)} into Go {place} of type {_type(atom)}")


def _described(value: Any, atom: Atom) -> str:
    name = json_name(value)
    if name != "number" or atom.scalar is None or atom.scalar.type != "numeric":
        return name
    return f"number {general(value) if isinstance(value, float) else value}"


def _type(atom: Atom) -> str:
    """The Go type of a place, as far as the OpenAPI schema tells."""
    if atom.map is not None:
        if atom.name:
            return ".".join(atom.name.split(".")[-2:])
        return "map[string]interface {}" if atom.map.element is None else f"map[string]{_type(atom.map.element.atom)}"
    if atom.list is not None:
        return f"[]{_type(atom.list.element.atom)}"
    if atom.scalar is None or atom.scalar.type == "untyped":
        return "interface {}"
    if atom.scalar.form == "byte":
        return "[]uint8"
    return {"string": "string", "boolean": "bool"}.get(atom.scalar.type) or _NUMBERS.get(atom.scalar.form, "float64")


def _name(item: Any, kind: ListType) -> Any:
    if kind.relation != "map" or not isinstance(item, dict):
        return None
    return tuple(str(item.get(key)) for key in kind.keys)


def _zero(atom: Atom) -> Any:
    if atom.scalar is None:
        return None
    if atom.scalar.form == "quantity":
        return "0"
    return {"string": "", "boolean": False, "numeric": 0}.get(atom.scalar.type)


def _quantity(value: Any) -> str:
    """A quantity in its canonical form."""
    if isinstance(value, list | dict | bool):
        raise DecodingError(_BAD_QUANTITY)
    text = general(value) if isinstance(value, float) else str(value)
    try:
        return str(quantity.parse(text))
    except CelError as error:
        raise DecodingError(str(error)) from error


def _no_base64(text: str) -> int | None:
    """The offset where Go's base64 decoder fails: the first invalid character or an incomplete group; else None."""
    bare = text.rstrip("=") if len(text) - len(text.rstrip("=")) <= 2 else text
    for index, character in enumerate(bare):
        if character not in _BASE64 and character not in "\r\n":
            return index
    size = len(text.replace("\r", "").replace("\n", ""))
    return None if size % 4 == 0 else len(bare) - len(bare) % 4
