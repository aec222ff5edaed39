"""Converts CEL values to JSON as the API server does, and formats them as its messages do.

An `Object{...}` becomes a map by calling `Value()` on its contents (apiserver's pkg/cel/mutation/dynamic). The value of
a JSON Patch is converted by cel-go's ConvertToNative to structpb.Value. The two differ: the first keeps values that
JSON does not have, which the schema refuses afterwards; the second converts as much as it can to JSON.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from policies.cached import cached_property
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.types import Type
from policies.cel.values import ABSENT, Duration, Optional, Timestamp, Typed, Uint, Value
from policies.golang.strconv import general, quote
from policies.golang.time import format_duration, format_timestamp, go_duration

_CONTAINERS = (dict, list)
_JSON_SAFE = 2**53 - 1  # integers up to this are exact as a double; cel-go writes larger ones as strings
_EXACT_BELOW = 1e21  # below this, Go's JSON writes a double without an exponent


class ConversionError(Exception):
    """A CEL value that cannot be converted; the text is the API server's."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value in an Object that JSON does not have, formatted with Go's %T, %v and %#v."""

    go_type: str
    shown: str
    syntax: str


# Not from strftime, which depends on the locale.
_MONTHS: tuple[str, ...] = ("January", "February", "March", "April", "May", "June")
_MONTHS += ("July", "August", "September", "October", "November", "December")
_NULL = Foreign("structpb.NullValue", "NULL_VALUE", "0")


class Converter:
    """Converts CEL objects to JSON.

    inputs: the variables of the evaluation. Maps and lists from them are JSON already. Those that CEL made are
    converted only one level deep, so that the API server refuses a map literal in a list or a list in a map. None: the
    variables are unknown, and all maps and lists are treated as JSON.
    """

    def __init__(self, inputs: Iterable[Any] | None) -> None:
        self._inputs = inputs

    def fields(self, value: ObjectValue) -> dict[str, Any]:
        """The fields of an object. Raises ConversionError for a map with a key that is not a string."""
        fields = {}
        for name, item in value.fields.items():
            try:
                fields[name] = self._field(item)
            except ConversionError as error:
                raise ConversionError(f"fail to convert field {quote(name)}: {error}") from error
        return fields

    def json(self, value: Value) -> Any:  # noqa: PLR0911, PLR0912 - a case for each type
        """The JSON for a value in a JSON Patch. Raises ConversionError with the API server's message."""
        value = _unwrapped(value)
        match value:
            case None | bool() | str():
                return value
            case int():
                return int(value) if abs(value) <= _JSON_SAFE else str(int(value))
            case float():
                return _number(value)
            case bytes():
                return base64.b64encode(value).decode()
            case Duration():
                return format_duration(value.nanoseconds)
            case Timestamp():
                return format_timestamp(value.nanoseconds, value.offset)
            case ObjectValue():
                return _structure(self.fields(value))
            case list():
                return [self.json(item) for item in value]
            case dict():
                return {_text(key): self.json(item) for key, item in value.items()}
            case Type():
                raise ConversionError("type conversion not supported for 'type'")
            case JSONPatch():
                raise ConversionError("cannot convert to native type: *structpb.Value")
            case _ if value is ABSENT:
                raise ConversionError("optional.none() dereference")
            case _:
                name = value.cel_type.name.rpartition(".")[2] if isinstance(value, Typed) else value.__class__.__name__
                raise ConversionError(f"type conversion error from '{name}' to '*structpb.Value'")

    def _field(self, value: Value) -> Any:
        value = _unwrapped(value)
        if value is ABSENT:
            return None
        if isinstance(value, list) and id(value) not in self._json:
            return [self._item(item) for item in value]
        if isinstance(value, dict) and id(value) not in self._json:
            for key in value:
                if not isinstance(key, str):
                    raise ConversionError(f"map key {_key(key)} is of type {_CEL_TYPES[key.__class__]}, not string")
            return {key: self._item(item) for key, item in value.items()}
        return self._inner(value)

    def _item(self, value: Value) -> Any:
        """An item of a list or an entry of a map. Null stays null if the inputs are unknown."""
        return None if value is None and self._inputs is None else self._inner(value)

    def _inner(self, value: Value) -> Any:
        value = _unwrapped(value)
        if value is ABSENT:
            return None
        if isinstance(value, ObjectValue):
            try:
                return self.fields(value)
            except ConversionError as error:
                return Foreign("*types.Err", str(error), "&types.Err{...}")
        if isinstance(value, list | dict):
            if self._inputs is None:
                return self._field(value)
            return value if id(value) in self._json else _made(value)
        return value if value.__class__ in {bool, int, float, str} else _foreign(value)

    @cached_property
    def _json(self) -> set[int]:
        """The ids of all maps and lists in the inputs."""
        known = set()
        waiting = [value for value in self._inputs or () if value.__class__ in _CONTAINERS]
        while waiting:
            value = waiting.pop()
            known.add(id(value))
            items: Iterable[Any] = value.values() if value.__class__ is dict else value
            waiting += [item for item in items if item.__class__ in _CONTAINERS]
        return known


