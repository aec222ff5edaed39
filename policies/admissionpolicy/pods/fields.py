"""The fields of a Pod as Kubernetes' own types have them, and an object written as those types would write it.

A Pod that a controller creates from a template has been through those types: zero values are gone where they mean
nothing, quantities are written in their canonical form, some fields are always there. A template in a custom resource
has not been. The table is `podfields.json` beside this module, taken from k8s.io/api/core/v1/types.go v0.36.3 and
compared with the API server in tests/cluster/test_pod_defaults.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

from msgspec import Struct, json

from policies.cel.errors import CelError
from policies.cel.library.kubernetes import quantity
from policies.cel.library.kubernetes.amount import Large, round_up
from policies.engine.request import JsonObject

_MILLI = 3  # no finer unit than a thousandth is kept (SetDefaults_ResourceList)


class PodType(Struct, frozen=True):
    """The fields of a type. Pointers to plain values, and texts of no interest, are not named: they stay as they are.

    omitted: left out where they have their zero value. always: written, with this value where there is none.
    types: those of the fields that need a look inside; `[` is a list of a type, `{` a map of it.
    """

    omitted: frozenset[str] = frozenset()
    always: Mapping[str, Any] = {}
    types: Mapping[str, str] = {}


TYPES: Mapping[str, PodType] = json.decode(
    resources.files("policies.admissionpolicy.pods").joinpath("fields.json").read_bytes(), type=dict[str, PodType]
)


def written(value: Any, type_: str) -> Any:
    """A value as the type would write it; the value itself is not changed, and what is not of the type stays."""
    if type_ == "Quantity":
        return canonical(value)
    if type_.startswith("["):
        return [written(item, type_[1:]) for item in value] if isinstance(value, list) else value
    if type_.startswith("{"):
        return _resource_list(value) if isinstance(value, dict) else value
    return _struct(value, TYPES[type_]) if isinstance(value, dict) else value


def _struct(value: JsonObject, fields: PodType) -> JsonObject:
    result = {
        name: written(child, fields.types[name]) if name in fields.types else child
        for name, child in value.items()
        if child is not None and (child or name not in fields.omitted)
    }
    for name, zero in fields.always.items():
        if name not in result:
            result[name] = written(dict(zero), fields.types[name]) if isinstance(zero, dict) else zero
    return result


def _resource_list(value: JsonObject) -> JsonObject:
    return {name: canonical("0" if amount is None else amount, _MILLI) for name, amount in value.items()}


def canonical(value: Any, places: int | None = None) -> Any:
    """A quantity as Kubernetes writes it, rounded up to so many places; any other value stays as it is."""
    read = quantity_of(value)
    if read is None:
        return value
    if places is not None and (rounded := round_up(read.amount.decimal, places)) != read.amount.decimal:
        read = quantity.Quantity(Large(rounded, places), read.form)
    return str(read)


def quantity_of(value: Any) -> quantity.Quantity | None:
    """The quantity that a text or a number stands for, or None."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        return quantity.read(str(value))
    except CelError:
        return None
