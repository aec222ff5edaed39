"""The structured merge of server-side apply: the fields of an apply configuration are set, the rest stays.

CEL values become JSON first, as in the API server. An `Object{...}` becomes a map by calling `Value()` on its contents
(apiserver's pkg/cel/mutation/dynamic). The value of a JSON Patch is converted by cel-go's ConvertToNative to
structpb.Value. The two differ: the first keeps values that JSON does not have, which the schema refuses afterwards; the
second converts as much as it can to JSON.

Source of rules and messages: sigs.k8s.io/structured-merge-diff v6 (typed/validate.go and merge.go), and validatePatch
in k8s.io/apiserver's pkg/admission/plugin/policy/mutating/patch/smd.go. Arguments are not changed; the result shares
with them what the configuration does not change.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

from policies.admissionpolicy.schema import Atom, ListType, MapType, SchemaNode
from policies.cached import cached_property
from policies.cel.patchtypes import JSONPatch, ObjectValue
from policies.cel.types import Type
from policies.cel.values import ABSENT, Duration, Optional, Timestamp, Uint, Value, type_of
from policies.golang.strconv import general, quote
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
                for key in value:
                    if not isinstance(key, str):
                        raise ConversionError(f"unsupported type conversion from '{type_of(key).name}' to string")
                return {key: self.json(item) for key, item in value.items()}
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


Key = tuple[tuple[str, tuple[str, Any]], ...]
"""The identity of a list's item: the names and values of its key fields; in a set the value, with an empty name."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Something that the schema does not allow, with its path."""

    path: str
    text: str

    def below(self, step: str) -> Mismatch:
        """The same mismatch, with its path from one level up."""
        return Mismatch(step + self.path, self.text)

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


class MergeError(Exception):
    """A configuration that the schema does not allow."""

    def __init__(self, problems: Sequence[Mismatch]) -> None:
        super().__init__(str(problems[0]) if len(problems) == 1 else "\n  ".join(["errors:", *map(str, problems)]))
        self.mismatches = tuple(problems)


def check(value: Any, node: SchemaNode) -> None:
    """Check a configuration. Raises MergeError with everything that the schema does not allow."""
    problems = list(_problems(value, node))
    if problems:
        raise MergeError(problems)


def atomics(value: Any, node: SchemaNode, path: str = "") -> Iterator[str]:
    """The paths of what would be replaced as a whole. As in the API server, maps with any keys are not searched."""
    atom = node.atom
    if isinstance(value, dict) and atom.map is not None:
        if atom.map.atomic:
            yield path
        for key, item in value.items():
            if key in atom.map.fields:
                yield from atomics(item, atom.map.fields[key], f"{path}.{key}")
    if isinstance(value, list) and atom.list is not None:
        if atom.list.relation == "atomic":
            yield path
        for index, item in enumerate(value):
            yield from atomics(item, atom.list.element, f"{path}[{index}]")


def merge(live: Any, applied: Any, node: SchemaNode) -> Any:
    """The live value with the applied one merged into it; ABSENT means that one does not exist.

    The configuration must have passed `check`. Raises MergeError if an item of a live list has no key.
    """
    if applied is ABSENT or applied is live:
        return live
    if live is ABSENT:
        return applied
    atom = node.atom
    before, after = _deduced(atom, live), _deduced(atom, applied)
    if (before.scalar, before.list, before.map) != (after.scalar, after.list, after.map):
        _merged(live, applied, before)  # only for its errors, because the result has the form of the applied value
    return _merged(live, applied, after)


def _merged(live: Any, applied: Any, atom: Atom) -> Any:
    container: type
    if atom.map is not None and not atom.map.atomic:
        container, merged = dict, partial(_merged_maps, kind=atom.map)
    elif atom.map is None and atom.scalar is None and atom.list is not None and atom.list.relation != "atomic":
        container, merged = list, partial(_merged_lists, kind=atom.list)
    else:
        return applied
    # Null, and what is no such container, merges like an empty one.
    if not (isinstance(live, container) and live):
        return applied
    if not (isinstance(applied, container) and applied):
        return live
    return merged(live, applied)


def _merged_maps(live: Any, applied: Any, kind: MapType) -> Any:
    result = dict(live)
    for key, item in applied.items():
        child = kind.fields.get(key, kind.element)
        if child is None:
            raise MergeError([Mismatch(f".{key}", "field not declared in schema")])
        try:
            result[key] = merge(live.get(key, ABSENT), item, child)
        except MergeError as error:
            raise MergeError([mismatch.below(f".{key}") for mismatch in error.mismatches]) from error
    return live if all(result[key] is live.get(key, ABSENT) for key in applied) else result


def _merged_lists(live: Any, applied: Any, kind: ListType) -> Any:
    problems: list[Mismatch] = []
    live_keys = list(_keys(live, kind, problems))
    applied_keys = list(_keys(applied, kind, problems))
    if problems:
        raise MergeError(problems)
    known: dict[Key, Any] = {}
    for key, item in zip(live_keys, live, strict=True):
        known[key] = None if key in known else item  # items with duplicate keys are not merged
    given = dict(zip(applied_keys, applied, strict=True))

    result = []
    for at, chosen in _order(live_keys, applied_keys):
        try:
            result.append(live[at] if chosen is None else merge(known.get(chosen, ABSENT), given[chosen], kind.element))
        except MergeError as error:
            raise MergeError([one.below(step(chosen or ())) for one in error.mismatches]) from error
    return live if len(result) == len(live) and all(map(is_, result, live)) else result


