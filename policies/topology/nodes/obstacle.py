"""Why a Node takes no new Pods for now: it is cordoned, not ready, locked by SUNK, in triage.

An obstacle passes, unlike a taint with which people set a Node apart. Sources: "Taints and Tolerations" in the
Kubernetes documentation for the taints of Nodes in trouble; CoreWeave's page "Workload Scheduling on CKS" for the
labels `state` and `reserved-desired`, the taint `reserved` that follows them, and SUNK's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from policies.engine.facts import Node, Taint

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


def obstacles(node: Node, *, cordoned: bool = False, ready: bool = True) -> tuple[Obstacle, ...]:
    """The obstacles of a Node, in an order of their own; none if it takes new Pods."""
    return tuple(dict.fromkeys(_obstacles(node, cordoned=cordoned, ready=ready)))


def reasons(these: Iterable[Obstacle]) -> tuple[str, ...]:
    """The reasons, each once."""
    return tuple(dict.fromkeys(obstacle.reason for obstacle in these))


def lasting(node: Node) -> tuple[Taint, ...]:
    """What keeps Pods out for longer than a moment: taints that people set, and the state of a Node in repair."""
    passing = {obstacle.taint for obstacle in obstacles(node)}
    state = node.labels.get(_STATE) or _PRODUCTION
    repaired = (Taint(_STATE, "NoSchedule", state),) if state != _PRODUCTION else ()
    return (*repaired, *(taint for taint in node.taints if taint.effect in KEEPS_OUT and taint not in passing))


def _obstacles(node: Node, *, cordoned: bool, ready: bool) -> Iterator[Obstacle]:
    keys = {taint.key for taint in node.taints}
    if cordoned:
        # The scheduler, too, takes the field for this taint.
        yield Obstacle(Taint(_UNSCHEDULABLE, "NoSchedule"), _REASONS[_UNSCHEDULABLE])
    if not ready and keys.isdisjoint((_NOT_READY, _UNREACHABLE)):
        yield Obstacle(Taint(_NOT_READY, "NoSchedule"), _REASONS[_NOT_READY])
    lifecycle = _lifecycle(node)
    if lifecycle:
        yield Obstacle(Taint(_STATE, "NoSchedule", node.labels.get(_STATE, "")), lifecycle)
    for taint in node.taints:
        if taint.effect in KEEPS_OUT and taint.key in _REASONS:
            yield Obstacle(taint, _REASONS[taint.key])
        elif taint.effect in KEEPS_OUT and taint.key == _RESERVED and lifecycle:
            yield Obstacle(taint, lifecycle)


def _lifecycle(node: Node) -> str:
    """What CKS does with a Node instead of running workloads on it; empty for a Node in production."""
    state, desired = node.labels.get(_STATE) or _PRODUCTION, node.labels.get(_DESIRED)
    if state != _PRODUCTION:
        return f"in {state}"
    return "pending" if desired is not None and desired != node.labels.get(_RESERVED) else ""
