"""Objects that the tests apply: small, complete, in the Namespace of the test."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.manifests import Manifest

POD_SPEC: Manifest = {"containers": [{"name": "main", "image": "example.test/main:1"}]}


def metadata(name: str, namespace: str = "", labels: Mapping[str, str] | None = None) -> Manifest:
    """Return an object's metadata."""
    found: Manifest = {"name": name}
    if namespace:
        found["namespace"] = namespace
    if labels is not None:
        found["labels"] = dict(labels)
    return found


def config_map(namespace: str, name: str = "main", labels: Mapping[str, str] | None = None) -> Manifest:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name, namespace, labels), "data": {"a": "b"}}


def pod(namespace: str, name: str = "main", labels: Mapping[str, str] | None = None, **spec: Any) -> Manifest:
    """Return a Pod; `spec` is added to that of one container."""
    whole = {**copy.deepcopy(POD_SPEC), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, namespace, labels), "spec": whole}


def gpus(number: int) -> list[Manifest]:
    """Return containers that ask for GPUs."""
    return [{**POD_SPEC["containers"][0], "resources": {"limits": {"nvidia.com/gpu": str(number)}}}]


def template(labels: Mapping[str, str] | None = None, **spec: Any) -> Manifest:
    """Return a pod template with the label app: main."""
    return {"metadata": {"labels": {"app": "main", **(labels or {})}}, "spec": {**copy.deepcopy(POD_SPEC), **spec}}


def apps(kind: str, namespace: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Manifest:
    """Return an object of the group apps around a template; `spec` may replace the template."""
    whole = {"selector": {"matchLabels": {"app": "main"}}, "template": template(), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata("main", namespace, labels), "spec": whole}


def job(namespace: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Manifest:
    """Return a Job around a template."""
    whole = {"template": template(restartPolicy="Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata("main", namespace, labels), "spec": whole}
