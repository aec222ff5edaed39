"""Converts OpenAPI schemas to CEL types, as Kubernetes does to check expressions.

Sources: k8s.io/apiserver's pkg/cel/common/schemas.go (SchemaDeclType), pkg/cel/types.go (names of types),
pkg/cel/escaping.go (names of fields), pkg/cel/openapi/resolver/refs.go (references in circles).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policies.admissionpolicy import schema as schemas
from policies.admissionpolicy.builtin.table import OpenApi
from policies.cel import types
from policies.cel.syntax.parser import RESERVED
from policies.cel.types import Type

_RESERVED = RESERVED | {"true", "false", "null", "in"}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SCALARS = {"boolean": types.BOOL, "number": types.DOUBLE, "integer": types.INT}
_FORMATS = {"byte": types.BYTES, "duration": types.DURATION, "date": types.TIMESTAMP, "date-time": types.TIMESTAMP}
_TEXT: OpenApi = {"type": "string"}
_ROOT: OpenApi = {
    "kind": _TEXT,
    "apiVersion": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """The type of a kind, and all object types below it by name.

    definitions: the names of the OpenAPI definitions of types, if they have one. present: for each type, the fields
    that are always present, because the schema requires them or has a default.
    """

    type: Type
    structs: Mapping[str, Mapping[str, Type]]
    definitions: Mapping[str, str]
    present: Mapping[str, frozenset[str]]


def declare(name: str, schema: OpenApi, untyped: Type | None = None) -> DeclaredType | None:
    """The type `name` of a whole object; None if the schema has no type for it.

    untyped: the type for values that may have several types, such as quantities, and for objects with unknown fields.
    None: as in Kubernetes, where fields with several types do not exist, and objects with unknown fields are empty.
    With `untyped`, types are named after their definitions, so that containers and initContainers have the same element
    type; in Kubernetes they differ.
    """
    builder = _Builder(untyped)
    type_ = builder.type(schema, name, frozenset(), root=True)
    return None if type_ is None else DeclaredType(type_, builder.structs, builder.definitions, builder.present)


def escaped(name: str) -> str | None:
    """A property's name as a CEL identifier, such as `x__dash__y` for `x-y`; None if it cannot be one."""
    if name in _RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][A-Za-z0-9_./-]*", name):
        return None
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], name)


class _Builder:
    """Converts one schema, and collects its types by their paths."""

    def __init__(self, untyped: Type | None) -> None:
        self._untyped = untyped
        self.structs: dict[str, dict[str, Type]] = {}
        self.definitions: dict[str, str] = {}
        self.present: dict[str, frozenset[str]] = {}

    def type(self, schema: OpenApi, path: str, around: frozenset[str], *, root: bool = False) -> Type | None:
        """The type at a path; None if it has none, so that the field does not exist in CEL.

        around: the enclosing definitions. A reference to one of them becomes an object without fields.
        """
        reference = schema.get("$ref")
        if reference is not None:
            if reference in around:
                schema = {"type": "object"}
            else:
                around |= {reference}
                schema = schemas.definition(reference)
                path = path if self._untyped is None or root else reference
                self.definitions[path] = reference
        if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string") is True:
            return types.DYN
        match "object" if root else schema.get("type"):
            case "array":
                element = self._below(schema.get("items"), f"{path}.@idx", around)
                return None if element is None else types.list_of(element)
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                element = self._below(schema["additionalProperties"], f"{path}.@elem", around)
                return None if element is None else types.map_of(types.STRING, element)
            case "object":
                return self._open(schema, root=root) or self._struct(schema, path, around, root=root)
            case "string":
                return _FORMATS.get(schema.get("format", ""), types.STRING)
            case name:
                return _SCALARS.get(str(name), self._untyped)

    def _open(self, schema: OpenApi, *, root: bool) -> Type | None:
        """The type for an object with arbitrary fields; None for other objects."""
        unknown = not schema.get("properties") or schema.get("x-kubernetes-preserve-unknown-fields") is True
        return self._untyped if unknown and not root else None

    def _below(self, schema: Any, path: str, around: frozenset[str]) -> Type | None:
        if not isinstance(schema, dict):
            return self._untyped
        return self.type(schema, path, around, root=schema.get("x-kubernetes-embedded-resource") is True)

    def _struct(self, schema: OpenApi, path: str, around: frozenset[str], *, root: bool) -> Type:
        properties = schema.get("properties") or {}
        if root and "metadata" not in properties:
            properties = {**properties, **_ROOT}
        fields: dict[str, Type] = {}
        present = set(schema.get("required") or ())
        for name, below in properties.items():
            identifier = escaped(name)
            type_ = None if identifier is None else self._below(below, f"{path}.{identifier}", around)
            if identifier is None or type_ is None:
                continue
            fields[identifier] = type_
            if name in _RESERVED:  # a keyword may also be used unescaped
                fields[name] = type_
            if below.get("default") is not None:
                present.add(name)
        self.structs[path] = fields
        self.present[path] = frozenset(present)
        return types.struct(path)
