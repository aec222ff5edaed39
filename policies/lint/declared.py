"""CEL types from OpenAPI schemas, as Kubernetes declares them to check expressions.

Sources: k8s.io/apiserver's pkg/cel/common/schemas.go (SchemaDeclType), pkg/cel/types.go (names of types),
pkg/cel/escaping.go (names of fields), pkg/cel/openapi/resolver/refs.go (references in circles).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policies.admissionpolicy import schema as schemas
from policies.admissionpolicy.schema import OpenApi
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
    """The type of a kind, and by their names all types with fields that are below it.

    definitions: the names of the OpenAPI definitions that types come from, where they have one. present: for each type
    the fields that are always there, since the schema requires them or has a default for them.
    """

    type: Type
    structs: Mapping[str, Mapping[str, Type]]
    definitions: Mapping[str, str]
    present: Mapping[str, frozenset[str]]


def declare(name: str, schema: OpenApi, untyped: Type | None = None) -> DeclaredType | None:
    """The type `name` of a whole object; None for a schema that says nothing of one.

    untyped: what stands for values that may be of several types, such as quantities, and for objects whose fields are
    not known. Kubernetes has nothing for the first, so that their fields do not exist for it, and the second are empty.
    With it types have the names of their definitions, where they have one: Kubernetes takes containers and
    initContainers for lists of different things.
    """
    builder = _Builder(untyped)
    type_ = builder.type(schema, name, frozenset(), root=True)
    return None if type_ is None else DeclaredType(type_, builder.structs, builder.definitions, builder.present)


def escaped(name: str) -> str | None:
    """A property's name as a CEL identifier, None where it cannot be one: `x-y` is `x__dash__y`."""
    if name in _RESERVED:
        return f"__{name}__"
    if not re.fullmatch(r"[A-Za-z_./-][A-Za-z0-9_./-]*", name):
        return None
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], name)


class _Builder:
    """One walk over one schema; what it finds is kept by the path where it stands."""

    def __init__(self, untyped: Type | None) -> None:
        self._untyped = untyped
        self.structs: dict[str, dict[str, Type]] = {}
        self.definitions: dict[str, str] = {}
        self.present: dict[str, frozenset[str]] = {}

    def type(self, schema: OpenApi, path: str, around: frozenset[str], *, root: bool = False) -> Type | None:
        """The type at a path; None for what has none: such a field does not exist in CEL.

        around: the definitions that this one is part of; one of them again is an object without fields.
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
        """What stands for an object that may have fields of any name."""
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
            if name in _RESERVED:  # a keyword may be written as it is, too
                fields[name] = type_
            if below.get("default") is not None:
                present.add(name)
        self.structs[path] = fields
        self.present[path] = frozenset(present)
        return types.struct(path)
