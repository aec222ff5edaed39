"""Workloads that were placed, their Pods, and the ledger that reads them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from support.builders import FACTS, WORKLOADS

from policies.engine.match import SelectorRequirement
from policies.topology.affinity import RECORD, with_terms, write_record
from policies.topology.gang.address import Step
from policies.topology.gang.demand import Cluster
from policies.topology.gang.ledger import Ledger

START = 1_800_000_000.0
RACK = (Step(1, ("rack",), ("12",)),)
LWS = "leaderworkerset.sigs.k8s.io/"
CONTAINERS = [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]


def at(seconds: float) -> str:
    """A time as the API server writes it, in seconds after START."""
    return datetime.fromtimestamp(START + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def placed(path: str, rack: str = "12") -> tuple[dict[str, Any], dict[str, str]]:
    """A template whose Pods are kept in a rack, and the annotation that records it."""
    affinity, entry = with_terms(None, [(SelectorRequirement("rack", "In", (rack,)),)], [])
    domain = (Step(1, ("rack",), (rack,)),)
    return (
        {"spec": {"containers": CONTAINERS, "affinity": affinity}},
        {RECORD: write_record({path: replace(entry, domain=domain)})[0]},
    )


def workload(kind: str, name: str, spec: dict[str, Any], annotations: dict[str, str], **more: Any) -> dict[str, Any]:
    """A workload that was created at START; `kind` as apiVersion/kind."""
    version, _, short = kind.rpartition("/")
    metadata = {"namespace": "ns", "name": name, "creationTimestamp": at(0), "annotations": annotations}
    return {
        "apiVersion": version,
        "kind": short,
        "metadata": {**metadata, **more.pop("metadata", {})},
        "spec": spec,
        **more,
    }


def job(name: str = "a", pods: int = 4, **more: Any) -> dict[str, Any]:
    """A placed Job."""
    template, annotations = placed("spec.template")
    spec = {"parallelism": pods, "completions": pods, "template": template, **more.pop("spec", {})}
    return workload("batch/v1/Job", name, spec, annotations, **more)


def pod(
    name: str, owner: str = "batch/v1/Job/a", *, node: str = "n", created: float = 0, **more: Any
) -> dict[str, Any]:
    """A Pod of a workload, bound unless `node` is empty."""
    version, kind, controller = owner.rsplit("/", 2) if owner else ("", "", "")
    metadata: dict[str, Any] = {
        "namespace": "ns",
        "name": name,
        "creationTimestamp": at(created),
        **more.pop("metadata", {}),
    }
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": version, "kind": kind, "name": controller, "controller": True}]
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [], **more.pop("spec", {})}, **more}


def ledger(*objects: dict[str, Any]) -> Ledger:
    """A ledger that has seen workloads and Pods in their order."""
    made = Ledger(WORKLOADS, Cluster(FACTS))
    for obj in objects:
        if "kind" in obj:
            made.put(obj)
        else:
            made.put_pod(obj)
    return made


def counts(made: Ledger, after: float = 1) -> dict[str, int]:
    """The Pods that are promised some seconds after START by the paths of their templates."""
    sums: Counter[str] = Counter()
    for promise in made.promises(START + after):
        sums.update({demand.path: demand.count for demand in promise.members})
    return dict(sums)


def replicas(size: int, *, leads: bool) -> dict[str, Any]:
    """A LeaderWorkerSet of two replicas, with a template for leaders or without."""
    plain = {"spec": {"containers": CONTAINERS}}
    templates = {"workerTemplate": plain, **({"leaderTemplate": plain} if leads else {})}
    spec = {"replicas": 2, "startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": size, **templates}}
    return workload("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "l", spec, {})


def leader(index: int, node: str = "") -> dict[str, Any]:
    """The leader of a replica, placed; its annotation claims a size of 99."""
    template, annotations = placed("")
    labels = {f"{LWS}name": "l", f"{LWS}worker-index": "0", f"{LWS}group-index": str(index)}
    more = {"annotations": {**annotations, f"{LWS}size": "99"}, "labels": labels}
    return pod(f"l-{index}", "apps/v1/StatefulSet/l", node=node, metadata=more, spec=template["spec"])


def ray_job() -> dict[str, Any]:
    """A placed RayJob of three workers."""
    template, annotations = placed("spec.rayClusterSpec.workerGroupSpecs[0].template")
    group = {"groupName": "g", "replicas": 3, "template": template}
    return workload("ray.io/v1/RayJob", "r", {"rayClusterSpec": {"workerGroupSpecs": [group]}}, annotations)


def ray_cluster() -> dict[str, Any]:
    """The RayCluster that the RayJob made, with its annotations."""
    made = ray_job()
    controller = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "r", "controller": True}
    more = {"ownerReferences": [controller]}
    return workload(
        "ray.io/v1/RayCluster", "r-x", made["spec"]["rayClusterSpec"], made["metadata"]["annotations"], metadata=more
    )
