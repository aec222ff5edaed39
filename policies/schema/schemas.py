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
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import resources
from operator import gt, lt
from typing import Any

from msgspec import json

from policies.admissionpolicy.builtin.defaults import kind_of
from policies.admissionpolicy.builtin.reader import no_base64, quantity_of
from policies.admissionpolicy.builtin.table import (
    MICRO_TIME,
    OBJECT_META,
    QUANTITY,
    TIME,
    OpenApi,
    served_resources,
    types_of,
)
from policies.cel.library.regex import compile_pattern
from policies.cel.values import CelError
from policies.engine.request import GroupVersionKind, JsonObject, mapping
from policies.golang.time import parse_timestamp
from policies.kubernetes.name import Format
from policies.kubernetes.release import NEWEST, Release
from policies.kubernetes.spelling import closest
from policies.objects.fieldpath import render
from policies.schema import rules
from policies.schema.flaw import FORMATS, Flaw, Flaws, Place, location, quoted

_BITS = {"int32": 31, "int64": 63}


def _is_time(text: str) -> bool:
    """Whether a text is a time as in RFC 3339, of whatever year."""
    try:
        return parse_timestamp(text) is not None
    except OverflowError:
        return True


# Kinds of the API server ---------------------------------------------------------------------------------------------

_Judge = Callable[[Any, Place, Flaws], None]
_Absent = Callable[[Place, Flaws], None]


class _Shape:
    """The form of a value that the API server decodes. They are made once, and objects are walked through with them.

    judge: looks at a value, notes what is wrong with it, and goes on below it. absent: notes what is wrong with the
    value that a missing field has. plain: the class whose values have the form without a look at them. Most values are
    right: they cost little.
    """

    def __init__(
        self, judge: _Judge = lambda *_: None, absent: _Absent = lambda *_: None, plain: type | None = None
    ) -> None:
        self.judge, self.absent, self.plain = judge, absent, plain


def _string(content: Callable[[str, Place, Flaws], None], plain: type | None = None) -> _Shape:
    """A string. content: notes what is wrong with one; an empty one counts as a missing field."""

    def judge(value: Any, place: Place, flaws: Flaws) -> None:
        if isinstance(value, str):
            if value:
                content(value, place, flaws)
            return
        remedy = f'write it in quotes: "{value}"' if isinstance(value, int | float) else ""
        if isinstance(value, bool):
            remedy = "write it in quotes: YAML takes the word for a boolean"
        flaws.mismatch(place, "string", value, remedy)

    return _Shape(judge, partial(content, ""), plain)


def _text(enum: tuple[str, ...], form: Format | None) -> _Shape:
    def content(value: str, place: Place, flaws: Flaws) -> None:
        if enum and value not in enum:
            flaws.unsupported(place, value, enum)
        elif form is not None:
            flaws.misformed(form, place, value)

    return _string(content, None if enum or form else str)


def _flag(value: Any, place: Place, flaws: Flaws) -> None:
    if not isinstance(value, bool):
        word = str(value).lower()
        flaws.mismatch(place, "boolean", value, f"write {word} without quotes" if word in ("true", "false") else "")


def _number(form: str, rule: Mapping[str, Any]) -> _Shape:
    """A number, of a size and in a range, if 0 does not count as no value."""
    form = form if form in _BITS else "int64" if form == "integer" else ""
    bits = _BITS.get(form)
    least, most, above = (rule.get(name) for name in ("minimum", "maximum", "above"))

    def judge(value: Any, place: Place, flaws: Flaws) -> None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            remedy = f"write {value} without quotes" if isinstance(value, str) and value.isdecimal() else ""
            flaws.mismatch(place, "numeric (int or float)", value, remedy)
        elif bits is not None and not (-(2**bits) <= value < 2**bits and value == int(value)):
            problem = f"cannot unmarshal number {value} into a field of type {form}"
            flaws.undecodable(place, problem, "write a whole number" if value % 1 else "")
        else:
            bound(value, place, flaws)

    def bound(value: float, place: Place, flaws: Flaws) -> None:
        if rule.get("zero") and value == 0:
            return
        if most is not None and least is not None:
            if not least <= value <= most:
                flaws.invalid(place, value, f"must be between {least} and {most}, inclusive")
        elif least is not None and value < least:
            flaws.invalid(place, value, f"must be greater than or equal to {least}")
        elif above is not None and value <= above:
            flaws.invalid(place, value, f"must be greater than {above}")

    return _Shape(judge, partial(bound, 0))


