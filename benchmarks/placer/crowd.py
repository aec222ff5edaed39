"""A large cluster in a placer: `python -m benchmarks.placer.crowd` prints what it costs, as JSON."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from resource import getpagesize
from statistics import quantiles
from typing import Any, TypeVar

import msgspec

from policies.engine.facts import StaticFacts
from policies.engine.request import JsonObject
from policies.objects.workload import BUILT_IN, table
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.placement import GATE
from policies.topology.placer.placer import Look, Placer
from policies.topology.placer.state import Options
from policies.topology.topology import BUILT_IN as TOPOLOGIES
from policies.topology.topology import Catalog

NODES, PODS, WAITING = 10_000, 100_000, 200
FIRST = f"that is the first with {WAITING} gangs"
_RACK, _SUPERPOD, _FABRIC = 18, 144, 1152  # Nodes of each
_EMPTY = 8 * _FABRIC  # from this Node on all are free
_BUSY = 15  # of the Nodes of each other rack
_GPU = "nvidia.com/gpu"
_BACKEND = "backend.coreweave.cloud/"
_LOOKS, _LARGE_LOOKS = 300, 100
_NODE, _POD = msgspec.json.Decoder(NodeManifest), msgspec.json.Decoder(PodManifest)
_NOW = 1_800_000_000.0
_CREATED = "2027-01-15T08:00:00Z"
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
        "pool": "new" if number >= _EMPTY else "old",
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


def pod(name: str, job: str, gpus: int, node: str, *, level: str = "", index: int = 0, pool: str = "") -> JsonObject:
    """A Pod of a Job, as the API server sends it. level: the required one. node: empty for a gated Pod."""
    asked = {"cpu": "1", "memory": "8Gi", **({_GPU: str(gpus), "rdma/ib": "1"} if gpus else {})}
    placement = {"kai.scheduler/topology": "coreweave", "kai.scheduler/topology-required-placement": level}
    environment = [{"name": f"VARIABLE_{number}", "value": f"value of {number}"} for number in range(20)]
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "creationTimestamp": _CREATED,
        "annotations": placement if level else {},
        "labels": {"batch.kubernetes.io/job-name": job, "batch.kubernetes.io/job-completion-index": str(index)},
        "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
        ],
    }
    containers = [
        {"name": "worker", "image": "train:1", "env": environment, "resources": {"requests": asked, "limits": asked}},
        {"name": "log", "image": "log:1", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}},
    ]
    spec = {
        "priority": 0,
        "containers": containers,
        **({"nodeSelector": {"pool": pool}} if pool else {}),
        **({"nodeName": node} if node else {"schedulingGates": [{"name": GATE}]}),
    }
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec,
        "status": {"phase": "Running" if node else "Pending"},
    }  # fmt: skip


class Crowd:
    """A placer with a cluster in it."""

    def __init__(self) -> None:
        facts = StaticFacts(date(2027, 1, 1), classes={"": 0})
        self.placer = Placer(Options(table(BUILT_IN), facts, patience=1e9))
        self.placer.put_catalog(Catalog(TOPOLOGIES))
        self.now = _NOW

    def put(self, obj: JsonObject) -> None:
        """Take a Pod, which is decoded twice where it has a placement."""
        raw = msgspec.json.encode(obj)
        content = msgspec.json.decode(raw) if b"kai.scheduler/topology" in raw else None
        self.placer.put_pod(_POD.decode(raw), content)

    def gang(self, name: str, pods: int, level: str, pool: str = "") -> None:
        """A Job whose Pods wait."""
        made = [pod(f"{name}-{index}", name, 8, "", level=level, index=index, pool=pool) for index in range(pods)]
        template = {"metadata": {"annotations": made[0]["metadata"]["annotations"]}, "spec": made[0]["spec"]}
        self.placer.put_root(
            {
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
                "spec": {"parallelism": pods, "completions": pods, "template": template},
            }
        )  # fmt: skip
        for one in made:
            self.put(one)

    def end(self, name: str, pods: int) -> None:
        """Forget a Job with its Pods."""
        self.placer.remove_root("batch", "Job", "team", name)
        for index in range(pods):
            self.placer.remove_pod("team", f"{name}-{index}")

    def look(self) -> Look:
        """The next look."""
        self.now += 0.1
        return self.placer.look(self.now)


def _resident() -> float:
    """The memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * getpagesize() / 1e6


