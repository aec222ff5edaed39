"""The structure of kinds for merging: scalars, maps whose entries merge, lists that are replaced as a whole, and so on.

OpenAPI v3 schemas are converted as the API server does for server-side apply (kube-openapi's pkg/schemaconv). The
schemas of built-in kinds are those of `builtin/table.py`; that of a custom resource is the openAPIV3Schema of its CRD.
Schemas contain cycles, so they are converted on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from policies.admissionpolicy.builtin.table import OBJECT_META, QUANTITY, RAW_EXTENSION, OpenApi, types_of
from policies.cached import cached_property
from policies.engine.request import GroupVersionKind
from policies.kubernetes.release import NEWEST, Release

Relation = Literal["atomic", "set", "map"]
ScalarType = Literal["string", "boolean", "numeric", "untyped"]


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A single value. `form` is the schema's format, if it has one: int32, int64, double, byte, date-time, ..."""

    type: ScalarType
    form: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class MapType:
    """A map with named fields; `element` is for all other keys, if allowed. An atomic map is replaced as a whole.

    defaults: of the fields that have one. A key field of a list's item may be omitted if it has a default. omissions:
    of the fields of a Go type, when its encoding leaves them out (`omit` in builtin/table.py); None for other maps.
    written: those of them that it never leaves out.
    """

    fields: Mapping[str, SchemaNode]
    element: SchemaNode | None
    atomic: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    omissions: Mapping[str, str] | None = None
    written: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ListType:
    """A list that is replaced as a whole (atomic), has unique items (set), or merges items by their keys (map)."""

    element: SchemaNode
    relation: Relation = "atomic"
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """The forms that a value may have; several if the schema is not specific. `name`: of the definition, if any."""

    scalar: Scalar | None = None
    list: ListType | None = None
    map: MapType | None = None
    name: str = ""


class SchemaNode:
    """The schema of a place, converted on first use."""

    def __init__(self, convert: Callable[[], Atom]) -> None:
        self._convert = convert

    @cached_property
    def atom(self) -> Atom:
        """The forms that a value here may have."""
        return self._convert()

    @cached_property
    def is_text(self) -> bool:
        """Whether only a string may stand here, of any form."""
        atom = self.atom
        return (
            (atom.map, atom.list) == (None, None)
            and atom.scalar is not None
            and (atom.scalar.type, atom.scalar.form) == ("string", "")
        )

    def child(self, key: str) -> SchemaNode | None:
        """The place at a key of the map here; None if the schema has no such key."""
        if self.atom.map is None:
            return None
        return self.atom.map.fields.get(key, self.atom.map.element)

    @property
    def item(self) -> SchemaNode | None:
        """The place of each item of the list here; None if there is no list."""
        return None if self.atom.list is None else self.atom.list.element


_ANY = Scalar("untyped")
_UNTYPED: SchemaNode = SchemaNode(lambda: Atom(_ANY, ListType(_UNTYPED), MapType({}, _UNTYPED, atomic=True)))
DEDUCED: SchemaNode = SchemaNode(lambda: Atom(_ANY, ListType(_UNTYPED), MapType({}, DEDUCED)))
"""The schema for values without one: maps merge, lists are replaced."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The schema of a kind.

    typed: whether the API server decodes it into a Go type, which drops null and refuses unknown fields. release: the
    one that the schema of a built-in kind is of.
    """

    root: SchemaNode
    kind: GroupVersionKind
    typed: bool
    release: Release = NEWEST

    def place(self, path: Iterable[str | int]) -> SchemaNode | None:
        """The place at a path of keys and indexes; None if the schema has none."""
        node: SchemaNode | None = self.root
        for step in path:
            if node is None:
                return None
            node = node.child(step) if isinstance(step, str) else node.item
        return node


