"""Nodes with their accelerators: the total, those that Pods hold, and those that are free.

Source: CoreWeave's pages about SUNK for its second name for GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.facts import Node
from policies.kubernetes.name import matches_glob
from policies.topology.gang.gang import Amounts
from policies.topology.nodes.fabric import Flaw, flaws
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.nodes.obstacle import Obstacle, obstacles
from policies.topology.nodes.requests import allocatable, requests

# SUNK lists each GPU under a second name as well, so that Slurm can hold it without its device.
_SECOND_NAMES = "sunk.coreweave.com/"


class Machine(Struct, frozen=True):
    """A Node. total: its accelerators. used: those that Pods hold; None if Pods are not known.

    flaws: what is wrong with its place in the network.
    """

    node: Node
    total: int = 0
    used: int | None = None
    cordoned: bool = False
    ready: bool = True
    flaws: tuple[Flaw, ...] = ()

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """What keeps new Pods from the Node for now."""
        return obstacles(self.node, cordoned=self.cordoned, ready=self.ready)

    @property
    def is_open(self) -> bool:
        """Whether the Node accepts new Pods."""
        return not self.obstacles

    @property
    def free(self) -> int | None:
        """The accelerators that new Pods can get; None if Pods are not known."""
        if self.used is None:
            return None
        return max(0, self.total - self.used) if self.is_open else 0


def machines(
    nodes: Iterable[NodeManifest], pods: Iterable[PodManifest] | None, accelerators: Sequence[str]
) -> tuple[Machine, ...]:
    """The Nodes sorted by name, with the accelerators that Pods hold. accelerators: globs of resource names.

    pods: None if not known. A Node without a Ready condition counts as ready. Raises ValueError for a malformed amount.
    """
    used: Counter[str] | None = None
    if pods is not None:
        used = Counter()
        for pod in pods:
            if pod.holds:
                used[pod.spec.node_name] += held(pod, accelerators)
    known = sorted(nodes, key=lambda node: node.metadata.name)
    flawed = flaws(node.node for node in known)
    built = ((node.metadata.name, machine(node, accelerators)) for node in known)
    return tuple(
        replace(one, used=None if used is None else used[name], flaws=flawed.get(name, ())) for name, one in built
    )


def machine(node: NodeManifest, accelerators: Sequence[str]) -> Machine:
    """A Node by itself: its Pods are not known. Raises ValueError for a malformed amount."""
    total = _devices(allocatable(node.status.allocatable), accelerators)
    return Machine(node.node, total, cordoned=node.spec.unschedulable, ready=node.ready)


def held(pod: PodManifest, accelerators: Sequence[str]) -> int:
    """The accelerators that a Pod holds: see `requests`. Raises ValueError for a malformed amount."""
    return _devices(requests(pod), accelerators)


def _devices(amounts: Amounts, accelerators: Sequence[str]) -> int:
    """How many accelerators these are."""
    # Names without a prefix, which nearly all are, belong to Kubernetes itself.
    counts = {name: amount for name, amount in amounts if "/" in name and matches_glob(name, accelerators)}
    second = sum(count for name, count in counts.items() if name.startswith(_SECOND_NAMES))
    return max(second, sum(counts.values()) - second)
