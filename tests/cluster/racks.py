"""The example of the documents: two racks, some Nodes occupied, and a workload of six Nodes that fits in one of them.

Source: sources on topology-aware scheduling, "Pod Affinity vs Topology-Aware Scheduling". The scheduler breaks ties by
the order of Nodes, so each run has another one, and a scheduler that has just been started.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from cluster import gangs, manifests, placements, workloads
from cluster.apicalls import MERGE_PATCH, Caller
from cluster.polling import NotYet
from cluster.topologynodes import BACKEND, LEVELS, RACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.controlplane import ControlPlane
    from cluster.gangs import Way
    from cluster.manifests import Manifest

Landing = Literal["together", "split", "stuck", "waiting"]
"""stuck: some Pods of the gang hold GPUs, and the others find no Node. waiting: none has a Node."""

GPUS = 8
PODS = 6
OCCUPIED = {"a": 2, "b": 4}
IN_RACK = 8
NAMES = [f"racks-{number:02}" for number in range(IN_RACK * len(OCCUPIED))]
# The levels of the documents as well, of which both racks share all but one.
RACK_KEYS = (RACK, LEVELS[3])
PLACE = {
    **dict(zip(LEVELS, ("eu-west", "eu-west-1a", "block-3"), strict=False)),
    f"{BACKEND}/fabric": "racks",
    f"{BACKEND}/superpod": "1",
}
HERE = {"example.org/nodes": "racks"}
TAINT = {"key": "example.org/nodes", "value": "racks", "effect": "NoSchedule"}
ON_THEM: Manifest = {"nodeSelector": HERE, "tolerations": [{"key": "example.org/nodes", "operator": "Exists"}]}


class Racks:
    """The racks, filled anew for each run in an order of Nodes of its own."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        """The Nodes have to be there: see `standing`."""
        self.control_plane = control_plane
        self.namespace = namespace
        self.run = 0
        self.racks: dict[str, str] = {}
        """The rack of each Node, with the run's number in its name, so that it is no rack of another run."""

    def arrange(self, run: int, occupied: Mapping[str, int] = OCCUPIED) -> None:
        """Empty all Nodes, deal them out to the racks, occupy some, and start the scheduler again."""
        self.empty()
        self.run = run
        names = random.Random(run).sample(NAMES, len(NAMES))  # noqa: S311 - no secret, and the same in every run
        dealt = {rack: names[number * IN_RACK :][:IN_RACK] for number, rack in enumerate(OCCUPIED)}
        self.racks = {name: f"{rack}-{run}" for rack, nodes in dealt.items() for name in nodes}
        with Caller(self.control_plane) as caller:
            for name, rack in self.racks.items():
                labels = {"metadata": {"labels": dict.fromkeys(RACK_KEYS, rack)}}
                caller.send("PATCH", f"/api/v1/nodes/{name}", labels, content_type=MERGE_PATCH)
        for rack, nodes in dealt.items():
            for name in nodes[: occupied[rack]]:
                spec: Manifest = {
                    "nodeName": name,
                    "terminationGracePeriodSeconds": 0,
                    "containers": workloads.gpus(GPUS),
                }
                self.control_plane.objects.create(workloads.pod(self.namespace, f"on-{name}", **spec))
        self.control_plane.restart_scheduler()

    def empty(self) -> None:
        """Delete all that runs there, and wait until it is gone."""
        self.control_plane.objects.delete_all("statefulsets", "jobs", "pods", namespace=self.namespace)
        self.control_plane.wait_for("the Nodes to be empty", self._is_empty)

    def land(self, way: Way) -> Landing:
        """Create the workload that needs six Nodes, and say where its Pods are."""
        job = gangs.job(self.namespace, "six", way, pods=PODS, gpus=GPUS, **ON_THEM)
        self.control_plane.objects.create(job, user="alice")
        places = self.places("six", PODS)
        if not places:
            return "waiting"
        if len(places) < PODS:
            return "stuck"
        return "together" if len(set(places)) == 1 else "split"

    def places(self, app: str, pods: int) -> list[str]:
        """Wait until the scheduler has looked at all Pods of an app; return the racks of those that it placed."""
        nodes = placements.scheduled(self.control_plane, self.namespace, app, pods, pending=pods)
        return sorted(self._rack(node) for node in nodes)

    def groups(self, label: str) -> dict[str, list[str]]:
        """Return the racks of the Pods that have a label and a Node, by its value."""
        found: dict[str, list[str]] = {}
        for pod in self.control_plane.get("pods", "-n", self.namespace, "-l", label)["items"]:
            if node := pod["spec"].get("nodeName"):
                found.setdefault(pod["metadata"]["labels"][label], []).append(self._rack(node))
        return found

    def _rack(self, node: str) -> str:
        return self.racks[node].partition("-")[0]

    def _is_empty(self) -> bool:
        if left := self.control_plane.get("pods", "-n", self.namespace)["items"]:
            raise NotYet(", ".join(pod["metadata"]["name"] for pod in left))
        return True


@contextmanager
def standing(control_plane: ControlPlane) -> Iterator[None]:
    """The Nodes, in no rack yet, until the end of the block."""
    for name in NAMES:
        control_plane.objects.create(manifests.node(name, {**PLACE, **HERE}, [TAINT], {"nvidia.com/gpu": GPUS}))
    control_plane.await_nodes("example.org/nodes=racks", len(NAMES))
    yield
    control_plane.objects.delete("node", *NAMES)
