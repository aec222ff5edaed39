"""What a root needs: how many Pods of which template, and which of them come only after others have started.

Sources: the controllers of LeaderWorkerSet (startupPolicy, exclusive topology), JobSet (startupPolicy, dependsOn,
exclusive topology), the MPI operator (launcherCreationPolicy), Volcano (dependsOn) and StatefulSet
(podManagementPolicy).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from msgspec import Struct

from policies.engine.request import JsonObject, mapping
from policies.objects.workload import Workload
from policies.topology.gang.membership import LEADER, LEADER_WORKER_SET, WORKER, role
from policies.topology.gang.podcount import due
from policies.topology.placer.opening import placement_of

KINDS: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        *(("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet")),
        *(("", "ReplicationController"), ("argoproj.io", "Rollout"), ("batch", "Job"), ("batch.volcano.sh", "Job")),
        *(("grove.io", "PodCliqueSet"), ("jobset.x-k8s.io", "JobSet"), ("ray.io", "RayCluster"), LEADER_WORKER_SET),
        *(("kubeflow.org", f"{name}Job") for name in ("MPI", "PyTorch", "TF", "XGBoost", "Paddle", "JAX")),
        *(("sunk.coreweave.com", "NodeSet"), ("slinky.slurm.net", "NodeSet")),
    }
)
"""Roots, and what stands above a ReplicaSet and says how many replicas there will be."""

STAGED: Final = frozenset(
    {
        *(LEADER_WORKER_SET, ("jobset.x-k8s.io", "JobSet"), ("kubeflow.org", "MPIJob")),
        *(("batch.volcano.sh", "Job"), ("apps", "StatefulSet")),
    }
)
"""The kinds of which some Pods may come only after others have started."""

_LWS_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
_JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


class Need(Struct, frozen=True):
    """Pods of one template that a root needs. role: see `Membership`. count: those that are due now.

    stage: those of a later stage come only after those of earlier ones have started. phase: those of a later phase come
    only after those of earlier ones are gone. single: whether they come one after the other.
    """

    role: str
    count: int
    template: JsonObject
    stage: int = 0
    phase: int = 0
    single: bool = False


def needs(obj: JsonObject, row: Workload, annotations: tuple[tuple[str, str], ...]) -> list[Need] | None:
    """The needs of the templates of a root with this placement; None if it is not known how many Pods they have.

    annotations: of the placement, see `placement_of`. Pods whose template has another one now are of no known number.
    """
    order = _order(obj, row)
    made = []
    for location, template in row.pods(obj):
        if not isinstance(template, dict) or placement_of(template) != annotations:
            continue
        count = due(row.group_kind, obj, location)
        if count is None:
            return None
        for name, number in _roles(row.group_kind, obj, role(row.group_kind, obj, location), count):
            stage, phase, single = order.get(name, order.get("", (0, 0, False)))
            made.append(Need(name, number, template, stage, phase, single))
    return made or None


def _roles(kind: tuple[str, str], obj: JsonObject, name: str, count: int) -> Iterator[tuple[str, int]]:
    """The roles of a template's Pods. Without a template of its own a leader is made from that of the workers."""
    leads = mapping(mapping(mapping(obj, "spec"), "leaderWorkerTemplate"), "leaderTemplate")
    if kind == LEADER_WORKER_SET and name == WORKER and not leads and count:
        yield LEADER, 1
        yield WORKER, count - 1
    else:
        yield name, count


_Order = Mapping[str, tuple[int, int, bool]]
"""By role: stage, phase, and whether the Pods come one after the other; under the empty name those of all others."""


def _order(obj: JsonObject, row: Workload) -> _Order:
    spec, annotations = mapping(obj, "spec"), mapping(mapping(obj, "metadata"), "annotations")
    match row.group_kind:
        case ("leaderworkerset.x-k8s.io", _):
            waits = spec.get("startupPolicy") == "LeaderReady" or _LWS_EXCLUSIVE in annotations
            return {WORKER: (1, 0, False)} if waits else {}
        case ("jobset.x-k8s.io", _):
            return _of_jobset(spec, is_exclusive=_JOBSET_EXCLUSIVE in annotations)
        case ("kubeflow.org", "MPIJob"):
            waits = spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
            return {"launcher": (1, 0, False)} if waits else {}
        case ("batch.volcano.sh", _):
            after = {_name(task): _names(mapping(task, "dependsOn").get("name")) for task in _maps(spec.get("tasks"))}
            return {name: (stage, 0, False) for name, stage in _depths(after).items() if name in after}
        case ("apps", "StatefulSet"):
            return {"": (0, 0, spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady")}
        case _:
            return {}


def _of_jobset(spec: JsonObject, *, is_exclusive: bool) -> _Order:
    jobs = _maps(spec.get("replicatedJobs"))
    ordered = mapping(spec, "startupPolicy").get("startupPolicyOrder") == "InOrder"
    after: dict[str, list[str]] = {}
    complete: dict[str, list[str]] = {}
    for number, job in enumerate(jobs):
        name = _name(job)
        given = _maps(job.get("dependsOn"))
        after[name] = [_name(jobs[number - 1])] if ordered and number else []
        after[name] += [_name(one) for one in given if one.get("status") != "Complete"]
        complete[name] = [_name(one) for one in given if one.get("status") == "Complete"]
    order = {}
    stages, phases = _depths(after), _depths(complete)
    for job in jobs:
        name, template = _name(job), mapping(job, "template")
        own = _JOBSET_EXCLUSIVE in mapping(mapping(template, "metadata"), "annotations")
        order[name] = (stages[name], phases[name], is_exclusive or own)
    return order


def _depths(after: Mapping[str, Sequence[str]]) -> Mapping[str, int]:
    """How many stages come before each. Where they depend on each other in a circle, the order is as written.

    Each is seen once: along every path there would be too many, as one may depend on all before it.
    """
    graph = {name: [other for other in others if other != name] for name, others in after.items()}
    try:
        order = [*TopologicalSorter(graph).static_order()]
    except CycleError:
        order = [*graph]
    depths: dict[str, int] = {}
    for name in order:
        depths[name] = max((1 + depths.get(other, 0) for other in graph.get(name, ())), default=0)
    return depths


def _maps(value: Any) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _name(holder: JsonObject) -> str:
    return str(holder.get("name") or "")


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
