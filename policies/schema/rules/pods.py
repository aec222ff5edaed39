"""Pods and their templates. Source: ValidatePodSpec in pkg/apis/core/validation of k8s.io/kubernetes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from policies.engine.request import mapping
from policies.kubernetes.label import label_value
from policies.schema import metadata
from policies.schema.flaw import Flaws, Place, below
from policies.schema.rules.values import maps, unique

_CONTAINERS = ("containers", "initContainers")
_EMPTY_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def template(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """The labels and annotations of a template are those of Pods."""
    metadata.of_labels(mapping(value, "metadata"), (place, "metadata"), flaws)
    metadata.of_annotations(mapping(value, "metadata"), (place, "metadata"), flaws)


def pod(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Names of containers and volumes are unique, what is mounted is there, and ports of the host are free."""
    for fields in (_CONTAINERS, ("volumes",)):
        named = ((field, index, item) for field in fields for index, item in maps(value, field))
        unique(((below(place, field, index, "name"), item.get("name")) for field, index, item in named), flaws)
    volumes = {volume.get("name") for _, volume in maps(value, "volumes")}
    for field in _CONTAINERS:
        for index, container in maps(value, field):
            _mounts(container, below(place, field, index), volumes, flaws)
    if value.get("hostNetwork"):
        _host_ports(value, place, flaws)
    else:
        _host_conflicts(value, place, flaws)


def _mounts(container: Mapping[str, Any], place: Place, volumes: Collection[Any], flaws: Flaws) -> None:
    for field in ("volumeMounts", "volumeDevices"):
        for index, mount in maps(container, field):
            if (name := mount.get("name")) and name not in volumes:
                flaws.missing(below(place, field, index, "name"), name, filter(None, volumes))
    paths = set()
    for index, mount in maps(container, "volumeMounts"):
        if (path := mount.get("mountPath")) in paths:
            flaws.invalid(below(place, "volumeMounts", index, "mountPath"), path, "must be unique")
        elif path:
            paths.add(path)


def _host_ports(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    for index, container in maps(value, "containers"):
        for number, port in maps(container, "ports"):
            host = port.get("hostPort")
            if host and host != port.get("containerPort"):
                at = below(place, "containers", index, "ports", number, "hostPort")
                flaws.invalid(at, host, "must match `containerPort` when `hostNetwork` is true")


def _host_conflicts(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    known = set()
    for index, container in maps(value, "containers"):
        for number, port in maps(container, "ports"):
            if not (host := port.get("hostPort")):
                continue
            key = port.get("protocol") or "TCP", port.get("hostIP") or "", host
            if key in known:
                at = below(place, "containers", index, "ports", number, "hostPort")
                flaws.duplicate(at, "/".join(map(str, key)))
            known.add(key)


def toleration(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A toleration's operator goes with its key and value, and its seconds with its effect."""
    operator, text = value.get("operator") or "", value.get("value") or ""
    if not value.get("key") and operator != "Exists":
        flaws.invalid((place, "operator"), operator, _EMPTY_KEY)
    if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
        flaws.invalid(
            (place, "effect"), value.get("effect") or "", "effect must be 'NoExecute' when `tolerationSeconds` is set"
        )
    if operator in ("Equal", "") and (wrong := label_value(text)):
        flaws.invalid((place, "operator"), text, ";".join(wrong))
    elif operator == "Exists" and text:
        flaws.invalid((place, "operator"), text, "value must be empty when `operator` is 'Exists'")
    elif operator not in ("Equal", "", "Exists", "Lt", "Gt"):
        flaws.unsupported((place, "operator"), operator, ("Equal", "Exists"))


def spread(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A spread says by how much domains may differ."""
    if (skew := value.get("maxSkew") or 0) <= 0:
        flaws.invalid((place, "maxSkew"), skew, "must be greater than zero")
    if value.get("minDomains") is not None and value.get("whenUnsatisfiable") == "ScheduleAnyway":
        text = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
        flaws.invalid((place, "minDomains"), value["minDomains"], text)
