"""The forms of the built-in kinds, made of the types of a release and of what an API server says of single fields.

`fieldrules-*.json` beside this module has these rules by type and field; tests/cluster/fieldrules.py asks a real API
server for them. A rule may have:

required          what follows `Required value`, for a field that must have a value
absent            true: a missing field is judged as 0 or an empty text
enum              the values that there are, in the API server's order
format            of a text, or of the items of a list (formats.py); `keys` and `values`: of a map's
minimum, maximum  of a number or a quantity; above: less than it; zero: true if 0 is right all the same
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from msgspec import json

from policies.admissionpolicy.builtin.table import MICRO_TIME, OBJECT_META, QUANTITY, TIME, OpenApi, TypeTable, types_of
from policies.kubernetes.release import Release
from policies.schema import rules
from policies.schema.formats import FORMATS
from policies.schema.shape import (
    Bytes,
    Flag,
    IntOrString,
    ListOf,
    MapOf,
    Number,
    Quantity,
    Shape,
    Struct,
    StructOr,
    Text,
    Time,
)

_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_SCHEMA_OR = frozenset({f"{_SCHEMA}OrArray", f"{_SCHEMA}OrBool"})
_API = "io.k8s.api."
_NO_RULE: Mapping[str, Any] = {}
FieldRules = Mapping[str, Mapping[str, Mapping[str, Any]]]


@cache
def field_rules(release: Release) -> FieldRules:
    """What an API server of a release demands of single fields, by type and field."""
    file = resources.files("policies.schema").joinpath(f"fieldrules-{release.name}.json")
    rules: FieldRules = json.decode(file.read_bytes())
    return rules


@cache
def shapes(release: Release) -> Shapes:
    """The forms of the kinds of a release."""
    return Shapes(types_of(release), field_rules(release))


class Shapes:
    """Forms by the names of their types, each made on first use."""

    def __init__(self, table: TypeTable, rules: FieldRules) -> None:
        self.kinds = table.kinds
        self._types = table.types
        self._rules = rules
        self._made: dict[str, Struct] = {}

    @property
    def metadata(self) -> Struct:
        """The form of the metadata of every object."""
        return self.struct(OBJECT_META)

    def struct(self, name: str) -> Struct:
        """The form of a type. Raises KeyError if there is none of that name."""
        if name not in self._made:
            made = self._made[name] = Struct(name)  # before its fields, which may have the same type
            definition, own = self._types[name], self._rules.get(name, _NO_RULE)
            properties = definition.get("properties", {})
            made.fields = {field: self.shape(below, own.get(field, _NO_RULE)) for field, below in properties.items()}
            made.required = tuple((field, rule["required"]) for field, rule in own.items() if "required" in rule)
            made.defaulted = tuple(
                field
                for field, below in properties.items()
                if "required" not in (rule := own.get(field, _NO_RULE))
                and (rule.get("absent") or (isinstance(made.fields[field], Struct) and "omit" not in below))
            )
            made.rules = rules.OF_TYPES.get(name.removeprefix(_API), ())
        return self._made[name]

    def refers(self, name: str, field: str) -> str:
        """The name of the type of a field; empty if it has none or there is no such field."""
        return str(self._types[name].get("properties", {}).get(field, {}).get("$ref", ""))

    def shape(self, schema: OpenApi, rule: Mapping[str, Any] = _NO_RULE) -> Shape:
        """The form of a field, with the rule for it."""
        if reference := schema.get("$ref"):
            return self._referenced(reference, rule)
        kind, below = schema.get("type"), schema.get("additionalProperties")
        if kind == "array":
            return ListOf(self.shape(schema["items"], rule))
        if isinstance(below, dict):
            inner = {**rule, "format": rule.get("values", "")}
            return MapOf(self.shape(below, inner), FORMATS.get(rule.get("keys", "")))
        return _scalar(kind, schema.get("format", ""), rule)

    def _referenced(self, name: str, rule: Mapping[str, Any]) -> Shape:
        if name == QUANTITY:
            return Quantity(rule.get("minimum"))
        if name in {TIME, MICRO_TIME}:
            return Time()
        if name == _INT_OR_STRING:
            return IntOrString(Number("int32", rule), FORMATS.get(rule.get("format", "")))
        if name in _SCHEMA_OR:
            return StructOr(self.struct(_SCHEMA))
        # Types without fields: some have none at all, others have an encoding of their own, such as any JSON.
        definition = self._types[name]
        return self.struct(name) if "properties" in definition else Shape()


def _scalar(kind: str | None, form: str, rule: Mapping[str, Any]) -> Shape:
    match kind:
        case "string":
            return Bytes() if form == "byte" else Text(rule.get("enum", ()), FORMATS.get(rule.get("format", "")))
        case "integer" | "number":
            return Number(form or kind, rule)
        case "boolean":
            return Flag()
        case _:
            return Shape()
