"""Topology-aware workload scheduling: the constraint with which kube-scheduler places all Pods of a Job together.

A domain of kube-scheduler is one value of one node label key. So the constraint is the same as a placement only where
the key's values are unique: superpod 1 of two fabrics would be one domain. From Kubernetes 1.37 on it stands in the
Job; in 1.36 it is set on the PodGroup that is made for the Job, when that is created, as it is immutable. Sources:
JobSchedulingConfiguration in the API of Kubernetes 1.37; pkg/controller/job/job_scheduling_manager.go, for the Jobs
that get a PodGroup with a gang.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Literal

from msgspec import Struct

from policies.engine.facts import Node
from policies.engine.interruption import FactUnavailable, Key
from policies.engine.request import JsonObject, as_map, controller_reference, mapping
from policies.kubernetes.spelling import with_article
from policies.podspec import node_demand
from policies.topology.template import Template
from policies.topology.term import meets

ANNOTATION: Final = "cks-admission.dev/workload-scheduling"
"""The annotation of the webhook configuration with what `manage` found out, as JSON."""

GROUP: Final = "scheduling.k8s.io"
POD_GROUP: Final = (GROUP, "PodGroup")
JOB: Final = ("batch", "Job")
JOB_VERSION: Final = ("batch", "v1", "Job")
FIELD: Final = ("spec", "scheduling")
"""The location of the constraint in a Job."""

CONSTRAINTS: Final = ("spec", "schedulingConstraints")
"""The location of the constraint in a PodGroup."""

_DEFAULT_SCHEDULERS = ("", "default-scheduler")
_ONLY_INDEXED = "Kubernetes 1.36 makes gangs only of Indexed Jobs with as many completions as Pods at a time"

Form = Literal["", "Job", "PodGroup"]
"""The kind whose spec takes a constraint: a Job from Kubernetes 1.37 on, in 1.36 the PodGroup that is made for it."""


class Support(Struct, frozen=True):
    """The form of a constraint that the cluster keeps; empty if it keeps none, and then the reason."""

    form: Form = ""
    reason: str = ""


class SupportKey(Key[Support], Struct, frozen=True):
    """The key of the cluster's support."""

    UNKNOWN: ClassVar[str] = "it is not known yet whether the cluster schedules workloads by topology"

    def failure(self, reason: str) -> Support | FactUnavailable:
        """No support. A placement must not fail because of that: another way is taken."""
        return Support(reason=f"{self.missing}: {reason}")


class JobKey(Key[JsonObject], Struct, frozen=True):
    """The key of a Job; its value is empty if it is gone, or another one by now."""

    UNKNOWN: ClassVar[str] = "Job {0.namespace}/{0.name} is not known yet"
    namespace: str
    name: str
    uid: str

    def failure(self, reason: str) -> JsonObject | FactUnavailable:
        """It could not be read: its PodGroup must not come to life without the constraint that the Job was told."""
        return FactUnavailable(f"{self.missing}, and {reason}")


class Offer(Struct, frozen=True):
    """The node label key of a constraint that does what a placement asks for; empty if there is none, and then why."""

    key: str = ""
    obstacle: str = ""


def offer(
    template: Template, group_kind: tuple[str, str], obj: JsonObject, support: Support, nodes: Iterable[Node]
) -> Offer:
    """Whether kube-scheduler can keep the promise of a placement for a new Job, or for a Pod in a PodGroup.

    nodes: all Nodes of the cluster; taints do not count, so that there may be an obstacle more than necessary.
    """
    if obstacle := support.reason if not support.form else _obstacle(template, group_kind, obj, support):
        return Offer(obstacle=obstacle)
    topology, required = template.topology, template.required
    if topology is None or required is None or not required.is_open:
        return Offer(obstacle="no level is required")
    level, name, demand = required.level, topology.called(required.level), node_demand(template.spec)
    eligible = [
        node.labels
        for node in nodes
        if any(key in node.labels for key in level.keys) and meets(node.labels, template.terms) and demand.allows(node)
    ]
    if not eligible:
        return Offer(obstacle=f"no Node that the Pods may run on has {with_article(name)}")
    # The first key under which all Nodes have a value; each value has to be in one place.
    common = next((key for key in level.keys if all(key in labels for labels in eligible)), "")
    if not common:
        return Offer(obstacle=f"not all Nodes have the same label for {name}: {', '.join(level.keys)}")
    places: dict[str, tuple[str | None, ...]] = {}
    for labels in eligible:
        value, place = labels[common], tuple(farther.value(labels) for farther in topology.above(level))
        if places.setdefault(value, place) != place:
            return Offer(obstacle=f"{name} {value} is in several places; name the one around it")
    return Offer(common)


def scheduling(key: str) -> JsonObject:
    """The value of `spec.scheduling` of a Job whose Pods all start in one domain of a key, or none of them."""
    return {"schedulingPolicy": {"gang": {}}, "schedulingConstraints": constraints(key)}


def constraints(key: str) -> JsonObject:
    """The scheduling constraints of a gang that belongs in one domain of a key."""
    return {"topology": [{"key": key}]}


def restored(obj: JsonObject, old: JsonObject | None) -> JsonObject | None:
    """The old value of `spec.scheduling` if it is as it is written here, and an update lacks it; None otherwise.

    Kubernetes refuses an update that clears it, and a manifest that is applied again does not have it.
    """
    is_lost = mapping(obj, "spec").get("scheduling") is None and is_written(old)
    return mapping(mapping(old, "spec"), "scheduling") if is_lost else None


def is_written(job: JsonObject | None) -> bool:
    """Whether a Job has a constraint as it is written here."""
    written = mapping(mapping(mapping(job, "spec"), "scheduling"), "schedulingConstraints")
    topology = written.get("topology")
    keys = [as_map(one).get("key") for one in topology] if isinstance(topology, list) else []
    return len(keys) == 1 and written == constraints(str(keys[0]))


def job_of(pod_group: JsonObject, namespace: str) -> JobKey | None:
    """The key of the Job for which a PodGroup is made, if it has no constraint of its own; None for others."""
    reference = controller_reference(pod_group)
    if reference is None or mapping(pod_group, "spec").get(CONSTRAINTS[1]) is not None:
        return None
    is_job = reference.get("kind") == "Job" and str(reference.get("apiVersion")).startswith("batch/")
    return JobKey(namespace, str(reference.get("name")), str(reference.get("uid"))) if is_job else None


def _obstacle(template: Template, group_kind: tuple[str, str], obj: JsonObject, support: Support) -> str:
    """Why a constraint cannot be set for an object; empty if it can."""
    spec, of_job = mapping(obj, "spec"), group_kind == JOB
    parallelism = spec.get("parallelism")
    says_itself = {"scheduling", "schedulingGroup"} & {*spec, *template.spec} and not is_written(obj)
    is_indexed = spec.get("completionMode") == "Indexed" and spec.get("completions") == parallelism
    obstacles = {
        f"Kubernetes makes no gang of a {group_kind[1]}": not of_job and "schedulingGroup" not in spec,
        "a preferred level is no part of Kubernetes' constraints": template.preferred is not None,
        f"its scheduler is {template.scheduler}": template.scheduler not in _DEFAULT_SCHEDULERS,
        "it says itself how it is scheduled": of_job and says_itself,
        "it has one Pod at a time": of_job and (not isinstance(parallelism, int) or parallelism < 2),
        _ONLY_INDEXED: of_job and support.form == "PodGroup" and not is_indexed,
    }
    return next((text for text, holds in obstacles.items() if holds), "")
