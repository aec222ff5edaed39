"""The memory that a replica needs for clusters of several sizes, on a real control plane that holds that many Nodes.

The service runs with its defaults: all rules and the shipped packs; it places no gangs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from cluster import toolchain
from cluster.controlplane import ControlPlane
from cluster.programs import CONTROL_PLANE

from benchmarks import servers
from benchmarks.bodies import REAL, body
from benchmarks.load import drive
from benchmarks.placer.crowd import node, pod
from benchmarks.report import Figure

SIZES = (100, 1000, 5000)
"""Nodes."""
PODS_PER_NODE = 10
LOAD_SECONDS = 2.0
_MEMORY = 100  # MB


class Size(NamedTuple):
    """What a replica takes with a cluster. ready: seconds until it is. memory: MB, after a load."""

    nodes: int
    pods: int
    ready: float
    memory: float


def measure(directory: Path, say: Callable[[str], None]) -> list[Size]:
    """A row for each size. Raises what the control plane and the servers raise."""
    config = directory / "sizing.yaml"
    config.write_text("place: {apart: true}\n", encoding="utf-8")
    sizes, nodes = [], 0
    with ControlPlane(toolchain.ensure(CONTROL_PLANE)) as cluster:
        # Nobody plays the kubelets of these Nodes, and Pods on Nodes that are silent would be deleted in between.
        cluster.component("kube-controller-manager").terminate()
        for size in SIZES:
            say(f"{size} Nodes and {size * PODS_PER_NODE} Pods")
            _fill(cluster, range(nodes, size))
            nodes = size
            sizes.append(_measured(directory, size, "--config", str(config), "--kubeconfig", _reader(cluster)))
    return sizes


def _reader(cluster: ControlPlane) -> str:
    return str(cluster.kubeconfig("alice"))


def _fill(cluster: ControlPlane, nodes: range) -> None:
    for number in nodes:
        cluster.objects.create({"apiVersion": "v1", "kind": "Node", **json.loads(node(number))})
        for index in range(PODS_PER_NODE):
            written = pod(f"pod-{number}-{index}", "train", 0, f"g{number:05}")
            written["metadata"] |= {"namespace": "default", "ownerReferences": []}
            written["spec"].pop("priority", None)
            cluster.objects.create({"apiVersion": "v1", "kind": "Pod", **written})


def _measured(directory: Path, nodes: int, *options: str) -> Size:
    before = time.perf_counter()
    with servers.service(directory, *options) as (server, port, _):
        ready = time.perf_counter() - before
        for path in ("/mutate", "/validate"):
            drive(port, path, body(path, REAL), server, LOAD_SECONDS)
        return Size(nodes, nodes * PODS_PER_NODE, ready, server.resident())


def figures(sizes: list[Size]) -> Iterator[Figure]:
    """Memory and time for each size."""
    for size in sizes:
        name, note = f"{size.nodes:,} Nodes and {size.pods:,} Pods", f"(ready after {size.ready:.1f} s)"
        yield Figure(name, size.memory, _MEMORY, unit=" MB", note=note)
