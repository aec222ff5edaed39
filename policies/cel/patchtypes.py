"""The messages of mutations: `JSONPatch{op: ..., path: ...}` and `Object{spec: Object.spec{...}}`.

Source: k8s.io/apiserver's pkg/cel/mutation. An `Object` may have any field, whose type is dyn. `Object.spec` is a
separate type; that its name matches its path is checked only when the result is applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from policies.cel import types
from policies.cel.equality import equal
from policies.cel.types import Type
from policies.cel.values import ABSENT, CelError, Optional, Value, type_of

JSON_PATCH = types.struct("JSONPatch")
OBJECT = types.struct("Object")
PATCH_TYPES = {"ApplyConfiguration": OBJECT, "JSONPatch": types.list_of(JSON_PATCH)}
"""The results of mutations, by patchType."""
JSON_PATCH_FIELDS: Mapping[str, Type] = {
    "op": types.STRING,
    "path": types.STRING,
    "from": types.STRING,
    "value": types.DYN,
}


def is_patch_type(name: str) -> bool:
    """Whether a name is JSONPatch, Object or a type below Object."""
    return name in ("JSONPatch", "Object") or name.startswith("Object.")


@dataclass(frozen=True, slots=True, eq=False)
class JSONPatch:
    """One operation of a JSON Patch (RFC 6902). `value`: ABSENT if none was given."""

    cel_type: ClassVar[Type] = JSON_PATCH
    op: str = ""
    path: str = ""
    from_: str = ""
    value: Value = ABSENT

    def cel_equal(self, other: Value) -> bool:
        """Whether all fields are equal."""
        if not isinstance(other, JSONPatch):
            return False
        if (self.op, self.path, self.from_) != (other.op, other.path, other.from_):
            return False
        if self.value is ABSENT or other.value is ABSENT:
            return self.value is other.value
        return equal(self.value, other.value)

    def cel_field(self, name: str) -> Value:
        """The value of a field. Raises CelError for an unknown name."""
        fields = {"op": self.op, "path": self.path, "from": self.from_, "value": self.value}
        if (value := fields.get(name, ABSENT)) is ABSENT:
            raise CelError(f"unsupported indexer: {name}")
        return value

    def cel_has(self, name: str) -> bool:
        """Whether a field is set. An empty text counts as not set."""
        if name not in JSON_PATCH_FIELDS:
            raise CelError(f"unsupported field: {name}")
        return self.value is not ABSENT if name == "value" else bool(self.cel_field(name))


@dataclass(frozen=True, slots=True, eq=False)
class ObjectValue:
    """`Object{...}` or a part of it: the type's name and the given fields."""

    name: str
    fields: Mapping[str, Value]

    def field(self, name: str) -> Value:
        """The value of a field for a selection, with parts turned into maps; ABSENT if it was not given.

        Raises CelError if any field is a map with a key that is not a string: then no field can be selected.
        """
        if any(key.__class__ is not str for value in self.fields.values() if isinstance(value, dict) for key in value):
            raise CelError(f'cannot get field "{name}"')
        return _plain(self.fields.get(name, ABSENT))

    @property
    def cel_type(self) -> Type:
        """The type of this part: `Object.spec`."""
        return types.struct(self.name)

    def cel_equal(self, other: Value) -> bool:
        """Whether type and fields are equal."""
        return (
            isinstance(other, ObjectValue) and self.name == other.name and equal(dict(self.fields), dict(other.fields))
        )


def _plain(value: Value) -> Value:
    match value:
        case ObjectValue():
            return {name: _plain(item) for name, item in value.fields.items()}
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case Optional():
            return None if value.value is ABSENT else _plain(value.value)
        case Type():
            return value.name
        case _:
            return value


def construct(type_name: str, fields: Mapping[str, Value]) -> JSONPatch | ObjectValue:
    """The value of `type_name{...}`. Raises CelError for an unknown type or an invalid field of JSONPatch."""
    if not is_patch_type(type_name):
        raise CelError(f"unknown type '{type_name}'")
    if type_name != "JSONPatch":
        return ObjectValue(type_name, fields)
    for name, value in fields.items():
        if name != "value" and value.__class__ is not str:
            raise CelError(f"unexpected type {type_of(value).name} for JSONPatchType '{name}' field")
    op, path, from_ = (fields.get(name, "") for name in ("op", "path", "from"))
    return JSONPatch(op, path, from_, fields.get("value", ABSENT))
