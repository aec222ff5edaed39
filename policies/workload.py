"""Where the pod templates of each kind are, and which other metadata a controller copies labels from.

A rule about Pods is a rule about pod templates too, so that a person sees the answer on `kubectl apply` of a Deployment
and not in a ReplicaSet's events. This table is the only place that knows the kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from policies.fieldpath import Pattern, parse


class Workload(Struct, frozen=True):
    """What is copied from objects of a kind to objects that a controller or the API server writes.

    templates: pod templates (maps with `metadata` and `spec`); the empty pattern is the object itself, a Pod.
    jobs: templates of the objects between the workload and its Pods; their metadata ends on those objects.
    claims: claim templates; their metadata ends on PersistentVolumeClaims or ResourceClaims.
    node_labels: maps of labels that end on Nodes.
    """

    group: str
    kind: str
    templates: tuple[Pattern, ...] = ()
    jobs: tuple[Pattern, ...] = ()
    claims: tuple[Pattern, ...] = ()
    node_labels: tuple[Pattern, ...] = ()


def workload(
    group: str,
    kind: str,
    templates: Iterable[str] = (),
    *,
    jobs: Iterable[str] = (),
    claims: Iterable[str] = (),
    node_labels: Iterable[str] = (),
) -> Workload:
    """A row of the table from paths in their written form. Raises ValueError on a path that does not parse."""
    patterns = [tuple(parse(path) for path in paths) for paths in (templates, jobs, claims, node_labels)]
    return Workload(group, kind, *patterns)


_POD_TEMPLATE = ("spec.template",)
_LWS = "spec.leaderWorkerTemplate"
_LWS_TEMPLATES = (f"{_LWS}.leaderTemplate", f"{_LWS}.workerTemplate")
_LWS_CLAIMS = (f"{_LWS}.volumeClaimTemplates[*]",)
_STATEFUL_CLAIMS = ("spec.volumeClaimTemplates[*]",)
_REPLICATED_JOB = "spec.replicatedJobs[*].template"
_TRAINER_JOB = f"spec.template.{_REPLICATED_JOB}"
_RAY_GROUPS = ("headGroupSpec.template", "workerGroupSpecs[*].template")
_KUBEFLOW = {"MPI": "mpi", "PyTorch": "pytorch", "TF": "tf", "XGBoost": "xgb", "Paddle": "paddle", "JAX": "jax"}


def _ray(root: str) -> tuple[str, ...]:
    return tuple(f"{root}.{group}" for group in _RAY_GROUPS)


def _revision() -> Workload:
    """A ControllerRevision holds the part of its owner that a rollback brings back, so a forged one is a way in."""
    data = [f"data.{path}" for path in (*_POD_TEMPLATE, *_LWS_TEMPLATES)]
    claims = [f"data.{path}" for path in (*_STATEFUL_CLAIMS, *_LWS_CLAIMS)]
    return workload("apps", "ControllerRevision", data, claims=claims)


BUILT_IN: tuple[Workload, ...] = (
    workload("", "Pod", [""]),
    workload("", "PodTemplate", ["template"]),
    workload("", "ReplicationController", _POD_TEMPLATE),
    workload("apps", "Deployment", _POD_TEMPLATE),
    workload("apps", "ReplicaSet", _POD_TEMPLATE),
    workload("apps", "DaemonSet", _POD_TEMPLATE),
    workload("apps", "StatefulSet", _POD_TEMPLATE, claims=_STATEFUL_CLAIMS),
    _revision(),
    workload("argoproj.io", "Rollout", _POD_TEMPLATE),
    workload("batch", "Job", _POD_TEMPLATE),
    workload("batch", "CronJob", ["spec.jobTemplate.spec.template"], jobs=["spec.jobTemplate"]),
    workload("batch.volcano.sh", "Job", ["spec.tasks[*].template"]),
    workload("compute.coreweave.com", "NodePool", node_labels=["spec.nodeLabels"]),
    workload("jobset.x-k8s.io", "JobSet", [f"{_REPLICATED_JOB}.spec.template"], jobs=[_REPLICATED_JOB]),
    *(
        workload("kubeflow.org", f"{name}Job", [f"spec.{key}ReplicaSpecs.*.template"])
        for name, key in _KUBEFLOW.items()
    ),
    workload("kubeflow.org", "Notebook", _POD_TEMPLATE),
    workload("leaderworkerset.x-k8s.io", "LeaderWorkerSet", _LWS_TEMPLATES, claims=_LWS_CLAIMS),
    workload("ray.io", "RayCluster", _ray("spec")),
    workload("ray.io", "RayJob", (*_ray("spec.rayClusterSpec"), "spec.submitterPodTemplate")),
    workload("ray.io", "RayService", _ray("spec.rayClusterConfig")),
    workload("resource.k8s.io", "ResourceClaimTemplate", claims=["spec"]),
    workload("serving.knative.dev", "Configuration", _POD_TEMPLATE),
    workload("serving.knative.dev", "Service", _POD_TEMPLATE),
    workload("sunk.coreweave.com", "NodeSet", _POD_TEMPLATE),
    *(
        workload("trainer.kubeflow.org", kind, [f"{_TRAINER_JOB}.spec.template"], jobs=["spec.template", _TRAINER_JOB])
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    ),
)


def table(rows: Iterable[Workload]) -> Mapping[tuple[str, str], Workload]:
    """The rows by (group, kind). Raises ValueError when two rows are for the same kind."""
    found: dict[tuple[str, str], Workload] = {}
    for row in rows:
        key = (row.group, row.kind)
        if key in found:
            raise ValueError(f"{row.kind} of group {row.group or 'core'!r} is in the table of workloads twice")
        found[key] = row
    return found
