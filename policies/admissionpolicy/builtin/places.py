"""The places below a type of the table where something is filled in, as patterns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policies.admissionpolicy.builtin.defaults import of_type
from policies.admissionpolicy.builtin.table import QUANTITY, OpenApi, types_of
from policies.kubernetes.release import NEWEST, Release
from policies.objects.fieldpath import Pattern, Wildcard

_INSIDE = {"items": Wildcard.ITEMS, "additionalProperties": Wildcard.VALUES}


def defaults(name: str, release: Release = NEWEST) -> Iterator[tuple[Pattern, Any]]:
    """The places with a constant default, and their defaults."""
    for place, type_ in structs(name, release):
        yield from (((*place, *default.path), default.value) for default in of_type(type_, release).constants)


def written(name: str, release: Release = NEWEST) -> Iterator[Pattern]:
    """The places of maps that are always written."""
    known = types_of(release).types
    for place, type_ in structs(name, release):
        for field, schema in known[type_].get("properties", {}).items():
            if "$ref" in schema and "omit" not in schema and "properties" in known[schema["$ref"]]:
                yield (*place, field)


def quantities(name: str, release: Release = NEWEST) -> Iterator[Pattern]:
    """The places of quantities, and of the maps of quantities with a wildcard behind them."""
    known = types_of(release).types
    for place, type_ in structs(name, release):
        for step, reference in _references(known[type_]):
            if reference == QUANTITY:
                yield (*place, *step)


def structs(name: str, release: Release = NEWEST, place: Pattern = ()) -> Iterator[tuple[Pattern, str]]:
    """The places of the type itself and of all structs below it, with the names of their types."""
    known = types_of(release).types
    yield place, name
    for step, reference in _references(known[name]):
        if "properties" in known[reference]:
            yield from structs(reference, release, (*place, *step))


def _references(definition: OpenApi) -> Iterator[tuple[Pattern, str]]:
    """The types that a definition refers to, each with the steps to it."""
    for field, schema in definition.get("properties", {}).items():
        if "$ref" in schema:
            yield (field,), schema["$ref"]
        for key, wildcard in _INSIDE.items():
            inner = schema.get(key)
            if isinstance(inner, dict) and "$ref" in inner:
                yield (field, wildcard), inner["$ref"]
