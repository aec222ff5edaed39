"""Fills in the fields of a built-in kind as the API server does before a policy sees the object.

Left out is what depends on other objects of the cluster, on the time, or on chance, such as addresses and uids.

The defaults of single fields are a table, `defaults.json` beside this module: by type, those of all releases, and under
the name of a release those that came with it. Names of types in k8s.io/api are short. With them count the defaults in
the OpenAPI definitions (`+default` in Go). Defaults that depend on other fields are in computed.py and poddefaults.py.
Source: pkg/apis/*/*/defaults.go in k8s.io/kubernetes. tests/cluster/test_defaults.py compares objects of all kinds
with those of a real API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from msgspec import json

from policies.admissionpolicy.builtin import computed, poddefaults
from policies.admissionpolicy.builtin.quantities import MILLI, canonical
from policies.admissionpolicy.builtin.table import QUANTITY, OpenApi, types_of
from policies.engine.request import JsonObject
from policies.kubernetes.release import NEWEST, RELEASES, Release

_API = "io.k8s.api."
Computed = Callable[[JsonObject, Release], None]
_COMPUTED: Mapping[str, Computed] = {**computed.COMPUTED, **poddefaults.COMPUTED}


@dataclass(frozen=True, slots=True)
class Default:
    """The value of one field. replaces_zero: whether it also stands for 0 and "", which say nothing in this field."""

    path: tuple[str, ...]
    value: Any
    replaces_zero: bool = False

    def fill(self, obj: JsonObject) -> None:
        """Set the field, if it has no value and what it would be in is there."""
        *parents, name = self.path
        for parent in parents:
            below = obj.get(parent)
            if not isinstance(below, dict):
                return
            obj = below
        if obj.get(name) is None or (self.replaces_zero and obj[name] in {0, ""}):
            obj[name] = copied(self.value)


@dataclass(frozen=True, slots=True)
class TypeDefaults:
    """What is filled into a value of a type.

    constants: defaults of fields. fields: those below which there is more, with the name of the type, how it is
    contained (`[` list, `{` map), or an empty name for quantities that are rounded.
    """

    constants: tuple[Default, ...]
    computed: Computed | None
    fields: tuple[tuple[str, str, str], ...]


def fill(obj: JsonObject, name: str, release: Release = NEWEST) -> None:
    """Fill in an object of a type with its canonical encoding, in place. Values of a wrong type are left alone."""
    own = of_type(name, release)
    if own.computed is not None:
        own.computed(obj, release)
    for default in own.constants:
        default.fill(obj)
    for field, shape, type_ in own.fields:
        value = obj.get(field)
        if not type_:
            if isinstance(value, dict):
                obj[field] = {key: canonical(amount, MILLI) for key, amount in value.items()}
            continue
        for item in _items(value, shape):
            if isinstance(item, dict):
                fill(item, type_, release)


def _items(value: Any, shape: str) -> list[Any]:
    if shape == "[":
        return value if isinstance(value, list) else []
    if shape == "{":
        return list(value.values()) if isinstance(value, dict) else []
    return [value]


def copied(value: Any) -> Any:
    """A deep copy of decoded JSON."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


@cache
def of_type(name: str, release: Release = NEWEST) -> TypeDefaults:
    """What is filled into a value of a type."""
    definition = types_of(release).types[name]
    short = name.removeprefix(_API)
    own = _constants(release).get(short, {})
    defaults = (
        *(_default(definition, path.split("."), value, release) for path, value in own.items()),
        *_declared(definition),
    )
    below = _filled(release)
    fields = tuple(
        (field, shape, type_)
        for field, shape, type_ in _below(definition)
        if type_ in below or (shape == "{" and not type_)
    )
    return TypeDefaults(defaults, _COMPUTED.get(short), fields)


def _default(definition: OpenApi, path: list[str], value: Any, release: Release) -> Default:
    """The default of a field at a path. It also stands for the zero value of a field that is always written."""
    known = types_of(release).types
    *parents, name = path
    for parent in parents:
        definition = known[definition["properties"][parent]["$ref"]]
    return Default(tuple(path), value, replaces_zero="omit" not in definition["properties"][name])


def _declared(definition: OpenApi) -> Iterator[Default]:
    """The defaults in a definition, but for those that are Go's zero values."""
    for field, schema in definition.get("properties", {}).items():
        value, omission = schema.get("default"), schema.get("omit", "")
        if value is not None and (omission in {"null", "written-null"} or (omission and value)):
            yield Default((field,), value)


def _below(definition: OpenApi) -> Iterator[tuple[str, str, str]]:
    """The fields of structured types, as in TypeDefaults."""
    for field, schema in definition.get("properties", {}).items():
        for shape, inner in (("", schema), ("[", schema.get("items")), ("{", schema.get("additionalProperties"))):
            name = inner.get("$ref") if isinstance(inner, dict) else None
            if name is not None and (name != QUANTITY or shape == "{"):
                yield field, shape, "" if name == QUANTITY else name


@cache
def _filled(release: Release) -> frozenset[str]:
    """The types with defaults in them or in what they contain."""
    types = types_of(release).types
    users: dict[str, set[str]] = {}
    filled: set[str] = set()
    constants = _constants(release)
    for name, definition in types.items():
        short = name.removeprefix(_API)
        own = list(_below(definition))
        for _, _, type_ in own:
            users.setdefault(type_, set()).add(name)
        if short in constants or short in _COMPUTED or any(_declared(definition)) or any(not t for _, _, t in own):
            filled.add(name)
    waiting = list(filled)
    while waiting:
        more = users.get(waiting.pop(), set()) - filled
        filled |= more
        waiting += more
    return frozenset(filled)


@cache
def _constants(release: Release) -> Mapping[str, Mapping[str, Any]]:
    """The table's defaults by short name of the type."""
    text = resources.files("policies.admissionpolicy.builtin").joinpath("defaults.json").read_bytes()
    table = json.decode(text, type=dict[str, dict[str, dict[str, Any]]])
    constants = table[""]
    for known in RELEASES:
        if known <= release:
            for name, own in table.get(known.name, {}).items():
                constants[name] = {**constants.get(name, {}), **own}
    return constants