class Definitions:
    """The schemas of an OpenAPI v3 document (`components.schemas`) by name: those of Go types, with `omit`."""

    def __init__(self, schemas: Mapping[str, OpenApi]) -> None:
        self._schemas = schemas
        self._cache: dict[str, SchemaNode] = {}

    def node(self, name: str) -> SchemaNode:
        """The definition with a name. If it does not exist, the node's `atom` raises KeyError."""
        if name not in self._cache:
            self._cache[name] = SchemaNode(lambda: self._definition(name))
        return self._cache[name]

    def inline(self, schema: OpenApi, *, preserve: bool = False) -> SchemaNode:
        """A schema inside another one, or a reference. `preserve`: whether the outer schema allows unknown fields."""
        reference = schema.get("$ref", "")
        if not reference and len(schema.get("allOf") or ()) == 1:
            reference = schema["allOf"][0].get("$ref", "")
        if not reference:
            return SchemaNode(lambda: self._convert(schema, preserve=preserve))
        node = self.node(reference.rpartition("/")[2])
        relation = schema.get("x-kubernetes-map-type")
        if not relation:
            return node

        def related() -> Atom:
            atom = node.atom
            return atom if atom.map is None else replace(atom, map=replace(atom.map, atomic=relation == "atomic"))

        return SchemaNode(related)

    def _definition(self, name: str) -> Atom:
        schema = self._schemas[name]
        if name == QUANTITY:
            return Atom(Scalar("untyped", "quantity"), name=name)
        atom = replace(_UNTYPED.atom if name == RAW_EXTENSION else self._convert(schema, preserve=False), name=name)
        properties = schema.get("properties") or {}
        if atom.map is None or not properties:
            return atom
        omissions = {field: below.get("omit", "") for field, below in properties.items()}
        written = tuple(name for name, omission in omissions.items() if omission in {"", "written-null"})
        return replace(atom, map=replace(atom.map, omissions=omissions, written=written))

    def _convert(self, schema: OpenApi, *, preserve: bool) -> Atom:
        preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
        name = schema.get("type") or ""
        match name if isinstance(name, str) else str(name[0]):
            case "object":
                return Atom(map=self._map(schema, preserve=preserve))
            case "array":
                return Atom(list=self._list(schema, preserve=preserve))
            case "integer" | "number" as name:
                return Atom(Scalar("numeric", schema.get("format", name)))
            case "boolean":
                return Atom(Scalar("boolean"))
            case "string":
                form = schema.get("format", "")
                return Atom(Scalar("string" if form in {"", "byte"} else "untyped", form))
            case _:
                scalar = Scalar("untyped", schema.get("format", ""))
                return Atom(scalar, self._list(schema, preserve=preserve), self._map(schema, preserve=preserve))

    def _map(self, schema: OpenApi, *, preserve: bool) -> MapType:
        properties = schema.get("properties") or {}
        fields = {name: self.inline(field, preserve=preserve) for name, field in properties.items()}
        defaults = {name: field["default"] for name, field in properties.items() if field.get("default") is not None}
        rest = schema.get("additionalProperties")
        if rest is None:
            element = DEDUCED if preserve or not properties else None
        elif isinstance(rest, bool):
            element = DEDUCED if rest else None
        else:
            element = self.inline(rest, preserve=preserve)
        return MapType(fields, element, schema.get("x-kubernetes-map-type") == "atomic", defaults)

    def _list(self, schema: OpenApi, *, preserve: bool) -> ListType:
        items = schema.get("items")
        element = _UNTYPED if items is None else self.inline(items, preserve=preserve)
        match schema.get("x-kubernetes-list-type"):  # without it, the older patch strategy says how items merge
            case "set":
                return ListType(element, "set")
            case "map":
                return ListType(element, "map", tuple(schema.get("x-kubernetes-list-map-keys") or ()))
            case None if schema.get("x-kubernetes-patch-strategy") in {"merge", "merge,retainKeys"}:
                key = schema.get("x-kubernetes-patch-merge-key")
                return ListType(element, "set") if key is None else ListType(element, "map", (key,))
            case _:
                return ListType(element)


def built_in(kind: GroupVersionKind, release: Release = NEWEST) -> Schema | None:
    """The schema of a built-in kind; None for another, such as a custom resource."""
    name = types_of(release).kinds.get(f"{kind.group}/{kind.version}/{kind.kind}")
    return None if name is None else Schema(_definitions(release).node(name), kind, typed=True, release=release)


def known(kind: GroupVersionKind, release: Release = NEWEST) -> Schema:
    """The schema of a built-in kind, or a generic one."""
    return built_in(kind, release) or unknown(kind)


def open_api(kind: GroupVersionKind, release: Release = NEWEST) -> OpenApi | None:
    """The OpenAPI schema of a built-in kind, with references by name (see `definition`); None for other kinds."""
    name = types_of(release).kinds.get(f"{kind.group}/{kind.version}/{kind.kind}")
    return None if name is None else {"$ref": name}


def definition(name: str, release: Release = NEWEST) -> OpenApi:
    """The OpenAPI schema that a reference of the built-in kinds names. Raises KeyError."""
    return types_of(release).types[name]


def open_api_of_custom_resource(schema: OpenApi) -> OpenApi:
    """The openAPIV3Schema of a CRD's version, with the fields that the API server adds."""
    whole = _with_embedded(schema)
    return {**whole, "properties": {**whole.get("properties", {}), **_EMBEDDED}}


def of_custom_resource(kind: GroupVersionKind, schema: OpenApi | None) -> Schema:
    """The schema of a custom resource, from the openAPIV3Schema of its version in the CRD; None if it has none."""
    if schema is None:
        return unknown(kind)
    return Schema(_definitions(NEWEST).inline(open_api_of_custom_resource(schema)), kind, typed=False)


def unknown(kind: GroupVersionKind) -> Schema:
    """The schema of an unknown custom resource: maps merge, lists are replaced."""
    return Schema(DEDUCED, kind, typed=False)


_EMBEDDED: Mapping[str, Any] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": OBJECT_META},
}


def _with_embedded(schema: OpenApi) -> dict[str, Any]:
    """A CRD's schema with the fields of every embedded resource, as the API server publishes it."""
    whole = dict(schema)
    if "properties" in whole:
        whole["properties"] = {name: _with_embedded(field) for name, field in whole["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(whole.get(key), dict):
            whole[key] = _with_embedded(whole[key])
    if whole.get("x-kubernetes-embedded-resource") is True:
        whole["properties"] = {**whole.get("properties", {}), **_EMBEDDED}
    return whole


@cache
def _definitions(release: Release) -> Definitions:
    return Definitions(types_of(release).types)