def go_type(value: Any) -> str:
    """The Go type of a value (%T)."""
    return value.go_type if isinstance(value, Foreign) else _GO_TYPES[value.__class__]


def shown(value: Any) -> str:
    """A value as Go formats it (%v)."""
    match value:
        case list():
            return f"[{' '.join(map(shown, value))}]"
        case dict():
            return f"map[{' '.join(f'{key}:{shown(item)}' for key, item in sorted(value.items()))}]"
        case _:
            return _scalar(value)


def _scalar(value: Any) -> str:
    match value:
        case Foreign():
            return value.shown
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case float():
            return general(value)
        case _:
            return str(value)


def syntax(value: Any) -> str:
    """A value as Go source (%#v)."""
    match value:
        case Foreign():
            return value.syntax
        case str():
            return quote(value)
        case list():
            return f"[]interface {{}}{{{', '.join(map(syntax, value))}}}"
        case dict():
            items = ", ".join(f"{quote(key)}:{syntax(item)}" for key, item in sorted(value.items()))
            return f"map[string]interface {{}}{{{items}}}"
        case _:
            return shown(value)


def _unwrapped(value: Value) -> Value:
    while isinstance(value, Optional):
        value = value.value
    return value


def _made(value: Any) -> Foreign:
    """A map or list that CEL made, in a place where the API server does not convert its contents."""
    if isinstance(value, list):
        items = list(map(_plain, value))
        return Foreign("[]ref.Val", shown(items), f"[]ref.Val{{{', '.join(map(syntax, items))}}}")
    entries = [(_plain(key), _plain(item)) for key, item in value.items()]
    pairs = sorted((shown(key), shown(item)) for key, item in entries)
    written = sorted((syntax(key), syntax(item)) for key, item in entries)
    return Foreign(
        "map[ref.Val]ref.Val",
        f"map[{' '.join(f'{key}:{item}' for key, item in pairs)}]",
        f"map[ref.Val]ref.Val{{{', '.join(f'{key}:{item}' for key, item in written)}}}",
    )


def _plain(value: Value) -> Any:
    return value if isinstance(value, str | bool | int | float) else _foreign(value)


def _foreign(value: Value) -> Foreign:
    match value:
        case None:
            return _NULL
        case Uint():
            return Foreign("uint64", str(int(value)), hex(value))
        case bytes():
            numbers = ", ".join(f"0x{byte:x}" for byte in value)
            return Foreign("[]uint8", f"[{' '.join(map(str, value))}]", f"[]uint8{{{numbers}}}")
        case Duration():
            return Foreign("time.Duration", go_duration(value.nanoseconds), str(value.nanoseconds))
        case Timestamp():
            text = format_timestamp(value.nanoseconds)
            return Foreign("time.Time", f"{text[:-1].replace('T', ' ')} +0000 UTC", _date(value.nanoseconds))
        case _:
            text = str(value)
            return Foreign(f"*{value.__class__.__name__}", text, text)


def _structure(value: Any) -> Any:
    """The result of structpb.NewValue for the fields of an Object."""
    match value:
        case Foreign(go_type="uint64"):
            return int(value.shown)
        case Foreign(go_type="[]uint8"):
            return base64.b64encode(bytes(map(int, value.shown[1:-1].split()))).decode()
        case Foreign():
            raise ConversionError(f"proto: invalid type: {value.go_type}")
        case list():
            return [_structure(item) for item in value]
        case dict():
            return {key: _structure(item) for key, item in value.items()}
        case _:
            return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | int:
    if not math.isfinite(value):
        raise ConversionError("json: error calling MarshalJSON for type *structpb.Value: proto: invalid number")
    return int(value) if value.is_integer() and abs(value) < _EXACT_BELOW else value


def _text(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        raise ConversionError("type conversion error from bool to 'string'")
    kind = "uint" if isinstance(key, Uint) else "int"
    raise ConversionError(f"unsupported type conversion from '{kind}' to string")


_GO_TYPES: Mapping[type, str] = {
    type(None): "<nil>",
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
_CEL_TYPES: Mapping[type, str] = {int: "types.Int", Uint: "types.Uint", bool: "types.Bool"}


def _key(key: Any) -> str:
    """A key as Go quotes it: %q of a number is the character with that number."""
    if isinstance(key, bool):
        return f"%!q(types.Bool={str(key).lower()})"
    if not 0 <= key < sys.maxunicode:
        return "'\ufffd'"
    character = chr(key)
    return {"'": r"'\''", '"': "'\"'"}.get(character) or f"'{quote(character)[1:-1]}'"


def _date(nanoseconds: int) -> str:
    """A timestamp as Go source."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=nanoseconds // 10**9)
    numbers = f"{moment.day}, {moment.hour}, {moment.minute}, {moment.second}, {nanoseconds % 10**9}"
    return f"time.Date({moment.year}, time.{_MONTHS[moment.month - 1]}, {numbers}, time.UTC)"
