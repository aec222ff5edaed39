"""What is wrong with an object, by the schema of its kind: a built-in one, or that of a CRD.

`fieldrules-*.json` beside this module has what an API server says of single fields, by type and field;
tests/cluster/fieldrules.py asks a real one. A rule may have:

required          what follows `Required value`, for a field that must have a value
absent            true: a missing field is judged as 0 or an empty text
enum              the values that there are, in the API server's order
format            of a text, or of the items of a list (flaw.py); `keys` and `values`: of a map's
minimum, maximum  of a number or a quantity; above: less than it; zero: true if 0 is right all the same

Sources: pkg/apiserver/{schema,validation} in k8s.io/apiextensions-apiserver, and k8s.io/kube-openapi's pkg/validation,
for the words. Of a CRD's schema, rules in CEL, formats other than times, and the types of lists and maps are not
judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from msgspec import json

from policies.admissionpolicy.builtin.defaults import kind_of
from policies.admissionpolicy.builtin.table import (
    MICRO_TIME,
    OBJECT_META,
    QUANTITY,
    TIME,
    OpenApi,
    TypeTable,
    served_resources,
    types_of,
)
from policies.cel.errors import CelError
from policies.cel.library.regex import compile_pattern
from policies.engine.request import GroupVersionKind, JsonObject, mapping
from policies.kubernetes.release import NEWEST, Release
from policies.kubernetes.spelling import closest
from policies.objects.fieldpath import render
from policies.schema import rules
from policies.schema.flaw import FORMATS, Flaw, Flaws, Place, location, quoted
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
    is_time,
)

_CLASSES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_EMBEDDED = ("apiVersion", "kind", "metadata")
_ANYTHING: OpenApi = {"x-kubernetes-preserve-unknown-fields": True}
_INT32 = 2**31


def _custom_kinds(definitions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[GroupVersionKind, OpenApi | None]]:
    """The kinds of CustomResourceDefinitions, one for each version that is served, with its schema if it has one."""
    for definition in definitions:
        spec = mapping(definition, "spec")
        name = str(mapping(spec, "names").get("kind", ""))
        for version in spec.get("versions") or ():
            if isinstance(version, dict) and version.get("served", True):
                kind = GroupVersionKind(str(spec.get("group")), str(version.get("name")), name)
                yield kind, mapping(version, "schema").get("openAPIV3Schema")


_FILLED_IN = re.compile(r"\bdefault(?:ed|s)\b", re.IGNORECASE)


class _Judgement:
    def __init__(self, metadata: Struct, flaws: Flaws) -> None:
        self._metadata = metadata
        self._flaws = flaws

    def whole(self, value: Mapping[str, Any], schema: OpenApi) -> None:
        self._unknown(value, schema, None, embedded=True)
        if not self._flaws.decoding:
            self._value(value, schema, None)

    def _unknown(self, value: Any, schema: OpenApi, place: Place, *, embedded: bool = False) -> None:
        """Note the fields that the API server would remove."""
        if isinstance(value, list):
            for index, item in enumerate(value):
                self._unknown(item, _items(schema, _ANYTHING), (place, index))
        if not isinstance(value, dict):
            return
        embedded = embedded or schema.get("x-kubernetes-embedded-resource") is True
        properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            if embedded and key == "metadata":
                self._metadata.judge(item, (place, key), self._flaws)
            elif key in properties:
                self._unknown(item, properties[key] or {}, (place, key))
            elif isinstance(rest, dict):
                self._unknown(item, rest, (place, key))
            elif not (rest or schema.get("x-kubernetes-preserve-unknown-fields") or (embedded and key in _EMBEDDED)):
                self._flaws.unknown((place, key), properties)

    def _value(self, value: Any, schema: OpenApi, place: Place) -> None:
        """Judge a value that the API server keeps."""
        if value is None:
            return  # if it is not nullable it counts as missing
        type_ = schema.get("type")
        if schema.get("x-kubernetes-int-or-string"):
            if isinstance(value, bool) or not isinstance(value, int | str):
                self._type(value, "integer,string", place)
                return
        elif type_ and not _is_of(value, type_):
            self._type(value, type_, place)
            return
        if schema.get("enum") and value not in schema["enum"]:
            self._flaws.unsupported(place, value, (v if isinstance(v, str) else quoted(v) for v in schema["enum"]))
        if isinstance(value, str):
            self._string(value, schema, place)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._number(value, schema, place)
        elif isinstance(value, list):
            self._list(value, schema, place)
        elif isinstance(value, dict):
            self._map(value, schema, place)
        self._combined(value, schema, place)

    def _type(self, value: Any, expected: str, place: Place) -> None:
        name = _type_name(value)
        self._flaws.invalid(place, name, f'{_body(place)} must be of type {expected}: "{name}"')

    def _string(self, value: str, schema: OpenApi, place: Place) -> None:
        if (least := schema.get("minLength")) is not None and len(value) < least:
            self._flaws.invalid(place, value, f"{_body(place)} should be at least {least} chars long")
        if (most := schema.get("maxLength")) is not None and len(value) > most:
            self._flaws.too_long(place, most)
        if (pattern := schema.get("pattern")) and not _matches(pattern, value):
            self._flaws.invalid(place, value, f"{_body(place)} should match '{pattern}'")
        if schema.get("format") == "date-time" and not is_time(value):
            self._flaws.invalid(place, value, f"{_body(place)} must be of type date-time: {quoted(value)}")

    def _number(self, value: float, schema: OpenApi, place: Place) -> None:
        if schema.get("format") == "int32" and not -_INT32 <= value < _INT32:
            text = f"Checked value must be of type integer with format int32 in {render(location(place))}"
            self._flaws.invalid(place, value, text)
        least, most, factor = (schema.get(name) for name in ("minimum", "maximum", "multipleOf"))
        if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
            limit = "than" if schema.get("exclusiveMinimum") else "than or equal to"
            self._flaws.invalid(place, value, f"{_body(place)} should be greater {limit} {least}")
        if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
            limit = "than" if schema.get("exclusiveMaximum") else "than or equal to"
            self._flaws.invalid(place, value, f"{_body(place)} should be less {limit} {most}")
        if factor and (value / factor) % 1:
            self._flaws.invalid(place, value, f"{_body(place)} should be a multiple of {factor}")

    def _list(self, value: list[Any], schema: OpenApi, place: Place) -> None:
        if (least := schema.get("minItems")) is not None and len(value) < least:
            self._flaws.invalid(place, len(value), f"{_body(place)} should have at least {least} items")
        if (most := schema.get("maxItems")) is not None and len(value) > most:
            self._flaws.too_many(place, len(value), most)
        items = _items(schema, {})
        for index, item in enumerate(value):
            if item is None and not items.get("nullable") and items.get("type"):
                self._type(item, items["type"], (place, index))
            self._value(item, items, (place, index))
        self._unique(value, schema, place)

    def _unique(self, value: list[Any], schema: OpenApi, place: Place) -> None:
        kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
        known: list[Any] = []
        for index, item in enumerate(value if kind in ("set", "map") else ()):
            identity = {key: item.get(key) for key in keys} if kind == "map" and isinstance(item, dict) else item
            if identity in known:
                self._flaws.duplicate((place, index), identity)
            known.append(identity)

    def _map(self, value: Mapping[str, Any], schema: OpenApi, place: Place) -> None:
        properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        for name in schema.get("required") or ():
            given = value.get(name)
            own = properties.get(name) or {}
            nullable = own.get("nullable") and name in value
            if given is None and not nullable and own.get("default") is None:
                # A mutating webhook of the kind's own may fill it in, which only the field's description tells.
                self._flaws.required((place, name), warns=_FILLED_IN.search(str(own.get("description"))) is not None)
        if (most := schema.get("maxProperties")) is not None and len(value) > most:
            self._flaws.too_many(place, len(value), most)
        if (least := schema.get("minProperties")) is not None and len(value) < least:
            self._flaws.invalid(place, len(value), f"{_body(place)} should have at least {least} properties")
        for key, item in value.items():
            if place is None and key == "metadata":
                continue
            below = properties.get(key, rest)
            if isinstance(below, dict):
                self._value(item, below, (place, key))

    def _combined(self, value: Any, schema: OpenApi, place: Place) -> None:
        """Judge what must hold of all, of some, of one or of none of several schemas."""
        path = render(location(place))
        for part in filter(None, schema.get("allOf") or ()):
            self._value(value, part, place)
        some, one, none = schema.get("anyOf"), schema.get("oneOf"), schema.get("not")
        if (
            some
            and not schema.get("x-kubernetes-int-or-string")
            and not any(self._fits(value, p or {}, place) for p in some)
        ):
            self._flaws.invalid(place, "", f'"{path}" must validate at least one schema (anyOf)')
        if one and (count := sum(self._fits(value, part or {}, place) for part in one)) != 1:
            number = "none valid" if not count else f"{count} valid alternatives"
            self._flaws.invalid(place, "", f'"{path}" must validate one and only one schema (oneOf). Found {number}')
        if none and self._fits(value, none, place):
            self._flaws.invalid(place, "", f'"{path}" must not validate the schema (not)')

    def _fits(self, value: Any, schema: OpenApi, place: Place) -> bool:
        flaws = Flaws()
        _Judgement(self._metadata, flaws)._value(value, schema, place)  # noqa: SLF001 - another one of the same class
        return not flaws.all


def _items(schema: OpenApi, otherwise: OpenApi) -> OpenApi:
    items = schema.get("items")
    return items if isinstance(items, dict) else otherwise


def _is_of(value: Any, type_: str) -> bool:
    if isinstance(value, bool):
        return type_ == "boolean"
    if type_ == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _CLASSES.get(type_, (object,)))


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "float64" if not value.is_integer() else "integer"
    return {str: "string", int: "integer", list: "array", dict: "object"}.get(type(value), "null")


def _body(place: Place) -> str:
    return f"{render(location(place))} in body"


def _matches(pattern: str, value: str) -> bool:
    """Whether a text matches; a pattern that is none matches all."""
    try:
        return bool(compile_pattern(pattern).matches(value))
    except CelError:
        return True


_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_SCHEMA_OR = frozenset({f"{_SCHEMA}OrArray", f"{_SCHEMA}OrBool"})
_NO_RULE: Mapping[str, Any] = {}
FieldRules = Mapping[str, Mapping[str, Mapping[str, Any]]]


@cache
def field_rules(release: Release) -> FieldRules:
    """What an API server of a release demands of single fields, by type and field; of a beta that of the newest one."""
    known = release if release.is_final else NEWEST
    file = resources.files("policies.schema").joinpath(f"fieldrules-{known.name}.json")
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
            made.rule = rules.OF_TYPES.get(name.removeprefix("io.k8s.api."))
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


_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
_NAMELESS = "Review"
"""The end of kinds that ask something and are not stored, so that they have no name."""

_GIVE_IT = "give its CustomResourceDefinition: among the files, with --crds, or from a cluster with --kubeconfig"


class Schemas:
    """The kinds of an API server: those of a release, and those that CustomResourceDefinitions add."""

    def __init__(self, release: Release = NEWEST, definitions: Iterable[Mapping[str, Any]] = ()) -> None:
        self._shapes = shapes(release)
        readable = filter(self._is_readable, definitions)
        self._custom = dict(_custom_kinds(readable))
        self._built_in = {  # the types of objects that may be written, and not of answers only
            GroupVersionKind(*kind.split("/", 2)): name
            for kind, name in self._shapes.kinds.items()
            if self._shapes.refers(name, "metadata") == OBJECT_META
        }

    def flaws(self, obj: JsonObject) -> tuple[Flaw, ...]:
        """What is wrong with an object that is created; nothing if the API server would take it, as far as is known."""
        return self.judge(obj).all

    def judge(self, obj: JsonObject) -> Flaws:
        """The same, apart by whether the API server can read the object."""
        kind = kind_of(obj)
        flaws = Flaws()
        if name := self._built_in.get(kind):
            self._shapes.struct(name).judge(obj, None, flaws)
            flaws.forgive("status")  # which a create does not set
            if "alpha" in kind.version or "beta" in kind.version:
                flaws.values += self._unserved(kind)
        elif (schema := self._custom.get(kind)) is not None:
            _Judgement(self._shapes.metadata, flaws).whole(obj, schema)
        elif kind not in self._custom:
            flaws.decoding.append(self._unknown(kind))
        if not flaws.decoding and not kind.kind.endswith(_NAMELESS):
            rules.judge_metadata(obj, kind.group, kind.kind, flaws)
        return flaws

    def _unserved(self, kind: GroupVersionKind) -> Iterator[Flaw]:
        """What is said of an alpha or beta version that an API server serves only if it is told to."""
        served = [one.kind for one in served_resources() if one.kind.group_kind == kind.group_kind]
        if kind not in served:
            remedy = (
                f"write {_api_version(served[-1])}" if served else "enable it with --runtime-config of kube-apiserver"
            )
            text = f"{_api_version(kind)} is not served by default, so that there are no matches for kind {kind.kind}"
            yield Flaw(("apiVersion",), text, remedy, "warning")

    def _is_readable(self, definition: Mapping[str, Any]) -> bool:
        """Whether a definition has the form of one; else its flaws are said where it is judged itself."""
        flaws = Flaws()
        self._shapes.struct(_DEFINITION).judge(definition, None, flaws)
        return not flaws.decoding

    def _unknown(self, kind: GroupVersionKind) -> Flaw:
        """What is said of a kind that is not known: an error, unless a CRD that is not given may define it."""
        text = f'no matches for kind "{kind.kind}" in version "{_api_version(kind)}"'
        near = self._near(kind)
        hint = f"did you mean {near.kind} of {_api_version(near)}?" if near else ""
        if near is not None and (near.group == kind.group or "." not in kind.group):
            field = "kind" if _api_version(near) == _api_version(kind) else "apiVersion"
            return Flaw((field,), text, hint)
        if "." not in kind.group or any(known.group == kind.group for known in self._built_in):
            return Flaw(("apiVersion",), text)  # the group of a CRD has a dot, and is none of the API server's
        text = f"the schema of {kind.kind} in {_api_version(kind)} is not known, so it was not judged"
        return Flaw(("kind",), text, f"{hint} Else {_GIVE_IT}" if hint else _GIVE_IT, "warning")

    def _near(self, kind: GroupVersionKind) -> GroupVersionKind | None:
        """The kind that was probably meant: in another version or group, or one with almost this name."""
        group = [other for other in (*self._built_in, *self._custom) if other.group == kind.group]
        beside = sorted(group, key=lambda other: other.version != kind.version)
        if same := next((other for other in beside if other.kind == kind.kind), None):
            return same
        if elsewhere := self._elsewhere(kind):
            return elsewhere
        known = beside or ([] if "." in kind.group else list(self._built_in))
        name = closest(kind.kind, [other.kind for other in known])
        if not name and not kind.group:
            known = list(self._built_in)
            name = closest(kind.kind, [other.kind for other in known])
        return next((other for other in known if other.kind == name), None)

    def _elsewhere(self, kind: GroupVersionKind) -> GroupVersionKind | None:
        """The built-in kind of this name in another group, if the group was forgotten or has almost this name."""
        others = {other.group: other for other in self._built_in if other.kind == kind.kind}
        if "." not in kind.group:
            return next(iter(others.values()), None)
        return others.get(closest(kind.group, others))


def _api_version(kind: GroupVersionKind) -> str:
    return f"{kind.group}/{kind.version}".lstrip("/")
