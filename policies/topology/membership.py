"""Which Pods start together: the root of a Pod, and how many Pods of each template a root has, and in which order.

A Pod's root is told by its labels and its controller. Anybody may write such labels on a Pod of their own, but only for
workloads of the same namespace.

Sources: the owner references and hash labels that Kubernetes' own controllers set; the API types, defaults, labels and
controllers of each kind in Kubernetes and in its own project: JobSet, LeaderWorkerSet, Kubeflow Trainer, Kubeflow's
training operator and MPI operator, KubeRay, Volcano, Argo Rollouts, SUNK, Slinky, Grove.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any, Final

from msgspec import Struct

from policies.engine.request import JsonObject, Owner, as_map, controller_reference, mapping, mappings
from policies.objects.fieldpath import Location, lookup
from policies.objects.workload import BUILT_IN, Workload
from policies.topology.gang import MOST_PODS, GangKey
from policies.topology.placement import ANNOTATIONS

LEADER, WORKER = "leader", "worker"
LEADER_WORKER_SET = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
POD_CLIQUE_SET = ("grove.io", "PodCliqueSet")
_LWS, _JOBSET = "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/"
_KUBEFLOW, _RAY, _VOLCANO, _GROVE = "training.kubeflow.org/", "ray.io/", "volcano.sh/", "grove.io/"
# KubeRay's name for the group of a head, and what Volcano calls a task without a name.
_HEAD, _TASK = "headgroup", "default"
_INDEX = "batch.kubernetes.io/job-completion-index"
_DIGITS = 10
_APART = frozenset({("apps", "DaemonSet"), ("", "Node")})


class Membership(Struct, frozen=True):
    """The root of a Pod, and what the Pod is in it.

    role: of its template among the root's templates, see `role`. revision: of the root, where Pods of several revisions
    do not start together. rank: its numbers among the Pods of its role, as neighbours talk most; empty without any.
    """

    key: GangKey
    role: str = ""
    revision: str = ""
    rank: tuple[int, ...] = ()


def membership(pod: JsonObject, namespace: str = "") -> Membership | None:
    """The root of a Pod; None for one that stands alone on its Node, as DaemonSets and kubelets create them.

    namespace: of a Pod that does not tell its own. A Pod without a controller is its own root.
    """
    metadata = mapping(pod, "metadata")
    labels = mapping(metadata, "labels")
    namespace = _text(metadata, "namespace") or namespace
    owner = _controller(pod)
    if name := _text(labels, f"{_LWS}name"):
        # A leader has no index yet when it is created, but its name, which no other Pod can have, ends in it.
        index, (of_set, _, number) = _text(labels, f"{_LWS}group-index"), _text(metadata, "name").rpartition("-")
        leads = _text(labels, f"{_LWS}worker-index") == "0" and of_set == name and index in ("", number)
        key = GangKey(namespace, *LEADER_WORKER_SET, name, number if leads else index)
        revision = _text(labels, f"{_LWS}template-revision-hash")
        return Membership(key, LEADER if leads else WORKER, revision, _rank(labels, f"{_LWS}worker-index"))
    if owner is None:
        return Membership(GangKey(namespace, "", "Pod", _text(metadata, "name")))
    if owner.group_kind in _APART:
        return None
    of_labels = _of_labels(metadata, labels, namespace, owner)
    if of_labels is not None:
        return of_labels
    key = GangKey(namespace, *owner.group_kind, owner.name)
    if owner.group_kind == ("apps", "StatefulSet"):
        ordinal = _text(metadata, "name").removeprefix(f"{owner.name}-")
        return Membership(key, rank=_rank({"ordinal": ordinal}, "ordinal"))
    return Membership(key, rank=_rank(labels, _INDEX) or _rank(mapping(metadata, "annotations"), _INDEX))


def owner(obj: JsonObject) -> GangKey | None:
    """The object that controls an object, None without one."""
    metadata = mapping(obj, "metadata")
    controller = _controller(obj)
    if controller is None:
        return None
    return GangKey(_text(metadata, "namespace"), *controller.group_kind, controller.name)


def identity(obj: JsonObject) -> GangKey:
    """The key of a workload's gangs, for a LeaderWorkerSet without the part."""
    metadata = mapping(obj, "metadata")
    group, _, _ = str(obj.get("apiVersion") or "").rpartition("/")
    return GangKey(_text(metadata, "namespace"), group, str(obj.get("kind") or ""), _text(metadata, "name"))


