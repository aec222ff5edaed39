"""The pod templates of each kind, and the other metadata from which a controller copies labels.

A rule about Pods also applies to pod templates. Users then see its answer on `kubectl apply` of a Deployment and not in
a ReplicaSet's events. This table is the only place that knows the kinds.

Sources for changes of node affinity: the update validation of each kind in Kubernetes and in its own project.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from policies.objects.fieldpath import Pattern, parse

AffinityChange = Literal["always", "suspended", "create", "never"]
"""When the node affinity of an object's templates may be written: always, on updates of a suspended object and at its
creation, only at its creation, or never."""


class Workload(Struct, frozen=True):
    """The parts of a kind's objects that a controller or the API server copies to other objects.

    templates: pod templates (maps with `metadata` and `spec`); the empty pattern is the object itself, a Pod.
    jobs: templates of the objects between the workload and its Pods; their metadata is copied to those objects.
    claims: claim templates; their metadata is copied to PersistentVolumeClaims or ResourceClaims.
    node_labels, claim_labels: maps of labels that are copied to Nodes and to claims.
    affinity: when the templates' node affinity may be written.
    """

    group: str
    kind: str
    templates: tuple[Pattern, ...] = ()
    jobs: tuple[Pattern, ...] = ()
    claims: tuple[Pattern, ...] = ()
    node_labels: tuple[Pattern, ...] = ()
    affinity: AffinityChange = "create"
    claim_labels: tuple[Pattern, ...] = ()

    @property
    def group_kind(self) -> tuple[str, str]:
        """The key of the table."""
        return self.group, self.kind

    @property
    def copied_labels(self) -> tuple[Pattern, ...]:
        """The maps of labels that are copied as they are."""
        return self.node_labels + self.claim_labels

    @property
    def resource(self) -> str:
        """The resource of the kind. All kinds in the table have the usual plural."""
        return plural(self.kind)


def plural(kind: str) -> str:
    """The usual name of a kind's resource: `policies` for `Policy`."""
    lower = kind.lower()
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return f"{lower[:-1]}ies"
    return lower + ("es" if lower.endswith(("s", "x", "ch", "sh")) else "s")


HISTORIES: Final = frozenset({("apps", "ControllerRevision")})
"""Kinds that keep earlier templates of a workload. No Pod is made from these."""


REVISED: Final = frozenset(
    {("apps", "StatefulSet"), ("apps", "DaemonSet"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")}
)
"""Kinds whose templates are kept in ControllerRevisions. A rollback restores only the template."""


def workload(
    group: str,
    kind: str,
    templates: Iterable[str] = (),
    *,
    jobs: Iterable[str] = (),
    claims: Iterable[str] = (),
    node_labels: Iterable[str] = (),
    claim_labels: Iterable[str] = (),
    affinity: AffinityChange = "create",
) -> Workload:
    """A row of the table from paths as text. Raises ValueError if a path is invalid."""
    places = [tuple(map(parse, paths)) for paths in (templates, jobs, claims, node_labels, claim_labels)]
    return Workload(group, kind, places[0], places[1], places[2], places[3], affinity, places[4])


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
    """The row for ControllerRevision. A rollback restores its content, so a forged one could bypass the rules."""
    data = [f"data.{path}" for path in (*_POD_TEMPLATE, *_LWS_TEMPLATES)]
    claims = [f"data.{path}" for path in (*_STATEFUL_CLAIMS, *_LWS_CLAIMS)]
    return workload("apps", "ControllerRevision", data, claims=claims, affinity="never")


BUILT_IN: tuple[Workload, ...] = (
    workload("", "Pod", [""]),
    workload("", "PodTemplate", ["template"], affinity="always"),
    workload("", "ReplicationController", _POD_TEMPLATE, affinity="always"),
    workload("apps", "Deployment", _POD_TEMPLATE, affinity="always"),
    workload("apps", "ReplicaSet", _POD_TEMPLATE, affinity="always"),
    workload("apps", "DaemonSet", _POD_TEMPLATE, affinity="always"),
    workload(
        *("apps", "StatefulSet", _POD_TEMPLATE),
        claims=_STATEFUL_CLAIMS,
        claim_labels=["spec.selector.matchLabels"],
        affinity="always",
    ),
    _revision(),
    workload("argoproj.io", "Rollout", _POD_TEMPLATE, affinity="always"),
    workload("batch", "Job", _POD_TEMPLATE, affinity="suspended"),
    workload("batch", "CronJob", ["spec.jobTemplate.spec.template"], jobs=["spec.jobTemplate"], affinity="always"),
    workload("batch.volcano.sh", "Job", ["spec.tasks[*].template"]),
    workload("compute.coreweave.com", "NodePool", node_labels=["spec.nodeLabels"]),
    workload("jobset.x-k8s.io", "JobSet", [f"{_REPLICATED_JOB}.spec.template"], jobs=[_REPLICATED_JOB]),
    *(
        workload("kubeflow.org", f"{name}Job", [f"spec.{key}ReplicaSpecs.*.template"])
        for name, key in _KUBEFLOW.items()
    ),
    workload("kubeflow.org", "Notebook", _POD_TEMPLATE),
    workload("leaderworkerset.x-k8s.io", "LeaderWorkerSet", _LWS_TEMPLATES, claims=_LWS_CLAIMS, affinity="always"),
    workload("ray.io", "RayCluster", _ray("spec")),
    workload("ray.io", "RayJob", (*_ray("spec.rayClusterSpec"), "spec.submitterPodTemplate")),
    workload("ray.io", "RayService", _ray("spec.rayClusterConfig")),
    workload("resource.k8s.io", "ResourceClaimTemplate", claims=["spec"]),
    workload("serving.knative.dev", "Configuration", _POD_TEMPLATE, affinity="never"),
    workload("serving.knative.dev", "Service", _POD_TEMPLATE, affinity="never"),
    workload("sunk.coreweave.com", "NodeSet", _POD_TEMPLATE, affinity="always"),
    *(
        workload("trainer.kubeflow.org", kind, [f"{_TRAINER_JOB}.spec.template"], jobs=["spec.template", _TRAINER_JOB])
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    ),
)


def table(rows: Iterable[Workload]) -> Mapping[tuple[str, str], Workload]:
    """The rows by (group, kind). Raises ValueError if two rows are for the same kind."""
    rows_by_kind: dict[tuple[str, str], Workload] = {}
    for row in rows:
        key = row.group_kind
        if key in rows_by_kind:
            raise ValueError(f"{row.kind} of group {row.group or 'core'!r} is in the table of workloads twice")
        rows_by_kind[key] = row
    return rows_by_kind
