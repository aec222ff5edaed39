"""Nodes and Pods as the API server sends them, what Pods ask for, and what keeps them from a Node for now.

A pod template has the form of a Pod, so that both are read alike: `msgspec.convert(template, PodManifest)`. Amounts are
counted as kube-scheduler counts them. An obstacle passes, unlike a taint with which people set a Node apart.

Sources: PodRequests in k8s.io/component-helpers resource/helpers.go; Resource.Add in kube-scheduler's
framework/types.go; defaultPodRequests in Kubernetes' pkg/apis/core/v1/defaults.go, since a template has not got the
defaults that its Pods get; "Taints and Tolerations" in the Kubernetes documentation; CoreWeave's page "Workload
Scheduling on CKS" for the labels `state` and `reserved-desired`, the taint `reserved` that follows them, and
SUNK's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from policies.engine.facts import Node, Taint
from policies.podspec import thousandths
from policies.topology.topology import with_nvl_domain

Amounts = tuple[tuple[str, int], ...]
"""Amounts by resource, sorted by name: cpu in thousandths, memory and storage in bytes, others as counts."""

PODS = "pods"
"""The resource of which each Pod takes one: a Node has room for so many Pods."""

Quantities = Mapping[str, str | int | float]


class Metadata(Struct, rename="camel"):
    """What identifies an object."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class TaintManifest(Struct):
    """A taint as it is written."""

    key: str
    effect: str = ""
    value: str | None = None


class NodeSpec(Struct):
    """unschedulable: whether the Node is cordoned."""

    unschedulable: bool = False
    taints: list[TaintManifest] | None = None


class Condition(Struct):
    """A condition of a Node or a Pod."""

    type: str
    status: str = ""
    reason: str | None = None


class NodeStatus(Struct):
    """allocatable: what there is for Pods."""

    allocatable: dict[str, str | int | float] | None = None
    conditions: list[Condition] | None = None


class NodeManifest(Struct):
    """A Node."""

    metadata: Metadata
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def node(self) -> Node:
        """The part of it that scheduling rules read."""
        taints = tuple(Taint(taint.key, taint.effect, taint.value or "") for taint in self.spec.taints or ())
        return Node(self.metadata.name, with_nvl_domain(self.metadata.labels or {}), taints)

    @property
    def ready(self) -> bool:
        """Whether it is Ready. A Node without that condition counts as ready."""
        conditions = self.status.conditions or ()
        return all(condition.status == "True" for condition in conditions if condition.type == "Ready")


class Resources(Struct):
    """The resources of a container or of a whole Pod."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Container(Struct, rename="camel"):
    """A container. An init container that restarts always is a sidecar."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class PodSpec(Struct, rename="camel"):
    """The resources of a Pod and its place."""

    node_name: str = ""
    priority: int | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    resources: Resources | None = None
    overhead: dict[str, str | int | float] | None = None


class ContainerStatus(Struct, rename="camel"):
    """What a running container has, which differs from its spec while it is resized."""

    name: str = ""
    resources: Resources | None = None
    allocated_resources: dict[str, str | int | float] | None = None


class PodStatus(Struct, rename="camel"):
    """resources, allocated_resources: those of the whole Pod, if it has resources of its own."""

    phase: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Resources | None = None
    allocated_resources: dict[str, str | int | float] | None = None