def role(kind: tuple[str, str], obj: JsonObject, location: Location) -> str:
    """The role of the Pods from the template at a location: what `membership` tells of such a Pod.

    It is the name of a replicated Job, task, worker group or replica type; empty for kinds with one template.
    """
    if kind == LEADER_WORKER_SET:
        return LEADER if location[-1:] == ("leaderTemplate",) else WORKER
    if kind in _TYPED:
        return str(location[-2]).lower()
    if kind[0] == "ray.io" and "headGroupSpec" in location:
        return _HEAD
    if kind == POD_CLIQUE_SET:
        return _text(as_map(lookup(obj, location)), "name")
    depth, field, default = _NAMED.get(kind, (0, "", ""))
    return _text(as_map(lookup(obj, location[:-depth])), field) or default if depth else ""


_TYPED = frozenset(("kubeflow.org", f"{name}Job") for name in ("MPI", "PyTorch", "TF", "XGBoost", "Paddle", "JAX"))
# By kind, how far above a template the name of its role stands, its field, and the role without a name.
_NAMED: Mapping[tuple[str, str], tuple[int, str, str]] = {
    ("batch.volcano.sh", "Job"): (1, "name", _TASK),
    ("jobset.x-k8s.io", "JobSet"): (3, "name", ""),
    **{("ray.io", f"Ray{name}"): (1, "groupName", "") for name in ("Cluster", "Job", "Service")},
    **{("trainer.kubeflow.org", f"{name}TrainingRuntime"): (3, "name", "") for name in ("", "Cluster")},
}


def _of_labels(metadata: JsonObject, labels: JsonObject, namespace: str, owner: Owner) -> Membership | None:
    """The gang by the labels of controllers that put other objects between a workload and its Pods."""
    if name := _text(labels, f"{_JOBSET}jobset-name"):
        rank = _rank(labels, f"{_JOBSET}job-index", _INDEX)
        key = GangKey(namespace, "jobset.x-k8s.io", "JobSet", name)
        return Membership(key, _text(labels, f"{_JOBSET}replicatedjob-name"), rank=rank)
    if name := _text(labels, f"{_KUBEFLOW}job-name"):
        # The Pods of an MPIJob's launcher are those of a Job.
        kind = owner.kind if owner.group_kind[0] == "kubeflow.org" else "MPIJob"
        type_ = _text(labels, f"{_KUBEFLOW}replica-type") or _text(labels, f"{_KUBEFLOW}job-role")
        rank = _rank(labels, f"{_KUBEFLOW}replica-index")
        return Membership(GangKey(namespace, "kubeflow.org", kind, name), type_.lower(), rank=rank)
    if name := _text(labels, f"{_RAY}cluster"):
        rank = _rank(labels, f"{_RAY}worker-group-replica-index", f"{_RAY}replica-host-index")
        key = GangKey(namespace, "ray.io", "RayCluster", name)
        return Membership(key, _text(labels, f"{_RAY}group"), rank=rank)
    if name := _text(labels, f"{_GROVE}podclique"):
        of_set = _text(labels, "app.kubernetes.io/part-of")
        key = GangKey(namespace, *POD_CLIQUE_SET, of_set, _text(labels, f"{_GROVE}podcliqueset-replica-index"))
        rank = _rank(labels, f"{_GROVE}podcliquescalinggroup-replica-index", f"{_GROVE}podclique-pod-index")
        # The clique's name is the PodClique's without that of what it is numbered in: Grove's api/common/namegen.go.
        group = _text(labels, f"{_GROVE}podcliquescalinggroup")
        index = "podcliquescalinggroup-replica-index" if group else "podcliqueset-replica-index"
        clique = name.removeprefix(f"{group or of_set}-{_text(labels, f'{_GROVE}{index}')}-")
        return Membership(key, clique, rank=rank)
    if name := _text(labels, f"{_VOLCANO}job-name"):
        annotations = mapping(metadata, "annotations")
        task = _text(labels, f"{_VOLCANO}task-spec") or _text(annotations, f"{_VOLCANO}task-spec")
        rank = _rank({**annotations, **labels}, f"{_VOLCANO}task-index")
        return Membership(GangKey(namespace, "batch.volcano.sh", "Job", name), task, rank=rank)
    return None