def _order(live: Sequence[Key], applied: Sequence[Key]) -> Iterator[tuple[int, Key | None]]:
    """The source of each item of the merged list: an index in the live list, or the key of an applied item.

    Live items that are not applied keep their place before the next shared item. Shared items have the applied order.
    New items follow their applied predecessor.
    """
    given, known = set(applied), set(live)
    shared = [key for key in applied if key in known]
    done: set[Key] = set()
    left = right = 0
    while left < len(live) or right < len(applied):
        if left < len(live) and right < len(applied):
            key = live[left]
            if key == applied[right]:
                yield -1, key
                done.add(key)
                left, right, shared = left + 1, right + 1, shared[1:]
                continue
            if key in given and shared and shared[0] != key:
                left += 1  # it comes later, at its applied position
                continue
        if left < len(live):
            key = live[left]
            if key not in given:
                yield left, None
                left += 1
                continue
            if key in done:
                left += 1
        if right < len(applied):
            key = applied[right]
            yield -1, key
            done.add(key)
            right += 1
            if shared and shared[0] == key:
                shared = shared[1:]


def step(key: Key) -> str:
    """The name of a list's item in messages: `[name="main"]`, or `[="a"]` in a set."""
    parts = []
    for name, identity in key:
        kind, plain = identity
        text = general(plain) if isinstance(plain, float) else str(plain).lower()
        if isinstance(plain, str):
            text = {"null": "null", "string": quote(plain)}.get(kind, plain)
        parts.append(f"{name}={text}")
    return f"[{','.join(parts)}]"


def _hashable(value: Any) -> tuple[str, Any]:
    """A value as part of a key: 1 equals 1.0, but not true."""
    match value:
        case None:
            return ("null", "")
        case bool():
            return ("bool", value)
        case int() | float():
            return ("number", value)
        case str():
            return ("string", value)
        case _:
            return ("other", json.dumps(value, sort_keys=True, default=str))


def _keys(items: Sequence[Any], kind: ListType, problems: list[Mismatch]) -> Iterator[Key]:
    for index, item in enumerate(items):
        try:
            yield _key(item, kind)
        except ValueError as error:
            problems.append(Mismatch("", f"element {index}: {error}"))


def _key(item: Any, kind: ListType) -> Key:
    """The key of an item. Raises ValueError, with the API server's message, if it has none."""
    if kind.relation == "set":
        match item:
            case dict():
                raise ValueError("associative list without keys has an element that's a map type")
            case list():
                raise ValueError("not supported: associative list with lists as elements")
            case None:
                raise ValueError("associative list without keys has an element that's an explicit null")
            case _:
                return (("", _hashable(item)),)
    if item is None:
        raise ValueError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise ValueError("associative list with keys may not have non-map elements")  # noqa: TRY004 - no bug of ours
    described = kind.element.atom.map
    defaults = {} if described is None else described.defaults
    given = ((name, item.get(name, defaults.get(name, ABSENT))) for name in sorted(kind.keys))
    key = tuple((name, _hashable(value)) for name, value in given if value is not ABSENT)
    if not key:
        names = " ".join(map(quote, kind.keys))
        raise ValueError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key


def _deduced(atom: Atom, value: Any) -> Atom:
    """The part of a schema that a value belongs to; the whole schema if it belongs to none."""
    match value:
        case bool() | int() | float() | str() if atom.scalar is not None:
            return Atom(scalar=atom.scalar)
        case list() if atom.list is not None:
            return Atom(list=atom.list)
        case dict() if atom.map is not None:
            return Atom(map=atom.map)
        case _:
            return atom


def _problems(value: Any, node: SchemaNode) -> Iterator[Mismatch]:
    atom = _deduced(node.atom, value)
    if value is None:
        return
    if atom.map is not None:
        if not isinstance(value, dict):
            yield Mismatch("", f"expected map, got {shown(value)}")
            return
        for key, item in value.items():
            child = atom.map.fields.get(key, atom.map.element)
            if child is None:
                yield Mismatch(f".{key}", "field not declared in schema")
                return
            yield from (problem.below(f".{key}") for problem in _problems(item, child))
    elif atom.scalar is not None:
        name, belongs = _SCALARS[atom.scalar.type]
        if not belongs(value):
            yield Mismatch("", f"expected {name}, got {shown(value)}")
    elif atom.list is not None:
        yield from _problems_in_list(value, atom.list)


def _problems_in_list(value: Any, kind: ListType) -> Iterator[Mismatch]:
    if not isinstance(value, list):
        yield Mismatch("", f"expected list, got {shown(value)}")
        return
    keys: set[Key] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if kind.relation != "atomic":
            try:
                key = _key(item, kind)
            except ValueError as error:
                yield Mismatch("", f"element {index}: {error}")
                return
            place = step(key)
            if key in keys:
                yield Mismatch("", f"duplicate entries for key {place}")
            keys.add(key)
        yield from (problem.below(place) for problem in _problems(item, kind.element))


_SCALARS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "numeric": ("numeric (int or float)", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "string": ("string", lambda value: isinstance(value, str)),
    "boolean": ("boolean", lambda value: isinstance(value, bool)),
    "untyped": ("any scalar", lambda value: not isinstance(value, Foreign | list | dict)),
}
"""The types of scalars, as messages call them, and what belongs to them."""
