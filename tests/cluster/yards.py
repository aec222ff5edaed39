"""Racks of a test's own: Nodes of eight GPUs each, and gangs that can only run on them."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cluster import gangs, manifests, placements, workloads
from cluster.components import LASTS
from cluster.topologynodes import BACKEND, RACK, TAINT, TOLERATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

GPUS = 8
_KEY = "example.org/yard"


class Yard:
    """Nodes in racks, by the names of the racks; all of them are in one superpod."""

    def __init__(self, control_plane: ControlPlane, namespace: str, name: str) -> None:
        """Name it; `standing` makes the Nodes."""
        self.control_plane = control_plane
        self.namespace = namespace
        self.name = name
        self.nodes: dict[str, str] = {}
        self.on: Manifest = {"nodeSelector": {_KEY: name}, "tolerations": [dict(TOLERATION)]}
        """The part of a Pod spec that keeps it on these Nodes."""

    def make(self, racks: Mapping[str, int]) -> None:
        """Make so many Nodes in each rack, and wait until they are ready."""
        place = {f"{BACKEND}/fabric": self.name, f"{BACKEND}/superpod": "1", _KEY: self.name}
        made = {f"{self.name}-{rack}-{number}": rack for rack, count in racks.items() for number in range(count)}
        for node, rack in made.items():
            labels = {**place, RACK: f"{rack}-{self.name}"}
            self.control_plane.objects.create(manifests.node(node, labels, [TAINT], {"nvidia.com/gpu": GPUS}))
        self.nodes |= made
        self.control_plane.await_nodes(f"{_KEY}={self.name}", len(self.nodes))

    def occupy(self, *racks: str, leaving: int = 0) -> None:
        """Let a Pod take each Node of some racks, but for so many."""
        for rack in racks:
            for node in [name for name, own in self.nodes.items() if own == rack][leaving:]:
                spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": workloads.gpus(GPUS)}
                labels = {"occupies": rack, **LASTS}
                self.control_plane.objects.create(workloads.pod(self.namespace, f"on-{node}", labels, **spec))

    def free(self, rack: str) -> None:
        """Delete the Pods that occupy a rack."""
        for node in [name for name, own in self.nodes.items() if own == rack]:
            self.control_plane.objects.delete("pod", f"on-{node}", namespace=self.namespace)

    def job(self, name: str = "main", pods: int = 2, gpus: int = GPUS, **spec: Any) -> Manifest:
        """Return a Job that requires a rack."""
        made = gangs.job(self.namespace, name, "gate", pods=pods, gpus=gpus, **{**self.on, **spec})
        made["spec"]["completionMode"] = "Indexed"
        return made

    def template(self, app: str = "main", gpus: int = GPUS, **spec: Any) -> Manifest:
        """Return a template of Pods that require a rack by themselves; with no GPU, of Pods without placement."""
        containers = workloads.gpus(gpus) if gpus else workloads.POD_SPEC["containers"]
        whole = {**self.on, "terminationGracePeriodSeconds": 0, "containers": containers, **spec}
        made: Manifest = {"metadata": {"labels": {"app": app, **LASTS}}, "spec": whole}
        return placements.annotated(made, "rack") if gpus else made

    def pods(self, app: str = "main") -> list[Manifest]:
        """Return the Pods of an app that are not being deleted."""
        found = self.control_plane.get("pods", "-n", self.namespace, "-l", f"app={app}")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def racks(self, app: str = "main") -> Counter[str]:
        """Return how many Pods of an app are bound in which rack."""
        return Counter(self.nodes[node] for pod in self.pods(app) if (node := pod["spec"].get("nodeName")))

    def await_racks(self, expected: Mapping[str, int], app: str = "main") -> None:
        """Wait until so many Pods of an app, and no others, are bound in these racks."""
        self.control_plane.wait_until(
            f"{app} in {expected}",
            lambda: self.racks(app),
            lambda found: found == expected and len(self.pods(app)) == sum(expected.values()),
        )

    def gated(self, pods: int, app: str = "main") -> None:
        """Wait until so many Pods of an app wait, and none of them has a Node."""
        placements.gated(self.control_plane, self.namespace, app, pods)

    def event(self, reason: str, part: str = "", name: str = "main") -> str:
        """Wait for an Event about an object."""
        return placements.event(self.control_plane, self.namespace, name, reason, part)


@contextmanager
def standing(control_plane: ControlPlane, namespace: str, racks: Mapping[str, int], name: str = "") -> Iterator[Yard]:
    """Racks of so many Nodes, to the end of the block; what runs on them goes before them."""
    yard = Yard(control_plane, namespace, name or namespace)
    yard.make(racks)
    try:
        yield yard
    finally:
        control_plane.objects.delete_all("deployments", "statefulsets", "jobs", "pods", namespace=namespace)
        control_plane.objects.delete("node", *yard.nodes)
