"""Volumes and claims. Source: validateVolumeSource and ValidatePersistentVolumeClaimSpec in k8s.io/kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.engine.request import mapping
from policies.schema.flaw import Flaws, Place, below


def volume(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A volume is of one type; of none it is an empty directory."""
    given = [name for name, source in value.items() if name != "name" and source is not None]
    for name in given[1:]:
        flaws.forbidden((place, name), "may not specify more than 1 volume type")


def claim(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A claim says how much it wants."""
    requests = mapping(mapping(value, "resources"), "requests")
    if requests.get("storage") is None:
        flaws.required(below(place, "resources", "storage"), "", "write resources.requests.storage")
