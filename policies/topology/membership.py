"""To which root a Pod belongs, told by its labels and its controller: the object whose Pods start together.

Sources: the labels that the controllers of JobSet, LeaderWorkerSet, Kubeflow, KubeRay and Volcano set on Pods; the
owner references and the hash labels that Kubernetes' own controllers set. Anybody may write such labels on a Pod of
their own, but only for workloads of the same namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from policies.engine.request import JsonObject, Owner, as_map, controller_reference, mapping
from policies.objects.fieldpath import Location, lookup
from policies.topology.gang import GangKey

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
    if _text(labels, f"{_LWS}name"):
        return _replica(metadata, labels, namespace)
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


def _replica(metadata: JsonObject, labels: JsonObject, namespace: str) -> Membership:
    """The replica of a LeaderWorkerSet. A leader has no index yet when it is created, but its name ends in it.

    No other Pod can have that name.
    """
    name, index = _text(labels, f"{_LWS}name"), _text(labels, f"{_LWS}group-index")
    of_set, _, number = _text(metadata, "name").rpartition("-")
    leads = _text(labels, f"{_LWS}worker-index") == "0" and of_set == name and index in ("", number)
    key = GangKey(namespace, *LEADER_WORKER_SET, name, number if leads else index)
    revision = _text(labels, f"{_LWS}template-revision-hash")
    return Membership(key, LEADER if leads else WORKER, revision, _rank(labels, f"{_LWS}worker-index"))


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
        return Membership(key, _clique(name, of_set, labels), rank=rank)
    if name := _text(labels, f"{_VOLCANO}job-name"):
        annotations = mapping(metadata, "annotations")
        task = _text(labels, f"{_VOLCANO}task-spec") or _text(annotations, f"{_VOLCANO}task-spec")
        rank = _rank({**annotations, **labels}, f"{_VOLCANO}task-index")
        return Membership(GangKey(namespace, "batch.volcano.sh", "Job", name), task, rank=rank)
    return None


def _clique(name: str, of_set: str, labels: JsonObject) -> str:
    """The name of a clique in its PodCliqueSet: the PodClique's without that of what it is numbered in.

    Source: Grove's api/common/namegen.go.
    """
    group = _text(labels, f"{_GROVE}podcliquescalinggroup")
    index = "podcliquescalinggroup-replica-index" if group else "podcliqueset-replica-index"
    return name.removeprefix(f"{group or of_set}-{_text(labels, f'{_GROVE}{index}')}-")


def _rank(holder: JsonObject, *keys: str) -> tuple[int, ...]:
    """The numbers under these keys, those that are there."""
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