def _int_or_string(number: _Shape, form: Format | None) -> _Shape:
    """A number, such as a port or a count, or a string, such as the name of a port or a percentage."""

    def judge(value: Any, place: Place, flaws: Flaws) -> None:
        if isinstance(value, str):
            if form is not None:
                flaws.misformed(form, place, value)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            flaws.mismatch(place, "number or string", value)
        else:
            number.judge(value, place, flaws)

    return _Shape(judge, number.absent)


def _quantity(least: int | None, value: Any, place: Place, flaws: Flaws) -> None:
    """An amount, such as 500m or 2Gi. least: how much it is at least."""
    if isinstance(value, str) and value.isdecimal():
        return
    amount = quantity_of(value)
    if amount is None:
        remedy = "write it like 500m, 2, 1.5Gi or 10G"
        if isinstance(value, str) and value[-1:] in ("B", "b") and quantity_of(value[:-1]) is not None:
            remedy = f"did you mean {value[:-1]}?"
        text = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        flaws.undecodable(place, text, remedy)
    elif least is not None and str(value).startswith("-"):
        flaws.invalid(place, str(amount), f"must be greater than or equal to {least}")


def _time(value: str, place: Place, flaws: Flaws) -> None:
    if value and not _is_time(value):
        problem = f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse'
        flaws.undecodable(place, problem, "write it like 2006-01-02T15:04:05Z")


def _bytes(value: str, place: Place, flaws: Flaws) -> None:
    if (at := no_base64(value)) is not None:
        flaws.undecodable(place, f"illegal base64 data at input byte {at}", "encode it, or write it in stringData")


def _list_of(item: _Shape) -> _Shape:
    def judge(value: Any, place: Place, flaws: Flaws) -> None:
        if not isinstance(value, list):
            flaws.mismatch(place, "list", value, "begin each item with a dash" if isinstance(value, dict) else "")
            return
        for index, entry in enumerate(value):
            if entry is not None and entry.__class__ is not item.plain:
                item.judge(entry, (place, index), flaws)

    return _Shape(judge)


def _map_of(below: _Shape, keys: Format | None) -> _Shape:
    def judge(value: Any, place: Place, flaws: Flaws) -> None:
        if not isinstance(value, dict):
            flaws.mismatch(place, "map", value)
            return
        for key, entry in value.items():
            if keys is not None:
                flaws.misformed(keys, (place, key), key)
            if entry is not None and entry.__class__ is not below.plain:
                below.judge(entry, (place, key), flaws)

    return _Shape(judge)


