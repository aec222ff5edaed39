"""Topology-aware workload scheduling: the constraint with which kube-scheduler places all Pods of a Job together.

A domain of kube-scheduler is one value of one node label key. So the constraint is the same as a placement only where
the key's values are unique: superpod 1 of two fabrics would be one domain. Sources: JobSchedulingConfiguration in the
API of Kubernetes 1.37; pkg/controller/job/job_scheduling_manager.go, for the Jobs that get a PodGroup with a gang.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from policies.engine.facts import Node
from policies.engine.request import JsonObject, mapping
from policies.kubernetes.spelling import with_article
from policies.objects.nodeaffinity import allows
from policies.topology.constraint import Constraint
from policies.topology.scheduling.support import Support
from policies.topology.term import meets
from policies.topology.topology import Level, Topology

JOB = ("batch", "Job")
FIELD = ("spec", "scheduling")
"""The location of the constraint in a Job."""

_DEFAULT_SCHEDULERS = ("", "default-scheduler")
_ONLY_INDEXED = "Kubernetes 1.36 makes gangs only of Indexed Jobs with as many completions as Pods at a time"


class Offer(Struct, frozen=True):
    """The node label key of a constraint that does what a placement asks for; empty if there is none, and then why."""

    key: str = ""
    obstacle: str = ""


def offer(
    constraint: Constraint, group_kind: tuple[str, str], obj: JsonObject, support: Support, nodes: Iterable[Node]
) -> Offer:
    """Whether kube-scheduler can keep the promise of a placement for a new object without a controller owner.

    nodes: all Nodes of the cluster; taints do not count, so that there may be an obstacle more than necessary.
    """
    if obstacle := support.reason if not support.form else _obstacle(constraint, group_kind, obj, support):
        return Offer(obstacle=obstacle)
    topology, required = constraint.topology, constraint.required
    if topology is None or required is None:
        return Offer(obstacle="no level is required")
    eligible = list(_eligible(constraint, required.level, nodes))
    if not eligible:
        return Offer(obstacle=f"no Node that the Pods may run on has {with_article(topology.called(required.level))}")
    return _unique(required.level, topology, eligible)


def scheduling(key: str) -> JsonObject:
    """The value of `spec.scheduling` of a Job whose Pods all start in one domain of a key, or none of them."""
    return {"schedulingPolicy": {"gang": {}}, "schedulingConstraints": constraints(key)}


def constraints(key: str) -> JsonObject:
    """The scheduling constraints of a gang that belongs in one domain of a key."""
    return {"topology": [{"key": key}]}


def restored(obj: JsonObject, old: JsonObject | None, key: str) -> JsonObject | None:
    """The old value of `spec.scheduling` if it was written for a key and an update lacks it; None otherwise.

    Kubernetes refuses an update that clears it, and a manifest that is applied again does not have it.
    """
    before = mapping(old, "spec").get("scheduling")
    if not key or mapping(obj, "spec").get("scheduling") is not None or not isinstance(before, dict):
        return None
    return before if before.get("schedulingConstraints") == constraints(key) else None


def _obstacle(constraint: Constraint, group_kind: tuple[str, str], obj: JsonObject, support: Support) -> str:
    """Why a constraint cannot be set for an object; empty if it can."""
    spec, template = mapping(obj, "spec"), constraint.template
    parallelism = spec.get("parallelism")
    obstacles = {
        f"Kubernetes makes no gang of a {group_kind[1]}": group_kind != JOB,
        "a preferred level is no part of Kubernetes' constraints": constraint.preferred is not None,
        f"its scheduler is {template.scheduler}": template.scheduler not in _DEFAULT_SCHEDULERS,
        "it says itself how it is scheduled": {"scheduling", "schedulingGroup"} & {*spec, *template.spec},
        "it has one Pod at a time": not isinstance(parallelism, int) or parallelism < 2,
        _ONLY_INDEXED: support.form == "PodGroup" and not _is_gang_in_1_36(spec),
    }
    return next((text for text, holds in obstacles.items() if holds), "")


def _is_gang_in_1_36(spec: JsonObject) -> bool:
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")


def _eligible(constraint: Constraint, level: Level, nodes: Iterable[Node]) -> Iterator[Node]:
    """The Nodes of the level that the template's own terms and those of the placement allow."""
    spec: dict[str, Any] = constraint.template.spec
    for node in nodes:
        if (
            any(key in node.labels for key in level.keys)
            and meets(node.labels, constraint.terms)
            and allows(spec, node)
        ):
            yield node


def _unique(level: Level, topology: Topology, nodes: Sequence[Node]) -> Offer:
    """The first key of a level under which all Nodes have a value, if each value is in one place."""
    name = topology.called(level)
    common = next((key for key in level.keys if all(key in node.labels for node in nodes)), "")
    if not common:
        return Offer(obstacle=f"not all Nodes have the same label for {name}: {', '.join(level.keys)}")
    above = topology.above(level)
    places: dict[str, tuple[str | None, ...]] = {}
    for node in nodes:
        value, place = node.labels[common], tuple(farther.value(node.labels) for farther in above)
        if places.setdefault(value, place) != place:
            return Offer(obstacle=f"{name} {value} is in several places; name the one around it")
    return Offer(common)
