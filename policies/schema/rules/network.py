"""Services and Ingresses. Source: pkg/apis/{core,networking}/validation in k8s.io/kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.engine.request import mapping
from policies.kubernetes.name import dns_label, dns_subdomain
from policies.schema.flaw import Flaws, Place, below
from policies.schema.formats import port_name
from policies.schema.rules.values import items, maps, unique

_CLUSTER_IP, _EXTERNAL_NAME = "ClusterIP", "ExternalName"


def service(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A Service has ports, with names where there are several, or is the name of something outside."""
    type_, ports = value.get("type") or _CLUSTER_IP, items(value, "ports")
    if not ports and value.get("clusterIP") != "None" and type_ != _EXTERNAL_NAME:
        flaws.required((place, "ports"))
    if type_ == _EXTERNAL_NAME:
        _external(value, place, flaws)
    numbered = maps(value, "ports")
    unique(((below(place, "ports", index, "name"), port.get("name")) for index, port in numbered), flaws)
    known = set()
    for index, port in maps(value, "ports"):
        if len(ports) > 1 and not port.get("name"):
            flaws.required(below(place, "ports", index, "name"), "", "ports need names where there are several")
        if type_ == _CLUSTER_IP and port.get("nodePort"):
            flaws.forbidden(below(place, "ports", index, "nodePort"), "may not be used when `type` is 'ClusterIP'")
        key = port.get("protocol") or "TCP", port.get("port")
        if key in known:
            flaws.duplicate(below(place, "ports", index), f"{key[0]}/{key[1]}")
        known.add(key)


def _external(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    name = (value.get("externalName") or "").removesuffix(".")
    if not name:
        flaws.required((place, "externalName"))
    for problem in dns_subdomain(name) if name else ():
        flaws.invalid((place, "externalName"), name, problem)


def path(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A path of an Ingress says how it is compared, and begins at the root."""
    type_, text = value.get("pathType"), value.get("path") or ""
    if type_ is None:
        flaws.required((place, "pathType"), "pathType must be specified", "write pathType: Prefix or Exact")
    elif not text.startswith("/") and (text or type_ in ("Exact", "Prefix")):
        flaws.invalid((place, "path"), text, "must be an absolute path")


def backend(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A backend is a Service with one port, or another resource."""
    service, resource = value.get("service"), value.get("resource")
    if service is not None and resource is not None:
        flaws.invalid(place, "", "cannot set both resource and service backends")
    elif service is not None:
        _service(service, place, flaws)
    elif resource is None:
        flaws.invalid(place, "", "resource or service backend is required")


def _service(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    at, port = (place, "service"), mapping(value, "port")
    name, number = port.get("name"), port.get("number")
    for problem in dns_label(value["name"]) if value.get("name") else ():
        flaws.invalid((at, "name"), value["name"], problem)
    if name and number:
        flaws.invalid(place, "", "cannot set both port name & port number")
    elif not name and not number:
        flaws.required(place, "port name or number is required")
    for problem in port_name(name) if name else ():
        flaws.invalid(below(at, "port", "name"), name, problem)