class _Struct(_Shape):
    """A map with the fields of a type.

    required: fields that must have a value, with what the API server says then. defaulted: those that are judged
    without one, too: as 0, as an empty text or, where Go has no pointer, as a map without fields. rule: notes what is
    wrong with the fields together.
    """

    def __init__(self, name: str) -> None:
        super().__init__(self._judge, partial(self._together, {}))
        self.fields: Mapping[str, _Shape] = {}
        self.required: tuple[tuple[str, str], ...] = ()
        self.defaulted: tuple[str, ...] = ()
        self.rule = rules.OF_TYPES.get(name.removeprefix("io.k8s.api."))

    def _judge(self, value: Any, place: Place, flaws: Flaws) -> None:
        if not isinstance(value, dict):
            flaws.mismatch(place, "map", value)
            return
        fields = self.fields
        for key, entry in value.items():
            shape = fields.get(key)
            if shape is None:
                flaws.unknown((place, key), fields)
            elif entry is not None and entry.__class__ is not shape.plain:
                shape.judge(entry, (place, key), flaws)
        if not flaws.decoding:
            self._together(value, place, flaws)

    def _together(self, value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
        for name, detail in self.required:
            if value.get(name) in _NOTHING:
                flaws.required((place, name), detail)
        for name in self.defaulted:
            if value.get(name) in _NOTHING:
                self.fields[name].absent((place, name), flaws)
        if self.rule is not None:
            self.rule(value, place, flaws)


_NOTHING: tuple[Any, ...] = (None, "", [])
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_NO_RULE: Mapping[str, Any] = {}


@cache
class _Shapes:
    """The forms of the types of a release by their names, each made on first use."""

    def __init__(self, release: Release) -> None:
        table = types_of(release)
        self.kinds, self._types = table.kinds, table.types
        # Of a beta nobody has asked the API server: it has the rules of the newest release.
        known = release if release.is_final else NEWEST
        file = resources.files("policies.schema").joinpath(f"fieldrules-{known.name}.json")
        self._rules: Mapping[str, Mapping[str, Mapping[str, Any]]] = json.decode(file.read_bytes())
        self._made: dict[str, _Struct] = {}
        self.metadata = self.struct(OBJECT_META)

    def struct(self, name: str) -> _Struct:
        """The form of a type. Raises KeyError if there is none of that name."""
        if name not in self._made:
            made = self._made[name] = _Struct(name)  # before its fields, which may have the same type
            own = self._rules.get(name, _NO_RULE)
            properties = self._types[name].get("properties", {})
            made.fields = {field: self._shape(below, own.get(field, _NO_RULE)) for field, below in properties.items()}
            made.required = tuple((field, rule["required"]) for field, rule in own.items() if "required" in rule)
            made.defaulted = tuple(
                field
                for field, below in properties.items()
                if "required" not in (rule := own.get(field, _NO_RULE))
                and (rule.get("absent") or (isinstance(made.fields[field], _Struct) and "omit" not in below))
            )
        return self._made[name]

    def is_object(self, name: str) -> bool:
        """Whether a type is that of objects that may be written, and not of answers only."""
        reference: object = self._types[name].get("properties", {}).get("metadata", {}).get("$ref")
        return reference == OBJECT_META

    def _shape(self, schema: OpenApi, rule: Mapping[str, Any]) -> _Shape:  # noqa: PLR0911 - one return per form
        form, below = FORMATS.get(rule.get("format", "")), schema.get("additionalProperties")
        if isinstance(below, dict):
            inner = {**rule, "format": rule.get("values", "")}
            return _map_of(self._shape(below, inner), FORMATS.get(rule.get("keys", "")))
        match schema.get("$ref") or schema.get("type"):
            case "array":
                return _list_of(self._shape(schema["items"], rule))
            case "string":
                return _string(_bytes) if schema.get("format") == "byte" else _text(tuple(rule.get("enum", ())), form)
            case "integer" | "number" as type_:
                return _number(schema.get("format") or type_, rule)
            case "boolean":
                return _Shape(_flag, plain=bool)
            case str(name) if name == QUANTITY:
                return _Shape(partial(_quantity, rule.get("minimum")))
            case str(name) if name in (TIME, MICRO_TIME):
                return _string(_time)
            case str(name) if name == _INT_OR_STRING:
                return _int_or_string(_number("int32", rule), form)
            case str(name) if name in (f"{_SCHEMA}OrArray", f"{_SCHEMA}OrBool"):
                struct = self.struct(_SCHEMA)
                return _Shape(lambda value, *at: struct.judge(value, *at) if isinstance(value, dict) else None)
            case str(name) if "properties" in self._types.get(name, ()):
                return self.struct(name)
            case _:  # types without fields: some have none at all, others an encoding of their own, such as any JSON
                return _Shape()


# Kinds of CustomResourceDefinitions ----------------------------------------------------------------------------------

_EMBEDDED = ("apiVersion", "kind", "metadata")
_ANYTHING: OpenApi = {"x-kubernetes-preserve-unknown-fields": True}
_FILLED_IN = re.compile(r"\bdefault(?:ed|s)\b", re.IGNORECASE)


def _removed(
    value: Any, schema: OpenApi, place: Place, flaws: Flaws, metadata: _Shape, *, embedded: bool = False
) -> None:
    """Note the fields that the API server would remove. embedded: whether the value is a whole object."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            _removed(item, _items(schema, _ANYTHING), (place, index), flaws, metadata)
    if not isinstance(value, dict):
        return
    embedded = embedded or schema.get("x-kubernetes-embedded-resource") is True
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, item in value.items():
        if embedded and key == "metadata":
            metadata.judge(item, (place, key), flaws)
        elif key in properties:
            _removed(item, properties[key] or {}, (place, key), flaws, metadata)
        elif isinstance(rest, dict):
            _removed(item, rest, (place, key), flaws, metadata)
        elif not (rest or schema.get("x-kubernetes-preserve-unknown-fields") or (embedded and key in _EMBEDDED)):
            flaws.unknown((place, key), properties)


def _items(schema: OpenApi, otherwise: OpenApi) -> OpenApi:
    items = schema.get("items")
    return items if isinstance(items, dict) else otherwise


def _kept(value: Any, schema: OpenApi, place: Place, flaws: Flaws) -> None:
    """Note what is wrong with a value that the API server keeps."""
    if value is None:
        return  # if it is not nullable it counts as missing
    expected, name = schema.get("type"), _type_name(value)
    if schema.get("x-kubernetes-int-or-string"):
        expected = None if isinstance(value, int | str) and name != "boolean" else "integer,string"
    elif name == expected or (expected == "number" and name in ("integer", "float64")) or expected not in _TYPES:
        expected = None
    if expected:
        flaws.invalid(place, name, f'{_body(place)} must be of type {expected}: "{name}"')
        return
    if schema.get("enum") and value not in schema["enum"]:
        flaws.unsupported(place, value, (v if isinstance(v, str) else quoted(v) for v in schema["enum"]))
    match value:
        case str():
            _kept_text(value, schema, place, flaws)
        case int() | float() if name != "boolean":
            _kept_number(value, schema, place, flaws)
        case list():
            _kept_list(value, schema, place, flaws)
        case dict():
            _kept_map(value, schema, place, flaws)
        case _:
            pass
    _combined(value, schema, place, flaws)


_TYPES = ("string", "integer", "number", "boolean", "array", "object")


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "float64"
    return {str: "string", int: "integer", list: "array", dict: "object"}.get(type(value), "null")


def _body(place: Place) -> str:
    return f"{render(location(place))} in body"


def _kept_text(value: str, schema: OpenApi, place: Place, flaws: Flaws) -> None:
    if (least := schema.get("minLength")) is not None and len(value) < least:
        flaws.invalid(place, value, f"{_body(place)} should be at least {least} chars long")
    if (most := schema.get("maxLength")) is not None and len(value) > most:
        flaws.too_long(place, most)
    if pattern := schema.get("pattern"):
        try:
            is_match = compile_pattern(pattern).matches(value)
        except CelError:  # a pattern that is none matches all
            is_match = True
        if not is_match:
            flaws.invalid(place, value, f"{_body(place)} should match '{pattern}'")
    if schema.get("format") == "date-time" and not _is_time(value):
        flaws.invalid(place, value, f"{_body(place)} must be of type date-time: {quoted(value)}")


def _kept_number(value: float, schema: OpenApi, place: Place, flaws: Flaws) -> None:
    if schema.get("format") == "int32" and not -(2**31) <= value < 2**31:
        text = f"Checked value must be of type integer with format int32 in {render(location(place))}"
        flaws.invalid(place, value, text)
    for name, beyond, word in (("Minimum", lt, "greater"), ("Maximum", gt, "less")):
        bound, is_outside = schema.get(name.lower()), schema.get(f"exclusive{name}")
        if bound is not None and (beyond(value, bound) or (value == bound and is_outside)):
            than = "than" if is_outside else "than or equal to"
            flaws.invalid(place, value, f"{_body(place)} should be {word} {than} {bound}")
    if (factor := schema.get("multipleOf")) and (value / factor) % 1:
        flaws.invalid(place, value, f"{_body(place)} should be a multiple of {factor}")


def _sized(count: int, noun: str, schema: OpenApi, place: Place, flaws: Flaws) -> None:
    least, most = (schema.get(f"{end}{noun.capitalize()}") for end in ("min", "max"))
    if least is not None and count < least:
        flaws.invalid(place, count, f"{_body(place)} should have at least {least} {noun}")
    if most is not None and count > most:
        flaws.too_many(place, count, most)


def _kept_list(value: list[Any], schema: OpenApi, place: Place, flaws: Flaws) -> None:
    _sized(len(value), "items", schema, place, flaws)
    items = _items(schema, {})
    for index, item in enumerate(value):
        if item is None and not items.get("nullable") and (expected := items.get("type")):
            flaws.invalid((place, index), "null", f'{_body((place, index))} must be of type {expected}: "null"')
        _kept(item, items, (place, index), flaws)
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    known: list[Any] = []
    for index, item in enumerate(value if kind in ("set", "map") else ()):
        identity = {key: item.get(key) for key in keys} if kind == "map" and isinstance(item, dict) else item
        if identity in known:
            flaws.duplicate((place, index), identity)
        known.append(identity)


def _kept_map(value: Mapping[str, Any], schema: OpenApi, place: Place, flaws: Flaws) -> None:
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in schema.get("required") or ():
        own = properties.get(name) or {}
        if value.get(name) is None and not (own.get("nullable") and name in value) and own.get("default") is None:
            # A mutating webhook of the kind's own may fill it in, which only the field's description tells.
            flaws.required((place, name), warns=_FILLED_IN.search(str(own.get("description"))) is not None)
    _sized(len(value), "properties", schema, place, flaws)
    for key, item in value.items():
        below = properties.get(key, rest)
        if isinstance(below, dict) and not (place is None and key == "metadata"):
            _kept(item, below, (place, key), flaws)


def _combined(value: Any, schema: OpenApi, place: Place, flaws: Flaws) -> None:
    """Note what does not hold of what must hold of all, of some, of one or of none of several schemas."""

    def fits(part: OpenApi) -> bool:
        own = Flaws()
        _kept(value, part, place, own)
        return not own.all

    path = render(location(place))
    for part in filter(None, schema.get("allOf") or ()):
        _kept(value, part, place, flaws)
    some, one, none = schema.get("anyOf"), schema.get("oneOf"), schema.get("not")
    if some and not schema.get("x-kubernetes-int-or-string") and not any(fits(part or {}) for part in some):
        flaws.invalid(place, "", f'"{path}" must validate at least one schema (anyOf)')
    if one and (count := sum(fits(part or {}) for part in one)) != 1:
        number = "none valid" if not count else f"{count} valid alternatives"
        flaws.invalid(place, "", f'"{path}" must validate one and only one schema (oneOf). Found {number}')
    if none and fits(none):
        flaws.invalid(place, "", f'"{path}" must not validate the schema (not)')


# All kinds -----------------------------------------------------------------------------------------------------------

_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
_NAMELESS = "Review"
"""The end of kinds that ask something and are not stored, so that they have no name."""

_GIVE_IT = "give its CustomResourceDefinition: among the files, with --crds, or from a cluster with --kubeconfig"


class Schemas:
    """The kinds of an API server: those of a release, and those that CustomResourceDefinitions add."""

    def __init__(self, release: Release = NEWEST, definitions: Iterable[Mapping[str, Any]] = ()) -> None:
        self._shapes = _Shapes(release)
        self._custom: dict[GroupVersionKind, OpenApi | None] = {}  # each version that is served, with its schema
        for definition in definitions:
            flaws = Flaws()
            self._shapes.struct(_DEFINITION).judge(definition, None, flaws)
            spec = mapping(definition, "spec")
            for version in () if flaws.decoding else spec.get("versions") or ():  # flaws are said of the definition
                if isinstance(version, dict) and version.get("served", True):
                    name = str(mapping(spec, "names").get("kind", ""))
                    kind = GroupVersionKind(str(spec.get("group")), str(version.get("name")), name)
                    self._custom[kind] = mapping(version, "schema").get("openAPIV3Schema")
        kinds = ((GroupVersionKind(*kind.split("/", 2)), name) for kind, name in self._shapes.kinds.items())
        self._built_in = {kind: name for kind, name in kinds if self._shapes.is_object(name)}

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
            served = [one.kind for one in served_resources() if one.kind.group_kind == kind.group_kind]
            if ("alpha" in kind.version or "beta" in kind.version) and kind not in served:
                latest = f"write {_api_version(served[-1])}" if served else ""
                remedy = latest or "enable it with --runtime-config of kube-apiserver"
                text = (
                    f"{_api_version(kind)} is not served by default, so that there are no matches for kind {kind.kind}"
                )
                flaws.values.append(Flaw(("apiVersion",), text, remedy, "warning"))
        elif (schema := self._custom.get(kind)) is not None:
            _removed(obj, schema, None, flaws, self._shapes.metadata, embedded=True)
            if not flaws.decoding:
                _kept(obj, schema, None, flaws)
        elif kind not in self._custom:
            flaws.decoding.append(self._unknown(kind))
        if not flaws.decoding and not kind.kind.endswith(_NAMELESS):
            rules.judge_metadata(obj, kind.group, kind.kind, flaws)
        return flaws

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
        # A built-in kind of this name in another group, if the group was forgotten or has almost this name.
        others = {other.group: other for other in self._built_in if other.kind == kind.kind}
        elsewhere = others.get(closest(kind.group, others)) if "." in kind.group else next(iter(others.values()), None)
        if elsewhere:
            return elsewhere
        is_any = not kind.group or not (beside or "." in kind.group)
        for known in (beside, list(self._built_in) if is_any else []):
            if name := closest(kind.kind, [other.kind for other in known]):
                return next(other for other in known if other.kind == name)
        return None


def _api_version(kind: GroupVersionKind) -> str:
    return f"{kind.group}/{kind.version}".lstrip("/")
