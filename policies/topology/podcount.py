"""How many Pods of each template a workload has, and which of them come only after others have started.

Sources: the API types, defaults and controllers of each kind in Kubernetes and in its own project: JobSet,
LeaderWorkerSet, Kubeflow Trainer, Kubeflow's training operator and MPI operator, KubeRay, Volcano, Argo Rollouts, SUNK,
Slinky, Grove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from msgspec import Struct

from policies.engine.request import JsonObject, as_map, mapping, mappings
from policies.objects.fieldpath import Location, lookup
from policies.objects.workload import BUILT_IN, Workload
from policies.topology.gang import MOST_PODS
from policies.topology.membership import LEADER, LEADER_WORKER_SET, WORKER, role
from policies.topology.placer.opening import placement_of

_LARGEST = 2**31 - 1  # the API's counts are of 32 bits
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"

Count = Callable[[JsonObject, Location], int | None]


def podcount(kind: tuple[str, str], obj: JsonObject, location: Location) -> int | None:
    """How many Pods of the template at a location there are at once; of some kinds in each replica, see `membership`.

    None if that is not known: nothing says how many (a kind of the configuration without a count, a malformed count),
    or the Pods of the kind do not belong together (a DaemonSet has one on each Node). kind: group and kind.
    """
    count = _COUNTS.get(kind, None if kind in _BUILT_IN else _nearest)
    pods = None if count is None else count(obj, location)
    return None if pods is None else min(pods, MOST_PODS)


def due(kind: tuple[str, str], obj: JsonObject, location: Location) -> int | None:
    """How many Pods of the template at a location are due now, by the status of the root; None if that is not known.

    What is suspended has none. Of a Job those that have succeeded or failed for good are gone; one without completions
    makes no new Pods once one has succeeded.
    """
    spec = mapping(obj, "spec")
    if spec.get("suspend") is True or mapping(spec, "runPolicy").get("suspend") is True:
        return 0
    pods = podcount(kind, obj, location)
    return None if pods is None else max(0, pods - _over(kind, obj, location, pods))


def _over(kind: tuple[str, str], obj: JsonObject, location: Location, pods: int) -> int:
    """How many Pods of a template will not come any more, of those that there are at once."""
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    done = _number(status, "succeeded", 0) or 0
    if kind == ("batch", "Job") and isinstance(total := spec.get("completions"), int):
        return max(0, pods - (total - done - _indexes(status.get("failedIndexes"))))
    if kind == ("batch", "Job"):
        return pods - (_number(status, "active", 0) or 0) if done else 0
    if kind == ("jobset.x-k8s.io", "JobSet"):
        # It counts Jobs, of which each is over with all of its Pods.
        name, jobs = as_map(lookup(obj, location[:-3])).get("name"), status.get("replicatedJobsStatus")
        own = [job for job in jobs if as_map(job).get("name") == name] if isinstance(jobs, list) else []
        over = sum((_number(own[0], field, 0) or 0) for field in ("succeeded", "failed")) if own else 0
        return over * (_job(obj, location) or 0)
    if kind[0] == "kubeflow.org":
        return _number(mapping(mapping(status, "replicaStatuses"), str(location[-2])), "succeeded", 0) or 0
    return 0


def _indexes(text: Any) -> int:
    """How many indexes a Job's status lists: `1,3-5,7`."""
    count = 0
    for part in text.split(",") if isinstance(text, str) and text else ():
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            count += int(last or first) - int(first) + 1
    return count


def _number(holder: Any, field: str, default: int) -> int | None:
    """A count in a map; None if it is malformed."""
    value = holder.get(field) if isinstance(holder, dict) else None
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def _product(*counts: int | None) -> int | None:
    product = 1
    for count in counts:
        if count is None:
            return None
        product *= count
    return product


def _single(_obj: JsonObject, _location: Location) -> int | None:
    return 1


def _replicas(obj: JsonObject, location: Location) -> int | None:
    return _number(lookup(obj, location[:-1]), "replicas", 1)


def _tasks(obj: JsonObject, location: Location) -> int | None:
    """The replicas of a task of a Volcano Job, which has none by default."""
    return _number(lookup(obj, location[:-1]), "replicas", 0)


def _nodes(obj: JsonObject, location: Location) -> int | None:
    """The replicas of a NodeSet. Without a number there is a Pod on every Node that its selector matches."""
    return _replicas(obj, location) if isinstance(mapping(obj, "spec").get("replicas"), int) else None


def _clique(obj: JsonObject, location: Location) -> int | None:
    """The Pods of a clique in all replicas of its scaling group, in one replica of the PodCliqueSet."""
    clique, template = lookup(obj, location), lookup(obj, location[:-2])
    groups = as_map(template).get("podCliqueScalingGroups")
    name = as_map(clique).get("name")
    scaled = [
        _number(group, "replicas", 1)
        for group in (groups if isinstance(groups, list) else ())
        if isinstance(group, dict) and isinstance(names := group.get("cliqueNames"), list) and name in names
    ]
    own = _number(as_map(clique).get("spec"), "replicas", 1)
    return _product(own, *scaled[:1])


