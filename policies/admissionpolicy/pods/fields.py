"""The fields of a Pod in Kubernetes' Go types, and the encoding of objects by these types.

A Pod that a controller creates from a template was encoded from these types: some zero values are omitted, quantities
are canonical, some fields are always present. This is not so for a template in a custom resource. The table is
`podfields.json` beside this module, from k8s.io/api/core/v1/types.go v0.36.3; tests/cluster/test_pod_defaults.py
compares it with the API server.
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

_MILLI = 3  # quantities are rounded to a thousandth (SetDefaults_ResourceList)


class PodType(Struct, frozen=True):
    """The fields of a type whose encoding may differ. Other fields, such as pointers to plain values, stay as they are.

    omitted: fields that are omitted if they have their zero value. always: fields that are always written, with this
    value if they have none. types: the types of structured fields; `[` is a list of a type, `{` a map of it.
    """

    omitted: frozenset[str] = frozenset()
    always: Mapping[str, Any] = {}
    types: Mapping[str, str] = {}


TYPES: Mapping[str, PodType] = json.decode(
    resources.files("policies.admissionpolicy.pods").joinpath("fields.json").read_bytes(), type=dict[str, PodType]
)


def written(value: Any, type_: str) -> Any:
    """A copy of a value as its type encodes it. Parts that are not of the type stay as they are."""
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
    """A quantity as Kubernetes writes it, rounded up to this many decimal places; any other value unchanged."""
    read = quantity_of(value)
    if read is None:
        return value
    if places is not None and (rounded := round_up(read.amount.decimal, places)) != read.amount.decimal:
        read = quantity.Quantity(Large(rounded, places), read.form)
    return str(read)


def quantity_of(value: Any) -> quantity.Quantity | None:
    """The quantity in a string or number, or None."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        return quantity.read(str(value))
    except CelError:
        return None
