"""Converts CEL values to JSON as the API server does.

An `Object{...}` becomes a map by calling `Value()` on its contents (apiserver's pkg/cel/mutation/dynamic). The value of
a JSON Patch is converted by cel-go's ConvertToNative to structpb.Value. The two differ: the first keeps values that
JSON does not have, which the schema refuses afterwards; the second converts as much as it can to JSON.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from policies.cached import cached_property
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.types import Type
from policies.cel.values import ABSENT, Duration, Optional, Timestamp, Uint, Value, type_of
from policies.golang.strconv import quote
from policies.golang.time import format_duration, format_timestamp

_CONTAINERS = (dict, list)
_JSON_SAFE = 2**53 - 1  # integers up to this are exact as a double; cel-go writes larger ones as strings
_EXACT_BELOW = 1e21  # below this, Go's JSON writes a double without an exponent


class ConversionError(Exception):
    """A CEL value that cannot be converted; the text is the API server's."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value in an Object that JSON does not have, or that the API server does not turn into JSON there."""

    value: Value

    @property
    def name(self) -> str:
        """The name of its type."""
        return "error" if isinstance(self.value, Exception) else type_of(self.value).name


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
                name = type_of(value).name.rpartition(".")[2]
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
                    raise ConversionError(f"map key {shown(key)} is of type {type_of(key).name}, not string")
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
                return Foreign(error)
        if isinstance(value, list | dict):
            if self._inputs is None:
                return self._field(value)
            return value if id(value) in self._json else Foreign(value)
        return value if value.__class__ in {bool, int, float, str} else Foreign(value)

    @cached_property
    def _json(self) -> set[int]:
        known = set()
        waiting = [value for value in self._inputs or () if value.__class__ in _CONTAINERS]
        while waiting:
            value = waiting.pop()
            known.add(id(value))
            items: Iterable[Any] = value.values() if value.__class__ is dict else value
            waiting += [item for item in items if item.__class__ in _CONTAINERS]
        return known


def shown(value: Any) -> str:
    """A value as messages show it: JSON, and the type's name for what JSON does not have."""
    return json.dumps(value, default=lambda foreign: f"<{foreign.name}>", ensure_ascii=False)


def _unwrapped(value: Value) -> Value:
    while isinstance(value, Optional):
        value = value.value
    return value


def _structure(value: Any) -> Any:
    """The result of structpb.NewValue for the fields of an Object."""
    match value:
        case Foreign(value=Uint() as number):
            return int(number)
        case Foreign(value=bytes() as octets):
            return base64.b64encode(octets).decode()
        case Foreign():
            raise ConversionError(f"proto: invalid type: {value.name}")
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
    raise ConversionError(f"unsupported type conversion from '{type_of(key).name}' to string")
