"""To which gang a Pod belongs, told by its labels and its controller.

Sources: the labels that the controllers of JobSet, LeaderWorkerSet, Kubeflow, KubeRay and Volcano set on Pods; the
owner references and the hash labels that Kubernetes' own controllers set. Anybody may write such labels on a Pod of
their own, but only for workloads of the same namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from policies.engine.request import JsonObject, controller_reference, mapping
from policies.objects.fieldpath import Location, lookup
from policies.topology.gang.gang import GangKey

LEADER, WORKER = "leader", "worker"
LEADER_WORKER_SET = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
POD_CLIQUE_SET = ("grove.io", "PodCliqueSet")
_LWS, _JOBSET = "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/"
_KUBEFLOW, _RAY, _VOLCANO, _GROVE = "training.kubeflow.org/", "ray.io/", "volcano.sh/", "grove.io/"
# KubeRay's name for the group of a head, and what Volcano calls a task without a name.
_HEAD, _TASK = "headgroup", "default"
_SCALED = {"pod-template-hash": ("apps", "Deployment"), "rollouts-pod-template-hash": ("argoproj.io", "Rollout")}
_APART = frozenset({("apps", "DaemonSet"), ("", "Node")})


class Membership(Struct, frozen=True):
    """The gang of a Pod, and the role of its template among the workload's templates, see `role`."""

    key: GangKey
    role: str = ""


def membership(pod: JsonObject, namespace: str = "") -> Membership | None:
    """The gang of a Pod; None for one that stands alone on its Node, as DaemonSets and kubelets create them.

    namespace: of a Pod that does not tell its own. A Pod without a controller is a gang by itself.
    """
    metadata = mapping(pod, "metadata")
    labels = mapping(metadata, "labels")
    namespace = _text(metadata, "namespace") or namespace
    owner = _controller(pod)
    if _text(labels, f"{_LWS}name"):
        return _replica(metadata, labels, namespace)
    if owner is None:
        return Membership(GangKey(namespace, "", "Pod", _text(metadata, "name")))
    if (owner.group, owner.kind) in _APART:
        return None
    return _of_labels(metadata, labels, namespace, owner) or Membership(_of_owner(labels, namespace, owner))


def owner(obj: JsonObject) -> GangKey | None:
    """The object that controls an object, None without one."""
    metadata = mapping(obj, "metadata")
    controller = _controller(obj)
    if controller is None:
        return None
    return GangKey(_text(metadata, "namespace"), controller.group, controller.kind, controller.name)


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
        return _text(mapping({"": lookup(obj, location)}, ""), "name")
    depth, field, default = _NAMED.get(kind, (0, "", ""))
    return _text(mapping({"": lookup(obj, location[:-depth])}, ""), field) or default if depth else ""


class _Owner(Struct, frozen=True):
    """A controller, by group, kind and name."""

    group: str
    kind: str
    name: str


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
    return Membership(key, LEADER if leads else WORKER)


def _of_labels(metadata: JsonObject, labels: JsonObject, namespace: str, owner: _Owner) -> Membership | None:
    """The gang by the labels of controllers that put other objects between a workload and its Pods."""
    if name := _text(labels, f"{_JOBSET}jobset-name"):
        return Membership(
            GangKey(namespace, "jobset.x-k8s.io", "JobSet", name), _text(labels, f"{_JOBSET}replicatedjob-name")
        )
    if name := _text(labels, f"{_KUBEFLOW}job-name"):
        # The Pods of an MPIJob's launcher are those of a Job.
        kind = owner.kind if owner.group == "kubeflow.org" else "MPIJob"
        type_ = _text(labels, f"{_KUBEFLOW}replica-type") or _text(labels, f"{_KUBEFLOW}job-role")
        return Membership(GangKey(namespace, "kubeflow.org", kind, name), type_.lower())
    if name := _text(labels, f"{_RAY}cluster"):
        return Membership(GangKey(namespace, "ray.io", "RayCluster", name), _text(labels, f"{_RAY}group"))
    if name := _text(labels, f"{_GROVE}podclique"):
        of_set = _text(labels, "app.kubernetes.io/part-of")
        return Membership(GangKey(namespace, *POD_CLIQUE_SET, of_set), _clique(name, of_set, labels))
    if name := _text(labels, f"{_VOLCANO}job-name"):
        annotations = mapping(metadata, "annotations")
        task = _text(labels, f"{_VOLCANO}task-spec") or _text(annotations, f"{_VOLCANO}task-spec")
        return Membership(GangKey(namespace, "batch.volcano.sh", "Job", name), task)
    return None


def _clique(name: str, of_set: str, labels: JsonObject) -> str:
    """The name of a clique in its PodCliqueSet: the PodClique's without that of what it is numbered in.

    Source: Grove's api/common/namegen.go.
    """
    group = _text(labels, f"{_GROVE}podcliquescalinggroup")
    index = "podcliquescalinggroup-replica-index" if group else "podcliqueset-replica-index"
    return name.removeprefix(f"{group or of_set}-{_text(labels, f'{_GROVE}{index}')}-")


def _of_owner(labels: JsonObject, namespace: str, owner: _Owner) -> GangKey:
    """The gang by the controller, or by the object for which the controller works."""
    if (owner.group, owner.kind) == ("apps", "ReplicaSet"):
        for label, scaled in _SCALED.items():
            suffix = f"-{_text(labels, label)}"
            if len(suffix) > 1 and owner.name.endswith(suffix):
                return GangKey(namespace, *scaled, owner.name.removesuffix(suffix))
    if (owner.group, owner.kind) == ("apps", "StatefulSet") and _text(labels, "notebook-name") == owner.name:
        return GangKey(namespace, "kubeflow.org", "Notebook", owner.name)
    return GangKey(namespace, owner.group, owner.kind, owner.name)


def _controller(obj: JsonObject) -> _Owner | None:
    """The owner that is the controller."""
    reference = controller_reference(obj)
    if reference is None:
        return None
    group = _text(reference, "apiVersion").rpartition("/")[0]
    return _Owner(group, _text(reference, "kind"), _text(reference, "name"))


def _text(holder: Mapping[str, Any], key: str) -> str:
    """A text in a map; empty if it is absent or malformed."""
    value = holder.get(key)
    return value if isinstance(value, str) else ""
