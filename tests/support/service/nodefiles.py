"""Nodes and Pods as kubectl prints them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Json = dict[str, Any]

REGION, ZONE, HOSTNAME = "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BACKEND, IB = "backend.coreweave.cloud/", "ib.coreweave.cloud/"
RACK = "node.coreweave.cloud/rack"


def place(superpod: str, rack: str, prefix: str = BACKEND, **more: str) -> dict[str, str]:
    """The labels of a Node in fabric f1 that is in a superpod and a rack."""
    flavor = {f"{BACKEND}flavor": "infiniband"} if prefix == BACKEND else {}
    own = {f"{prefix}fabric": "f1", f"{prefix}superpod": superpod, RACK: rack}
    return {REGION: "east", ZONE: "east-1", **own, **flavor, **more}


def node(
    name: str, labels: Mapping[str, str], gpus: int | str = 8, *, cordoned: bool = False, ready: str = "True"
) -> Json:
    """A Node."""
    allocatable = {"cpu": "126", "memory": "1Ti", "pods": "110", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, **labels}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
    }


def pod(name: str, on: str, gpus: int = 8, phase: str = "Running") -> Json:
    """A Pod that is bound to a Node."""
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": phase},
    }


SMALL: tuple[Json, ...] = (
    node("g1", place("1", "10")),
    node("g2", place("1", "10")),
    node("g3", place("1", "9"), cordoned=True),
    node("g10", place("2", "11", IB)),
    node("g11", {key: value for key, value in place("2", "11").items() if "superpod" not in key}, ready="False"),
    node("cpu", {REGION: "east", ZONE: "east-1"}, 0),
)
"""Six Nodes of one fabric: one of the older kind, one without superpod, one without GPUs and fabric."""

HELD: tuple[Json, ...] = (
    pod("train-0", "g1"),
    pod("train-1", "g3", 3),
    pod("notebook", "g10", 2),
    pod("done", "g2", 8, "Succeeded"),
)


KAI = "kai.scheduler/topology"


def asks(topology: str = "coreweave", required: str = "", preferred: str = "") -> dict[str, str]:
    """Annotations that ask for a placement."""
    found = {KAI: topology, f"{KAI}-required-placement": required, f"{KAI}-preferred-placement": preferred}
    return {key: value for key, value in found.items() if value}


def template(gpus: int | str = 8, annotations: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """A template of Pods that take a Node each."""
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    metadata = {"metadata": {"annotations": annotations}} if annotations else {}
    return {**metadata, "spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def job(annotations: Mapping[str, str], pods: int = 2, name: str = "train", **spec: Any) -> Json:
    """A Job of such Pods."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parallelism": pods, "completions": pods, "template": template(), **spec},
    }


def listed(items: Iterable[Json]) -> Json:
    """A List of objects."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def write(path: Path, *items: Json) -> str:
    """A file with these objects, by its name."""
    path.write_text(json.dumps(listed(items)), encoding="utf-8")
    return path.name
