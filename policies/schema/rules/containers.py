"""Containers, their environment, ports, probes and resources.

Source: validateContainerCommon in pkg/apis/core/validation of k8s.io/kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.admissionpolicy.builtin.quantities import quantity_of
from policies.engine.request import mapping
from policies.schema.flaw import Flaws, Place, below
from policies.schema.rules.values import maps, unique

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
_PROBES = ("livenessProbe", "startupProbe")


def container(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Names of ports are unique, and probes that must succeed once do."""
    ports = maps(value, "ports")
    unique(((below(place, "ports", index, "name"), port.get("name")) for index, port in ports), flaws)
    for name in _PROBES:
        successes = mapping(value, name).get("successThreshold")
        if successes not in (None, 0, 1):
            flaws.invalid(below(place, name, "successThreshold"), successes, "must be 1")


def variable(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A variable has a value or one source."""
    source = value.get("valueFrom")
    name = value.get("name")
    if name and "=" in name:
        flaws.invalid(
            (place, "name"),
            name,
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        )
    if source is None:
        return
    count = sum(source.get(name) is not None for name in _SOURCES)
    if not count:
        flaws.invalid((place, "valueFrom"), "", _ONE_SOURCE)
    elif value.get("value"):
        flaws.invalid((place, "valueFrom"), "", "may not be specified when `value` is not empty")
    elif count > 1:
        flaws.invalid((place, "valueFrom"), "", "may not have more than one field specified at a time")


def handler(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A probe or hook does one thing."""
    given = [name for name in _HANDLERS if value.get(name) is not None]
    if not given:
        flaws.required(place, "must specify a handler type")
    for name in given[1:]:
        flaws.forbidden((place, name), "may not specify more than 1 handler type")


def resources(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Nothing requests more than its limit, and what cannot be shared has equal limits."""
    limits = mapping(value, "limits")
    for name, request in mapping(value, "requests").items():
        limit = limits.get(name)
        shared = name in _OVERCOMMITTED or "/" not in name or name.startswith("kubernetes.io/")
        if limit is None:
            if not shared:
                flaws.required((place, "limits"), "Limit must be set for non overcommitable resources")
            continue
        asked, allowed = quantity_of(request), quantity_of(limit)
        if asked is None or allowed is None or request == limit:
            continue
        if not shared and asked.amount.decimal != allowed.amount.decimal:
            flaws.invalid((place, "requests"), str(asked), f"must be equal to {name} limit of {allowed}")
        elif asked.amount.decimal > allowed.amount.decimal:
            flaws.invalid((place, "requests"), str(asked), f"must be less than or equal to {name} limit of {allowed}")