def _job(obj: JsonObject, location: Location) -> int | None:
    """The Pods of a Job: its parallelism, but no more than its completions."""
    job = lookup(obj, location[:-1])
    parallelism, total = _number(job, "parallelism", 1), _number(job, "completions", _LARGEST)
    return None if parallelism is None or total is None else min(parallelism, total)


def _replicated_job(obj: JsonObject, location: Location) -> int | None:
    return _product(_number(lookup(obj, location[:-3]), "replicas", 1), _job(obj, location))


def _training(obj: JsonObject, location: Location) -> int | None:
    """The Pods of a TrainJob that states nothing else: the policy says on how many Nodes it trains."""
    labels = mapping(mapping(lookup(obj, location[:-2]), "metadata"), "labels")
    trains = labels.get(_STEP) == "trainer" or as_map(lookup(obj, location[:-3])).get("name") == "node"
    nodes = mapping(mapping(obj, "spec"), "mlPolicy")
    return _number(nodes, "numNodes", 1) if trains and "numNodes" in nodes else _replicated_job(obj, location)


def _mpi(obj: JsonObject, location: Location) -> int | None:
    """The replicas of a launcher, one by default, or of workers, none by default."""
    return _number(lookup(obj, location[:-1]), "replicas", 0 if location[-2] == "Worker" else 1)


def _ray(obj: JsonObject, location: Location) -> int | None:
    """One head and one submitter; the replicas of a worker group within its bounds, each on several hosts."""
    if "workerGroupSpecs" not in location:
        return 1
    group = lookup(obj, location[:-1])
    if as_map(group).get("suspend") is True:
        return 0
    replicas, hosts = _number(group, "replicas", 0), _number(group, "numOfHosts", 1)
    least, most = _number(group, "minReplicas", 0), _number(group, "maxReplicas", _LARGEST)
    if replicas is None or least is None or most is None:
        return None
    return _product(min(max(replicas, least), most), hosts)


def _replica(obj: JsonObject, location: Location) -> int | None:
    """The leader or the workers of a replica. The leader is made from the workers' template if it has none of its own.

    Source: LeaderWorkerSet's API: `size` counts the leader too.
    """
    if location[-1] == "leaderTemplate":
        return 1
    holder = lookup(obj, location[:-1])
    size = _number(holder, "size", 1)
    leads = isinstance(holder, dict) and isinstance(holder.get("leaderTemplate"), dict)
    return None if size is None else max(size - leads, 0)


def _nearest(obj: JsonObject, location: Location) -> int | None:
    """The count beside the template or nearest above it, for kinds of the configuration; None without one."""
    for depth in range(len(location) - 1, -1, -1):
        holder = lookup(obj, location[:depth])
        for field in ("replicas", "parallelism"):
            if isinstance(holder, dict) and field in holder:
                return _number(holder, field, 1)
    return None


_BUILT_IN = frozenset(row.group_kind for row in BUILT_IN)
_COUNTS: Mapping[tuple[str, str], Count] = {
    ("", "Pod"): _single,
    ("", "ReplicationController"): _replicas,
    ("apps", "Deployment"): _replicas,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _replicas,
    ("argoproj.io", "Rollout"): _replicas,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _job,
    ("batch.volcano.sh", "Job"): _tasks,
    ("grove.io", "PodCliqueSet"): _clique,
    ("jobset.x-k8s.io", "JobSet"): _replicated_job,
    ("kubeflow.org", "MPIJob"): _mpi,
    **{("kubeflow.org", f"{name}Job"): _replicas for name in ("PyTorch", "TF", "XGBoost", "Paddle", "JAX")},
    ("kubeflow.org", "Notebook"): _single,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _replica,
    **{("ray.io", f"Ray{name}"): _ray for name in ("Cluster", "Job", "Service")},
    ("sunk.coreweave.com", "NodeSet"): _nodes,
    ("slinky.slurm.net", "NodeSet"): _nodes,
    **{("trainer.kubeflow.org", f"{name}TrainingRuntime"): _training for name in ("", "Cluster")},
}


ROOT_KINDS: Final[frozenset[tuple[str, str]]] = frozenset(
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
            after = {_name(task): _names(mapping(task, "dependsOn").get("name")) for task in mappings(spec, "tasks")}
            return {name: (stage, 0, False) for name, stage in _depths(after).items() if name in after}
        case ("apps", "StatefulSet"):
            return {"": (0, 0, spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady")}
        case _:
            return {}


def _of_jobset(spec: JsonObject, *, is_exclusive: bool) -> _Order:
    jobs = mappings(spec, "replicatedJobs")
    ordered = mapping(spec, "startupPolicy").get("startupPolicyOrder") == "InOrder"
    after: dict[str, list[str]] = {}
    complete: dict[str, list[str]] = {}
    for number, job in enumerate(jobs):
        name = _name(job)
        given = mappings(job, "dependsOn")
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


def _name(holder: JsonObject) -> str:
    return str(holder.get("name") or "")


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
