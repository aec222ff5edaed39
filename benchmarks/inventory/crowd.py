"""A large cluster in an inventory: `python -m benchmarks.inventory.crowd` prints what it costs, as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from resource import getpagesize
from statistics import median
from typing import Any, TypeVar

import msgspec

from policies.topology.gang.gang import GangKey, Member, Requirement
from policies.topology.nodes.inventory import Inventory
from policies.topology.nodes.manifest import NodeManifest, PodManifest

NODES, PODS = 10_000, 100_000
_RACK, _SUPERPOD, _FABRIC = 16, 128, 1024  # Nodes of each
_GANG = 8  # Pods
_GPU = "nvidia.com/gpu"
_UPDATES = 1000
_NODE, _POD = msgspec.json.Decoder(NodeManifest), msgspec.json.Decoder(PodManifest)
_BACKEND = "backend.coreweave.cloud/"
T = TypeVar("T")


def node(number: int, *, cordoned: bool = False) -> bytes:
    """A Node as the API server sends it, with as many labels as Nodes with GPUs have."""
    labels = {f"feature.node.kubernetes.io/cpu-{feature}": "true" for feature in range(45)}
    labels |= {
        "kubernetes.io/hostname": f"g{number:05}",
        "topology.kubernetes.io/region": "east",
        "topology.kubernetes.io/zone": "east-1",
        f"{_BACKEND}flavor": "infiniband",
        f"{_BACKEND}fabric": f"f{number // _FABRIC}",
        f"{_BACKEND}superpod": str(number // _SUPERPOD % (_FABRIC // _SUPERPOD)),
        "node.coreweave.cloud/rack": str(number // _RACK),
        "node.coreweave.cloud/state": "production",
    }
    amounts = {"cpu": "126", "memory": "2113410352Ki", "ephemeral-storage": "7404231800Ki", "pods": "110"}
    amounts |= {_GPU: "8", "sunk.coreweave.com/accelerator": "8", "rdma/ib": "8", "hugepages-2Mi": "0"}
    conditions = [{"type": kind, "status": "False"} for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")]
    return msgspec.json.encode(
        {
            "metadata": {"name": f"g{number:05}", "labels": labels},
            "spec": {
                "unschedulable": cordoned,
                "taints": [{"key": "is_gpu", "value": "true", "effect": "PreferNoSchedule"}],
            },
            "status": {
                "allocatable": amounts,
                "conditions": [*conditions, {"type": "Ready", "status": "True"}],
                "images": [
                    {"names": [f"registry.example.org/image-{image}"], "sizeBytes": 10**9} for image in range(50)
                ],
            },
        }
    )


def pod(number: int, node: int) -> bytes:
    """A Pod of a Job. On each Node there are more Pods than those with GPUs."""
    job_number = number // _GANG
    job = f"train-{job_number:06}"
    asked = {"cpu": "8", "memory": "64Gi", **({_GPU: "1", "rdma/ib": "1"} if number % 2 else {})}
    return msgspec.json.encode(
        {
            "metadata": {
                "name": f"{job}-{number % _GANG}-{number:05x}",
                "namespace": f"team-{job_number % 50}",
                "labels": {"batch.kubernetes.io/job-name": job, "app": "train"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job, "controller": True}],
            },
            "spec": {
                "nodeName": f"g{node:05}",
                "priority": number % 3 * 1000,
                "containers": [
                    {"name": "worker", "image": "train:1", "resources": {"requests": asked, "limits": asked}},
                    {"name": "log", "image": "log:1", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}},
                ],
            },
            "status": {"phase": "Running", "containerStatuses": [{"name": "worker"}, {"name": "log"}]},
        }
    )


def _gang_of(pod: PodManifest) -> GangKey | None:
    owner = (pod.metadata.owner_references or [])[0]
    return GangKey(pod.metadata.namespace, "batch", owner.kind, owner.name)


def _resident() -> float:
    """The memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * getpagesize() / 1e6


def _microseconds(act: Callable[[T], object], these: Iterable[T]) -> float:
    """The median time of an act."""
    times = []
    for this in these:
        before = time.perf_counter()
        act(this)
        times.append(time.perf_counter() - before)
    return median(times) * 1e6


def _nodes(*, cordoned: bool) -> Iterator[NodeManifest]:
    return (_NODE.decode(node(number, cordoned=cordoned)) for number in range(0, NODES, NODES // _UPDATES))


def _measured() -> dict[str, Any]:
    """Megabytes, and microseconds of each operation."""
    empty = _resident()
    inventory = Inventory(_gang_of)
    for number in range(NODES):
        inventory.put_node(_NODE.decode(node(number)))
    nodes = _resident()
    for number in range(PODS):
        inventory.put_pod(_POD.decode(pod(number, number * NODES // PODS)))
    memory = {"without a cluster": empty, "with Nodes": nodes, "with Nodes and Pods": _resident()}
    new = [_POD.decode(pod(number, number % NODES)) for number in range(PODS, PODS + _UPDATES)]
    terms = ((Requirement(f"{_BACKEND}fabric", "In", ("f1", "f2")), Requirement(f"{_BACKEND}flavor", "Exists")),)
    member = Member("spec.template", _GANG, ((_GPU, 8),), terms=terms)
    first = _microseconds(inventory.eligible, [member])
    times = {
        "put a Pod": _microseconds(inventory.put_pod, new),
        "put a Pod again": _microseconds(inventory.put_pod, new),
        "remove a Pod": _microseconds(lambda pod: inventory.remove_pod(*pod.key), new),
        "put a Node again": _microseconds(inventory.put_node, _nodes(cordoned=False)),
        "cordon a Node": _microseconds(inventory.put_node, _nodes(cordoned=True)),
        "eligible Nodes, at first": first,
        "eligible Nodes, after 1,000 changes": _microseconds(inventory.eligible, [member]),
        "eligible Nodes, again": _microseconds(inventory.eligible, [member] * 100),
        "free GPUs": _microseconds(inventory.free, [_GPU] * 100),
        "domains of a level": _microseconds(inventory.domains, [("node.coreweave.cloud/rack",)] * 100),
    }
    return {"memory": memory, "times": times}


if __name__ == "__main__":
    print(json.dumps(_measured()))
