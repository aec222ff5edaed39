"""Fake GPU Nodes of three networks, labelled as clouds do: with new keys, with older keys only, RoCE, and none.

Taints keep the Pods of other tests away, and a label keeps the Pods of these tests on these Nodes.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cluster import manifests, workloads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.controlplane import ControlPlane

BACKEND, IB, RACK = "backend.coreweave.cloud", "ib.coreweave.cloud", "node.coreweave.cloud/rack"
POOL = "compute.coreweave.com/node-pool"
HERE = {"example.org/nodes": "topology"}
TAINT = {"key": "example.org/nodes", "value": "topology", "effect": "NoSchedule"}
TOLERATION = {"key": "example.org/nodes", "operator": "Exists"}
# More than all tests together use, whose Pods take a while to go.
GPUS = 64


def _place(prefix: str, fabric: str, superpod: str, leafgroup: str) -> dict[str, str]:
    return {f"{prefix}/fabric": fabric, f"{prefix}/superpod": superpod, f"{prefix}/leafgroup": leafgroup}


def _infiniband(fabric: str, superpod: str, leafgroup: str, rack: str) -> dict[str, str]:
    both = {**_place(BACKEND, fabric, superpod, leafgroup), **_place(IB, fabric, superpod, leafgroup)}
    return {**both, f"{BACKEND}/flavor": "infiniband", RACK: rack}


def _roce(fabric: str, superpod: str, leafgroup: str, rack: str) -> dict[str, str]:
    return {**_place(BACKEND, fabric, superpod, leafgroup), f"{BACKEND}/flavor": "roce", RACK: rack}


# Superpods are numbered anew in each fabric, racks are not.
NODES: Mapping[str, Mapping[str, str]] = {
    "f1-s1-l1": _infiniband("f1", "1", "1", "r1"),
    "f1-s1-l2": _infiniband("f1", "1", "2", "r2"),
    "f1-s2-l1": {**_infiniband("f1", "2", "1", "r3"), POOL: "topology-a"},
    "f2-s1-l1": {**_infiniband("f2", "1", "1", "r4"), POOL: "topology-b"},
    "old-f1-s1": _place(IB, "f1", "1", "1"),
    "old-f1-s3": _place(IB, "f1", "3", "1"),
    "roce-s1": _roce("c1", "1", "1", "r5"),
    "roce-s2": _roce("c1", "2", "1", "r6"),
    "bare": {},
}

# The levels of the documents' topology, farthest first.
LEVELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
    "kubernetes.io/hostname",
)
_POOLS = {"a": [RACK], "b": [f"{BACKEND}/fabric", RACK], "empty": [RACK]}
# The documents' own, and node pools have topologies of their own, the last one has no Nodes.
SETTINGS: Mapping[str, Any] = {
    "topologies": [
        {"name": "cluster-topology", "levels": list(LEVELS)},
        *(
            {"name": f"pool-{pool}", "levels": levels, "pool": {"matchLabels": {POOL: f"topology-{pool}"}}}
            for pool, levels in _POOLS.items()
        ),
    ]
}


@contextmanager
def standing(control_plane: ControlPlane) -> Iterator[None]:
    """The Nodes, ready for Pods and known to the service, until the end of the block."""
    nodes = [
        manifests.node(name, {**labels, **HERE}, [TAINT], {"nvidia.com/gpu": GPUS}) for name, labels in NODES.items()
    ]
    for node in nodes:
        control_plane.objects.create(node)
    control_plane.await_nodes("example.org/nodes=topology", len(NODES))
    everywhere = workloads.pod("default", "nowhere")
    placement = {"kai.scheduler/topology": "coreweave", "kai.scheduler/topology-preferred-placement": "rack=none"}
    everywhere["metadata"]["annotations"] = placement
    known = "name one that Nodes are in: r1, r2, r3 and 3 more"
    control_plane.wait_until(
        "the service to know the Nodes",
        lambda: control_plane.objects.applied(everywhere, user="alice", dry_run=True),
        lambda answer: any(known in warning for warning in answer.warnings),
    )
    yield
    control_plane.objects.delete("node", *NODES)
