"""ConfigMaps, Secrets and roles. Source: pkg/apis/{core,rbac}/validation in k8s.io/kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.engine.request import mapping
from policies.schema.flaw import Flaws, Place, below
from policies.schema.formats import config_key
from policies.schema.rules.values import maps

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
"""The keys that Secrets of a type have."""
_ACCOUNT = "kubernetes.io/service-account.name"


def config_map(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Keys have the form of file names, and none is in both maps."""
    binary = mapping(value, "binaryData")
    _keys(value, "binaryData", place, flaws)
    _keys(value, "data", place, flaws)
    for key in mapping(value, "data"):
        if key in binary:
            flaws.invalid(below(place, "data", key), key, "duplicate of key present in binaryData")


def secret(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """Keys have the form of file names, and those of its type are there."""
    _keys(value, "data", place, flaws)
    keys = {**mapping(value, "data"), **mapping(value, "stringData")}
    for key in mapping(value, "stringData"):
        for problem in config_key(key):
            flaws.invalid(below(place, "data", key), key, problem)
    type_ = value.get("type")
    for key in _NEEDED.get(type_ or "", ()):
        if key not in keys:
            flaws.required(below(place, "data", key))
    if type_ == "kubernetes.io/basic-auth" and not {"username", "password"} & keys.keys():
        for key in ("username", "password"):
            flaws.required(below(place, "data", key))
    if type_ == "kubernetes.io/service-account-token":
        annotations = mapping(mapping(value, "metadata"), "annotations")
        if not annotations.get(_ACCOUNT):
            flaws.required(below(place, "metadata", "annotations", _ACCOUNT))


def _keys(value: Mapping[str, Any], field: str, place: Place, flaws: Flaws) -> None:
    for key in mapping(value, field):
        for problem in config_key(key):
            flaws.invalid(below(place, field, key), key, problem)


def role_rule(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A rule is about resources or about URLs."""
    if value.get("nonResourceURLs"):
        if any(value.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            flaws.invalid((place, "nonResourceURLs"), value["nonResourceURLs"], text)
        return
    for name, noun in (("apiGroups", "api group"), ("resources", "resource")):
        if not value.get(name):
            flaws.required((place, name), f"resource rules must supply at least one {noun}")


def cluster_binding(value: Mapping[str, Any], place: Place, flaws: Flaws) -> None:
    """A service account in a binding for the cluster has a Namespace; in others it is that of the binding."""
    for index, subject in maps(value, "subjects"):
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
            flaws.required(below(place, "subjects", index, "namespace"))