class PodManifest(Struct):
    """A Pod, or a pod template, which has no status."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def holds(self) -> bool:
        """Whether the Pod takes room on a Node: it is bound to one and has not finished."""
        return bool(self.spec.node_name) and self.status.phase not in ("Succeeded", "Failed")


def seconds(timestamp: Any) -> float:
    """The time that the API server writes, in seconds since the epoch; 0 if there is none."""
    try:
        return datetime.fromisoformat(timestamp).replace(tzinfo=UTC).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0


# SUNK lists each GPU under a second name as well, so that Slurm can hold it without its device.
_SECOND_NAMES = "sunk.coreweave.com/"


def counted(amounts: Amounts, is_accelerator: Callable[[str], bool]) -> int:
    """The accelerators among amounts. Names without a prefix, which nearly all are, belong to Kubernetes itself."""
    counts = {name: amount for name, amount in amounts if "/" in name and is_accelerator(name)}
    second = sum(count for name, count in counts.items() if name.startswith(_SECOND_NAMES))
    return max(second, sum(counts.values()) - second)


CPU = "cpu"
_HUGE_PAGES = "hugepages-"
_OF_KUBERNETES = frozenset({CPU, "memory", "ephemeral-storage", PODS})
# Amounts above this, 256 TiB, cannot be meant. So the sum of all Pods on a Node stays within 64 bits.
_MOST = 2**48

Thousandths = dict[str, int]


def requests(pod: PodManifest) -> Amounts:
    """What a Pod or a template asks for, one of PODS included, without resources of which it asks for none.

    These are its containers and sidecars, or more where an init container needs more beside the sidecars before it; the
    resources of the whole Pod in their place; and its overhead. A limit without a request counts as the request. While
    a Pod is resized, the larger of what it has and what it is to have counts. Raises ValueError for a malformed amount.
    """
    spec = pod.spec
    total = _of_containers(pod)
    if spec.resources is not None:
        total |= _of_pod(spec.resources, total, pod.status)
    if spec.overhead:
        _add(total, _counted(spec.overhead))
    total[PODS] = 1000
    return _amounts(total)


def allocatable(quantities: Quantities | None) -> Amounts:
    """What a Node has for Pods. Raises ValueError for a malformed amount."""
    return _amounts(_counted(quantities or {}))


def _of_containers(pod: PodManifest) -> Thousandths:
    running = (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ()))
    statuses = {status.name: status for status in running}
    is_infeasible = bool(statuses) and _is_infeasible(pod.status)
    total: Thousandths = {}
    sidecars: Thousandths = {}
    peak: Thousandths = {}
    for container in pod.spec.init_containers or ():
        if container.restart_policy == "Always":
            _add(sidecars, _of_container(container, statuses, is_infeasible=is_infeasible))
            _raise(peak, sidecars)
        else:
            own = _requested(container.resources)
            _add(own, sidecars)
            _raise(peak, own)
    for container in pod.spec.containers or ():
        _add(total, _of_container(container, statuses, is_infeasible=is_infeasible))
    _add(total, sidecars)
    _raise(total, peak)
    return total


def _of_container(container: Container, statuses: Mapping[str, ContainerStatus], *, is_infeasible: bool) -> Thousandths:
    spec = _requested(container.resources)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return spec
    has = _largest(status.resources.requests, status.allocated_resources)
    if not is_infeasible:
        _raise(has, spec)
    return has


def _of_pod(resources: Resources, containers: Thousandths, status: PodStatus) -> Thousandths:
    """What is asked for the whole Pod: cpu, memory and huge pages can be.

    containers: what its containers ask for; it is the request where there is only a limit, but for huge pages.
    """
    asked, limits = (
        {
            name: amount
            for name, amount in _counted(quantities or {}).items()
            if name in (CPU, "memory") or name.startswith(_HUGE_PAGES)
        }
        for quantities in (resources.requests, resources.limits)
    )
    if asked and status.resources is not None:
        has = _largest(status.resources.requests, status.allocated_resources)
        if not _is_infeasible(status):
            _raise(has, asked)
        asked = {name: has.get(name, 0) for name in asked}
    # Containers may use more of all but huge pages than they ask for.
    shared = {name: containers[name] for name in limits if name in containers and not name.startswith(_HUGE_PAGES)}
    return limits | shared | asked


def _requested(resources: Resources | None) -> Thousandths:
    return {} if resources is None else _counted({**(resources.limits or {}), **(resources.requests or {})})


def _counted(quantities: Quantities) -> Thousandths:
    """The resources that the scheduler counts. Raises ValueError for a malformed amount."""
    amounts = {}
    for name, quantity in quantities.items():
        is_device = "/" in name
        is_counted = name in _OF_KUBERNETES or (is_device and not name.startswith("requests."))
        if not is_counted and not name.startswith((_HUGE_PAGES, "attachable-volumes-")):
            continue
        try:
            amount = thousandths(quantity)
        except ValueError:
            amount = -1
        if amount < 0 or (is_device and amount % 1000):
            expected = "a whole number of devices" if is_device else "an amount such as 8, 500m or 1.5Gi"
            raise ValueError(f"{name} is {quantity!r}; {expected} was expected") from None
        amounts[name] = amount
    return amounts


def _is_infeasible(status: PodStatus) -> bool:
    """Whether the kubelet said that the Node can never hold the Pod at its new size."""
    pending = (condition.reason for condition in status.conditions or () if condition.type == "PodResizePending")
    return next(pending, None) == "Infeasible"


def _largest(*quantities: Quantities | None) -> Thousandths:
    largest: Thousandths = {}
    for part in quantities:
        _raise(largest, _counted(part or {}))
    return largest


def _add(total: Thousandths, amounts: Thousandths) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise(peak: Thousandths, amounts: Thousandths) -> None:
    for name, amount in amounts.items():
        if amount > peak.get(name, -1):
            peak[name] = amount


def _amounts(total: Thousandths) -> Amounts:
    amounts = ((name, amount if name == CPU else -(-amount // 1000)) for name, amount in total.items() if amount)
    return tuple(sorted((name, min(amount, _MOST)) for name, amount in amounts))


KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})
"""The effects of taints that keep Pods from a Node."""

_KUBERNETES = "node.kubernetes.io/"
_CLOUD = "node.cloudprovider.kubernetes.io/"
_COREWEAVE = "node.coreweave.cloud/"
_STATE, _RESERVED, _DESIRED = f"{_COREWEAVE}state", f"{_COREWEAVE}reserved", f"{_COREWEAVE}reserved-desired"
_UNSCHEDULABLE, _NOT_READY = f"{_KUBERNETES}unschedulable", f"{_KUBERNETES}not-ready"
_UNREACHABLE = f"{_KUBERNETES}unreachable"
_REASONS = {
    _UNSCHEDULABLE: "cordoned",
    _NOT_READY: "not ready",
    _UNREACHABLE: "unreachable",
    f"{_KUBERNETES}disk-pressure": "disk pressure",
    f"{_KUBERNETES}memory-pressure": "memory pressure",
    f"{_KUBERNETES}pid-pressure": "too many processes",
    f"{_KUBERNETES}network-unavailable": "no network",
    f"{_KUBERNETES}out-of-service": "out of service",
    f"{_CLOUD}uninitialized": "not initialized",
    f"{_CLOUD}shutdown": "shut down",
    "sunk.coreweave.com/lock": "locked by SUNK",
}
# Workloads land on Nodes in this state, and on Nodes that have no state.
_PRODUCTION = "production"


class Obstacle(Struct, frozen=True):
    """Something that keeps Pods from a Node for now. taint: what a Pod tolerates that runs there anyway.

    reason: for people, such as `not ready`.
    """

    taint: Taint
    reason: str


def lasting(node: Node) -> tuple[Taint, ...]:
    """What keeps Pods out for longer than a moment: taints that people set, and the state of a Node in repair."""
    passing = {obstacle.taint for obstacle in obstacles(node)}
    state = node.labels.get(_STATE) or _PRODUCTION
    repaired = (Taint(_STATE, "NoSchedule", state),) if state != _PRODUCTION else ()
    return (*repaired, *(taint for taint in node.taints if taint.effect in KEEPS_OUT and taint not in passing))


def obstacles(node: Node, *, cordoned: bool = False, ready: bool = True) -> tuple[Obstacle, ...]:
    """The obstacles of a Node, in an order of their own; none if it takes new Pods."""
    made: list[Obstacle] = []
    keys = {taint.key for taint in node.taints}
    if cordoned:
        # The scheduler, too, takes the field for this taint.
        made.append(Obstacle(Taint(_UNSCHEDULABLE, "NoSchedule"), _REASONS[_UNSCHEDULABLE]))
    if not ready and keys.isdisjoint((_NOT_READY, _UNREACHABLE)):
        made.append(Obstacle(Taint(_NOT_READY, "NoSchedule"), _REASONS[_NOT_READY]))
    # What CKS does with a Node instead of running workloads on it.
    state, desired = node.labels.get(_STATE) or _PRODUCTION, node.labels.get(_DESIRED)
    is_leaving = desired is not None and desired != node.labels.get(_RESERVED)
    lifecycle = f"in {state}" if state != _PRODUCTION else "pending" if is_leaving else ""
    if lifecycle:
        made.append(Obstacle(Taint(_STATE, "NoSchedule", node.labels.get(_STATE, "")), lifecycle))
    for taint in node.taints:
        if taint.effect in KEEPS_OUT and taint.key in _REASONS:
            made.append(Obstacle(taint, _REASONS[taint.key]))
        elif taint.effect in KEEPS_OUT and taint.key == _RESERVED and lifecycle:
            made.append(Obstacle(taint, lifecycle))
    return tuple(dict.fromkeys(made))
