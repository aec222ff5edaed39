"""How many Pods of each template of a workload work together at once.

Sources: the API types and defaults of each kind in Kubernetes and in its own project: JobSet, LeaderWorkerSet, Kubeflow
Trainer, Kubeflow's training operator and MPI operator, KubeRay, Volcano, Argo Rollouts, SUNK, Slinky, Grove.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from policies.engine.request import JsonObject, mapping
from policies.objects.fieldpath import Location, lookup
from policies.objects.workload import BUILT_IN
from policies.topology.gang.size import MOST_PODS

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
        name, jobs = mapping({"": lookup(obj, location[:-3])}, "").get("name"), status.get("replicatedJobsStatus")
        own = [job for job in jobs if mapping({"": job}, "").get("name") == name] if isinstance(jobs, list) else []
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
    """The replicas beside the template."""
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
    groups = mapping({"": template}, "").get("podCliqueScalingGroups")
    name = mapping({"": clique}, "").get("name")
    scaled = [
        _number(group, "replicas", 1)
        for group in (groups if isinstance(groups, list) else ())
        if isinstance(group, dict) and isinstance(names := group.get("cliqueNames"), list) and name in names
    ]
    own = _number(mapping({"": clique}, "").get("spec"), "replicas", 1)
    return _product(own, *scaled[:1])


def _job(obj: JsonObject, location: Location) -> int | None:
    """The Pods of a Job: its parallelism, but no more than its completions."""
    job = lookup(obj, location[:-1])
    parallelism, total = _number(job, "parallelism", 1), _number(job, "completions", _LARGEST)
    return None if parallelism is None or total is None else min(parallelism, total)


def _replicated_job(obj: JsonObject, location: Location) -> int | None:
    """The Pods of all Jobs that a JobSet makes from one of its replicated Jobs."""
    return _product(_number(lookup(obj, location[:-3]), "replicas", 1), _job(obj, location))


def _training(obj: JsonObject, location: Location) -> int | None:
    """The Pods of a TrainJob that states nothing else: the policy says on how many Nodes it trains."""
    labels = mapping(mapping(lookup(obj, location[:-2]), "metadata"), "labels")
    trains = labels.get(_STEP) == "trainer" or mapping({"": lookup(obj, location[:-3])}, "").get("name") == "node"
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
    if mapping({"": group}, "").get("suspend") is True:
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
