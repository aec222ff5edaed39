"""Custom resources, judged by the structural schema of their CRD.

Source: pkg/apiserver/{schema,validation} in k8s.io/apiextensions-apiserver, and k8s.io/kube-openapi's pkg/validation,
whose words these are. Rules in CEL, formats other than times, and the types of lists and maps are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from policies.admissionpolicy.builtin.table import OpenApi
from policies.cel.errors import CelError
from policies.cel.library.kubernetes.regex import compile_pattern
from policies.engine.request import GroupVersionKind, mapping
from policies.golang.time import parse_timestamp
from policies.objects.fieldpath import render
from policies.schema.flaw import Flaws, Place, location, quoted
from policies.schema.shape import Struct

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


class CustomKind(NamedTuple):
    """A kind of a CRD's version. schema: its openAPIV3Schema, None if it has none."""

    kind: GroupVersionKind
    schema: OpenApi | None


def kinds(definitions: Iterable[Mapping[str, Any]]) -> Iterator[CustomKind]:
    """The kinds that CustomResourceDefinitions define, one for each version that is served."""
    for definition in definitions:
        spec = mapping(definition, "spec")
        name = str(mapping(spec, "names").get("kind", ""))
        for version in spec.get("versions") or ():
            if isinstance(version, dict) and version.get("served", True):
                kind = GroupVersionKind(str(spec.get("group")), str(version.get("name")), name)
                yield CustomKind(kind, mapping(version, "schema").get("openAPIV3Schema"))


def judge(value: Mapping[str, Any], schema: OpenApi, metadata: Struct, flaws: Flaws) -> None:
    """Note what is wrong with a custom resource. metadata: the form of its metadata, which the schema does not have."""
    _Judgement(metadata, flaws).whole(value, schema)


class _Judgement:
    """The judgement of one object."""

    def __init__(self, metadata: Struct, flaws: Flaws) -> None:
        self._metadata = metadata
        self._flaws = flaws

    def whole(self, value: Mapping[str, Any], schema: OpenApi) -> None:
        """Judge an object with its metadata."""
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
            self._flaws.unsupported(place, value, map(_text, schema["enum"]))
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
        name = _name(value)
        self._flaws.invalid(place, name, f'{_body(place)} must be of type {expected}: "{name}"')

    def _string(self, value: str, schema: OpenApi, place: Place) -> None:
        if (least := schema.get("minLength")) is not None and len(value) < least:
            self._flaws.invalid(place, value, f"{_body(place)} should be at least {least} chars long")
        if (most := schema.get("maxLength")) is not None and len(value) > most:
            self._flaws.too_long(place, most)
        if (pattern := schema.get("pattern")) and not _matches(pattern, value):
            self._flaws.invalid(place, value, f"{_body(place)} should match '{pattern}'")
        if schema.get("format") == "date-time" and not _is_time(value):
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
                self._flaws.required((place, name))
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
    """The schema of a list's items."""
    items = schema.get("items")
    return items if isinstance(items, dict) else otherwise


def _is_of(value: Any, type_: str) -> bool:
    if isinstance(value, bool):
        return type_ == "boolean"
    if type_ == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _CLASSES.get(type_, (object,)))


def _name(value: Any) -> str:
    """The type of a value as the messages call it."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "float64" if not value.is_integer() else "integer"
    return {str: "string", int: "integer", list: "array", dict: "object"}.get(type(value), "null")


def _body(place: Place) -> str:
    return f"{render(location(place))} in body"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else quoted(value)


def _matches(pattern: str, value: str) -> bool:
    """Whether a text matches; a pattern that is none matches all."""
    try:
        return bool(compile_pattern(pattern).matches(value))
    except CelError:
        return True


def _is_time(text: str) -> bool:
    try:
        return parse_timestamp(text) is not None
    except OverflowError:
        return True