def _rank(holder: JsonObject, *keys: str) -> tuple[int, ...]:
    texts = (_text(holder, key) for key in keys)
    return tuple(int(text) for text in texts if text.isdecimal() and len(text) < _DIGITS)


def _controller(obj: JsonObject) -> Owner | None:
    """The owner that is the controller; what is malformed in the reference to it is empty."""
    reference = controller_reference(obj)
    fields = ("apiVersion", "kind", "name", "uid")
    return None if reference is None else Owner(*(_text(reference, field) for field in fields))


def _text(holder: Mapping[str, Any], key: str) -> str:
    """A text in a map; empty if it is absent or malformed."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""


_LARGEST = 2**31 - 1  # the API's counts are of 32 bits
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"

Count = Callable[[JsonObject, Location], int | None]


def placement_of(template: Any) -> tuple[tuple[str, str], ...]:
    """The annotations of the placement that a Pod or a template carries, in order; empty without any."""
    written = mapping(as_map(template), "metadata")
    annotations = mapping(written, "annotations")
    return tuple((key, str(annotations[key])) for key in ANNOTATIONS if key in annotations)


def podcount(kind: tuple[str, str], obj: JsonObject, location: Location) -> int | None:
    """How many Pods of the template at a location there are at once; of some kinds in each replica, see `membership`.

    None if that is not known: nothing says how many (a kind of the configuration without a count, a malformed count),
    or the Pods of the kind do not belong together (a DaemonSet has one on each Node). kind: group and kind.
    """
    count = _COUNTS.get(kind, None if kind in _BUILT_IN else _nearest)
    if count is None:
        return None
    pods = _number(lookup(obj, location[:-1]), "replicas", count) if isinstance(count, int) else count(obj, location)
    return None if pods is None else min(pods, MOST_PODS)


def due(kind: tuple[str, str], obj: JsonObject, location: Location) -> int | None:
    """How many Pods of the template at a location are due now, by the status of the root; None if that is not known.

    What is suspended has none. Of a Job those that have succeeded or failed for good are gone; one without completions
    makes no new Pods once one has succeeded.
    """
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    if spec.get("suspend") is True or mapping(spec, "runPolicy").get("suspend") is True:
        return 0
    pods = podcount(kind, obj, location)
    if pods is None:
        return None
    # How many of them will not come any more.
    over, done = 0, _number(status, "succeeded", 0) or 0
    if kind == ("batch", "Job") and isinstance(total := spec.get("completions"), int):
        over = max(0, pods - (total - done - _indexes(status.get("failedIndexes"))))
    elif kind == ("batch", "Job"):
        over = pods - (_number(status, "active", 0) or 0) if done else 0
    elif kind == ("jobset.x-k8s.io", "JobSet"):
        # It counts Jobs, of which each is over with all of its Pods.
        name = as_map(lookup(obj, location[:-3])).get("name")
        own = next((job for job in mappings(status, "replicatedJobsStatus") if job.get("name") == name), {})
        jobs = sum((_number(own, field, 0) or 0) for field in ("succeeded", "failed"))
        over = jobs * (_job(obj, location) or 0)
    elif kind[0] == "kubeflow.org":
        over = _number(mapping(mapping(status, "replicaStatuses"), str(location[-2])), "succeeded", 0) or 0
    return max(0, pods - over)


def _indexes(text: Any) -> int:
    count = 0
    for part in text.split(",") if isinstance(text, str) and text else ():
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            count += int(last or first) - int(first) + 1
    return count


def _number(holder: Any, field: str, default: int) -> int | None:
    value = holder.get(field) if isinstance(holder, dict) else None
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def _product(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return prod(known) if len(known) == len(counts) else None


def _clique(obj: JsonObject, location: Location) -> int | None:
    """The Pods of a clique in all replicas of its scaling group, in one replica of the PodCliqueSet."""
    clique = as_map(lookup(obj, location))
    groups = mappings(as_map(lookup(obj, location[:-2])), "podCliqueScalingGroups")
    scaled = [
        _number(group, "replicas", 1)
        for group in groups
        if isinstance(names := group.get("cliqueNames"), list) and clique.get("name") in names
    ]
    return _product(_number(clique.get("spec"), "replicas", 1), *scaled[:1])


def _job(obj: JsonObject, location: Location) -> int | None:
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


def _nodes(obj: JsonObject, location: Location) -> int | None:
    """The replicas of a NodeSet. Without a number there is a Pod on every Node that its selector matches."""
    replicas = mapping(obj, "spec").get("replicas")
    return _number(lookup(obj, location[:-1]), "replicas", 1) if isinstance(replicas, int) else None


_BUILT_IN = frozenset(row.group_kind for row in BUILT_IN)
_TRAINED = ("PyTorch", "TF", "XGBoost", "Paddle", "JAX")
# How Pods are counted. A number stands for the replicas beside the template, and says how many there are by default.
_COUNTS: Mapping[tuple[str, str], int | Count] = {
    **{("", kind): 1 for kind in ("Pod", "ReplicationController")},
    **{("apps", kind): 1 for kind in ("Deployment", "ReplicaSet", "StatefulSet")},
    ("argoproj.io", "Rollout"): 1,
    **{("batch", kind): _job for kind in ("Job", "CronJob")},
    ("batch.volcano.sh", "Job"): 0,
    ("grove.io", "PodCliqueSet"): _clique,
    ("jobset.x-k8s.io", "JobSet"): _replicated_job,
    ("kubeflow.org", "MPIJob"): _mpi,
    **{("kubeflow.org", kind): 1 for kind in ("Notebook", *(f"{name}Job" for name in _TRAINED))},
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _replica,
    **{("ray.io", f"Ray{name}"): _ray for name in ("Cluster", "Job", "Service")},
    **{(group, "NodeSet"): _nodes for group in ("sunk.coreweave.com", "slinky.slurm.net")},
    **{("trainer.kubeflow.org", f"{name}TrainingRuntime"): _training for name in ("", "Cluster")},
}


ROOT_KINDS: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        *(("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet")),
        *(("", "ReplicationController"), ("argoproj.io", "Rollout"), ("batch", "Job"), ("batch.volcano.sh", "Job")),
        *(("grove.io", "PodCliqueSet"), ("jobset.x-k8s.io", "JobSet"), ("ray.io", "RayCluster"), LEADER_WORKER_SET),
        *(("kubeflow.org", f"{name}Job") for name in ("MPI", *_TRAINED)),
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
    kind, order = row.group_kind, _order(obj, row)
    made = []
    for location, template in row.pods(obj):
        if not isinstance(template, dict) or placement_of(template) != annotations:
            continue
        count, name = due(kind, obj, location), role(kind, obj, location)
        if count is None:
            return None
        roles = [(name, count)]
        leads = mapping(mapping(mapping(obj, "spec"), "leaderWorkerTemplate"), "leaderTemplate")
        if kind == LEADER_WORKER_SET and name == WORKER and not leads and count:
            # Without a template of its own a leader is made from that of the workers.
            roles = [(LEADER, 1), (WORKER, count - 1)]
        made += [Need(one, pods, template, *order.get(one, order.get("", (0, 0, False)))) for one, pods in roles]
    return made or None


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
            after = {}
            for task in mappings(spec, "tasks"):
                names = mapping(task, "dependsOn").get("name")
                after[_name(task)] = [n for n in names if isinstance(n, str)] if isinstance(names, list) else []
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
        name, given = _name(job), mappings(job, "dependsOn")
        after[name] = [_name(jobs[number - 1])] if ordered and number else []
        after[name] += [_name(one) for one in given if one.get("status") != "Complete"]
        complete[name] = [_name(one) for one in given if one.get("status") == "Complete"]
    stages, phases = _depths(after), _depths(complete)
    alone = {
        _name(job): _JOBSET_EXCLUSIVE in mapping(mapping(mapping(job, "template"), "metadata"), "annotations")
        for job in jobs
    }
    return {name: (stages[name], phases[name], is_exclusive or own) for name, own in alone.items()}


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