def _spread(milliseconds: Iterable[float]) -> dict[str, float]:
    """p50 and p99."""
    cuts = quantiles(milliseconds, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


def _rate(act: Callable[[T], object], these: Iterable[T]) -> float:
    """Microseconds for each act."""
    before = time.thread_time()
    count = sum(act(this) is None for this in these)
    return (time.thread_time() - before) / count * 1e6


def _timed(act: Callable[[], Look]) -> tuple[float, Look]:
    """Milliseconds of the thread: other work on the machine does not count."""
    gc.disable()  # as the process does
    before = time.thread_time()
    look = act()
    milliseconds = (time.thread_time() - before) * 1e3
    gc.enable()
    return milliseconds, look


def _openings(crowd: Crowd, pods: int, level: str, looks: int) -> dict[str, float]:
    """Milliseconds of looks that open one gang each."""
    times = []
    for number in range(looks):
        crowd.gang(f"new-{pods}-{number}", pods, level)
        milliseconds, look = _timed(crowd.look)
        assert len(look.openings) == pods
        times.append(milliseconds)
        crowd.end(f"new-{pods}-{number}", pods)
        crowd.look()
    return _spread(times)


def _changes(crowd: Crowd) -> dict[str, float]:
    """Milliseconds of looks after one Pod has finished, which makes too little room for any gang that waits."""
    times = []
    for number in range(_LOOKS):
        crowd.placer.remove_pod("team", f"small-{number}")
        milliseconds, look = _timed(crowd.look)
        assert (len(look.openings), len(look.queue)) == (0, WAITING)
        times.append(milliseconds)
    return _spread(times)


def _bound() -> Iterable[JsonObject]:
    """The Pods on Nodes: gangs of whole Nodes on most of them, and small ones on all."""
    busy = [number for number in range(_EMPTY) if number % _RACK < _BUSY]
    for number in busy:
        job = f"train-{number // _RACK}"
        yield pod(f"{job}-{number % _RACK}", job, 8, f"g{number:05}", level="rack", index=number % _RACK)
    for number in range(PODS - len(busy)):
        yield pod(f"small-{number}", f"job-{number // 8}", 0, f"g{number % NODES:05}")


def _measured() -> Mapping[str, Any]:
    """Megabytes, milliseconds of looks, and microseconds of each operation."""
    crowd, memory = Crowd(), {"without a cluster": _resident()}
    nodes = [_NODE.decode(node(number)) for number in range(1000)]
    for number in range(NODES):
        crowd.placer.put_node(_NODE.decode(node(number)))
    memory["with Nodes"] = _resident()
    for one in _bound():
        crowd.put(one)
    gc.collect()
    gc.freeze()  # as the process does once it has listed everything
    memory["with Nodes and Pods"] = _resident()
    new = [pod(f"more-{number}", f"more-{number // 8}", 1, f"g{number:05}") for number in range(_EMPTY, NODES)]
    raw = [_POD.decode(msgspec.json.encode(one)) for one in new]
    placed = [pod(f"mine-{number}", "mine", 1, f"g{number:05}", level="fabric") for number in range(_EMPTY, NODES)]
    times = {
        "put a Node again": _rate(crowd.placer.put_node, nodes),
        "put a Pod": _rate(lambda one: crowd.placer.put_pod(one, None), raw),
        "put a Pod with a placement": _rate(
            lambda one: crowd.placer.put_pod(*one),
            [(_POD.decode(msgspec.json.encode(one)), one) for one in placed],
        ),
        "remove a Pod": _rate(lambda one: crowd.placer.remove_pod(*one.key), raw),
    }
    for one in placed:
        crowd.placer.remove_pod("team", one["metadata"]["name"])
    for number in range(WAITING):
        crowd.gang(f"wait-{number}", 4 + number % 15, "rack", "old")
    first, look = _timed(crowd.look)
    assert len(look.queue) == WAITING
    looks = {
        "opens 8 Pods": _openings(crowd, 8, "rack", _LOOKS),
        "opens 512 Pods": _openings(crowd, 512, "fabric", _LARGE_LOOKS),
        "after a Pod has finished": _changes(crowd),
        FIRST: {"p50": first, "p99": first},
    }
    memory["after all looks"] = _resident()
    return {"memory": memory, "looks": looks, "times": times}


if __name__ == "__main__":
    print(json.dumps(_measured()))
