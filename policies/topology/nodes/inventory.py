"""Nodes with their accelerators: the total, those that Pods hold, and those that are free.

Sources: "Extended resources" and "Resource sharing within containers" in the Kubernetes documentation for the requests
of a Pod, CoreWeave's pages about SUNK for its second name for GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from policies.engine.facts import Node, Taint
from policies.glob import matches
from policies.kubernetes.quantity import count

# SUNK lists each GPU under a second name as well, so that Slurm can hold it without its device.
_SECOND_NAMES = "sunk.coreweave.com/"
_FINISHED = ("Succeeded", "Failed")

Quantities = Mapping[str, str | int | float]


class Machine(Struct, frozen=True):
    """A Node. total: its accelerators. used: those that Pods hold; None if Pods are not known."""

    node: Node
    total: int = 0
    used: int | None = None
    cordoned: bool = False
    ready: bool = True

    @property
    def is_open(self) -> bool:
        """Whether the Node accepts new Pods."""
        return self.ready and not self.cordoned

    @property
    def free(self) -> int | None:
        """The accelerators that new Pods can get; None if Pods are not known."""
        if self.used is None:
            return None
        return max(0, self.total - self.used) if self.is_open else 0


class _Metadata(Struct):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Taint(Struct):
    key: str
    effect: str = ""
    value: str | None = None


class _NodeSpec(Struct):
    unschedulable: bool = False
    taints: list[_Taint] | None = None


class _Condition(Struct):
    type: str
    status: str = ""


class _NodeStatus(Struct):
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[_Condition] | None = None


class NodeManifest(Struct):
    """The fields of a Node that this module reads."""

    metadata: _Metadata
    spec: _NodeSpec = field(default_factory=_NodeSpec)
    status: _NodeStatus = field(default_factory=_NodeStatus)


class _Resources(Struct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Container(Struct, rename="camel"):
    resources: _Resources | None = None
    restart_policy: str | None = None


class _PodSpec(Struct, rename="camel"):
    node_name: str = ""
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _PodStatus(Struct):
    phase: str = ""


class PodManifest(Struct):
    """The fields of a Pod that this module reads."""

    metadata: _Metadata
    spec: _PodSpec = field(default_factory=_PodSpec)
    status: _PodStatus = field(default_factory=_PodStatus)


def machines(
    nodes: Iterable[NodeManifest], pods: Iterable[PodManifest] | None, accelerators: Sequence[str]
) -> tuple[Machine, ...]:
    """The Nodes sorted by name, with the accelerators that Pods hold. accelerators: globs of resource names.

    pods: None if not known. A Node without a Ready condition counts as ready. Raises ValueError for a quantity that is
    not a whole number.
    """
    used: Counter[str] | None = None
    if pods is not None:
        used = Counter()
        for pod in pods:
            if pod.spec.node_name and pod.status.phase not in _FINISHED:
                used[pod.spec.node_name] += held(pod, accelerators)
    built = (_machine(node, accelerators, used) for node in nodes)
    return tuple(sorted(built, key=lambda machine: machine.node.name))


def held(pod: PodManifest, accelerators: Sequence[str]) -> int:
    """The accelerators that a Pod holds: those of its containers and sidecars, or more if an init container needs more.

    Source: "Resource sharing within containers". Raises ValueError for a quantity that is not a whole number.
    """
    by_resource: Counter[str] = Counter()
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers or ():
        own = _requested(container, accelerators)
        if container.restart_policy == "Always":
            by_resource.update(own)
        else:
            for name, count in own.items():
                peak[name] = max(peak.get(name, 0), by_resource[name] + count)
    for container in pod.spec.containers or ():
        by_resource.update(_requested(container, accelerators))
    return _devices({name: max(by_resource[name], peak.get(name, 0)) for name in {*by_resource, *peak}})


def _machine(node: NodeManifest, accelerators: Sequence[str], used: Counter[str] | None) -> Machine:
    name = node.metadata.name
    taints = tuple(Taint(taint.key, taint.effect, taint.value or "") for taint in node.spec.taints or ())
    return Machine(
        Node(name, node.metadata.labels or {}, taints),
        _devices(_counts(node.status.allocatable, accelerators)),
        None if used is None else used[name],
        node.spec.unschedulable,
        all(condition.status == "True" for condition in node.status.conditions or () if condition.type == "Ready"),
    )


def _requested(container: _Container, accelerators: Sequence[str]) -> dict[str, int]:
    """The requested accelerators by resource. A limit without a request counts as the request."""
    resources = container.resources or _Resources()
    return _counts(resources.limits, accelerators) | _counts(resources.requests, accelerators)


def _counts(quantities: Quantities | None, accelerators: Sequence[str]) -> dict[str, int]:
    return {
        name: _number(name, quantity)
        for name, quantity in (quantities or {}).items()
        # Names without a prefix, which nearly all are, belong to Kubernetes itself.
        if "/" in name and matches(name, accelerators)
    }


def _devices(by_resource: Mapping[str, int]) -> int:
    second = sum(count for name, count in by_resource.items() if name.startswith(_SECOND_NAMES))
    return max(second, sum(by_resource.values()) - second)


def _number(name: str, quantity: str | float) -> int:
    """A quantity as a number. Extended resources are whole numbers, which the API server writes as 8 or 1k."""
    devices = count(quantity)
    if devices is None:
        raise ValueError(f"{name} is {quantity!r}; a whole number of devices was expected")
    return devices
