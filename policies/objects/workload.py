"""Where a pod template holds what becomes a Pod's, in kinds whose templates are not written as Kubernetes' own.

Everything else sees such a template as `{metadata: {labels, annotations}, spec}`, and translates the places in it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from policies.objects.fieldpath import Location, Pattern, locate, lookup, parse

Place = tuple[str, ...]
_LABELS, _ANNOTATIONS, _SPEC = ("metadata", "labels"), ("metadata", "annotations"), ("spec",)


class Shape(Struct, frozen=True):
    """The places of the labels, the annotations and the spec of Pods, within a pod template."""

    labels: Place = _LABELS
    annotations: Place = _ANNOTATIONS
    spec: Place = _SPEC

    def place(self, location: tuple[Any, ...]) -> tuple[Any, ...]:
        """The location within the template of what is at a location of the view."""
        for standard, own in ((_LABELS, self.labels), (_ANNOTATIONS, self.annotations), (_SPEC, self.spec)):
            if location[: len(standard)] == standard:
                return (*own, *location[len(standard) :])
        return location

    def view(self, template: Any) -> Any:
        """The template as Kubernetes writes one; itself if it is one, or no map."""
        if self == STANDARD or not isinstance(template, dict):
            return template
        metadata = {"labels": lookup(template, self.labels), "annotations": lookup(template, self.annotations)}
        view: dict[str, Any] = {"metadata": {field: value for field, value in metadata.items() if value is not None}}
        spec = lookup(template, self.spec)
        return view if spec is None else {**view, "spec": spec}


STANDARD = Shape()
"""The shape of Kubernetes' own pod templates."""


TemplateChange = Literal["always", "suspended", "create", "never"]
"""When the annotations of an object's templates may be written: always, on updates of a suspended object and at its
creation, only at its creation, or never."""


class Workload(Struct, frozen=True):
    """The parts of a kind's objects that a controller or the API server copies to other objects.

    templates: pod templates (maps with `metadata` and `spec`); the empty pattern is the object itself, a Pod.
    jobs: templates of the objects between the workload and its Pods; their metadata is copied to those objects.
    claims: claim templates; their metadata is copied to PersistentVolumeClaims or ResourceClaims.
    node_labels, claim_labels, pod_labels: maps of labels that are copied to Nodes, to claims and to Pods.
    changes: when the templates' annotations may be written. shape: where the templates hold what becomes a Pod's.
    containers: places of containers, by name, that the controller puts before those of the template.
    """

    group: str
    kind: str
    templates: tuple[Pattern, ...] = ()
    jobs: tuple[Pattern, ...] = ()
    claims: tuple[Pattern, ...] = ()
    node_labels: tuple[Pattern, ...] = ()
    changes: TemplateChange = "create"
    claim_labels: tuple[Pattern, ...] = ()
    pod_labels: tuple[Pattern, ...] = ()
    shape: Shape = STANDARD
    containers: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def group_kind(self) -> tuple[str, str]:
        """The key of the table."""
        return self.group, self.kind

    @property
    def copied_labels(self) -> tuple[Pattern, ...]:
        """The maps of labels that are copied as they are, but for those of Pods."""
        return self.node_labels + self.claim_labels

    @property
    def makes_pods(self) -> bool:
        """Whether Pods are made from the templates as they are."""
        return bool(self.templates) and self.group_kind not in HISTORIES | PATCHES

    def pods(self, obj: Any) -> Iterator[tuple[Location, Any]]:
        """The location of each pod template in an object, and the template as Kubernetes writes one."""
        for pattern in self.templates:
            for location, template in locate(obj, pattern):
                yield location, self.view(obj, template)

    def view(self, obj: Any, template: Any) -> Any:
        """A pod template as Kubernetes writes one, with the containers that stand beside it."""
        view = self.shape.view(template)
        beside = [(name, lookup(obj, place)) for name, place in self.containers]
        containers = [{"name": name, **container} for name, container in beside if isinstance(container, dict)]
        spec = view.get("spec") or {} if isinstance(view, dict) else None
        if not containers or not isinstance(spec, dict) or not isinstance(spec.get("containers") or [], list):
            return view
        return {**view, "spec": {**spec, "containers": [*containers, *(spec.get("containers") or [])]}}

    def place(self, obj: Any, template: Location, location: Location) -> Location:
        """The location in an object of what is at a location in the view of its template."""
        beside = [place for _, place in self.containers if isinstance(lookup(obj, place), dict)]
        if beside and location[:2] == ("spec", "containers") and location[2:] and isinstance(location[2], int):
            index = location[2]
            if index < len(beside):
                return (*beside[index], *location[3:])
            location = ("spec", "containers", index - len(beside), *location[3:])
        return (*template, *self.shape.place(location))

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

PATCHES: Final = frozenset({("trainer.kubeflow.org", "TrainJob")})
"""Kinds whose templates only patch those of another object. Neither is a whole Pod; the object made from both is."""


def workload(
    group: str,
    kind: str,
    templates: Iterable[str] = (),
    *,
    changes: TemplateChange = "create",
    shape: Shape = STANDARD,
    containers: Iterable[tuple[str, tuple[str, ...]]] = (),
    **paths: Iterable[str],
) -> Workload:
    """A row of the table from paths as text. paths: of its other places. Raises ValueError if one is invalid."""
    places: dict[str, Any] = {name: tuple(map(parse, own)) for name, own in {"templates": templates, **paths}.items()}
    return Workload(group, kind, changes=changes, shape=shape, containers=tuple(containers), **places)


_POD_TEMPLATE = ("spec.template",)
_LWS = "spec.leaderWorkerTemplate"
_LWS_TEMPLATES = (f"{_LWS}.leaderTemplate", f"{_LWS}.workerTemplate")
_LWS_CLAIMS = (f"{_LWS}.volumeClaimTemplates[*]",)
_STATEFUL_CLAIMS = ("spec.volumeClaimTemplates[*]",)
_REPLICATED_JOB = "spec.replicatedJobs[*].template"
_TRAINER_JOB = f"spec.template.{_REPLICATED_JOB}"
_PATCHED_JOBSET = "spec.runtimePatches[*].trainingRuntimeSpec.template"
_CLIQUE = Shape(labels=("labels",), annotations=("annotations",), spec=("spec", "podSpec"))
_RAY_GROUPS = ("headGroupSpec.template", "workerGroupSpecs[*].template")
_KUBEFLOW = {"MPI": "mpi", "PyTorch": "pytorch", "TF": "tf", "XGBoost": "xgb", "Paddle": "paddle", "JAX": "jax"}


def _ray(root: str) -> tuple[str, ...]:
    return tuple(f"{root}.{group}" for group in _RAY_GROUPS)


BUILT_IN: tuple[Workload, ...] = (
    workload("", "Pod", [""]),
    workload("", "PodTemplate", ["template"], changes="always"),
    workload("", "ReplicationController", _POD_TEMPLATE, changes="always"),
    workload("apps", "Deployment", _POD_TEMPLATE, changes="always"),
    workload("apps", "ReplicaSet", _POD_TEMPLATE, changes="always"),
    workload("apps", "DaemonSet", _POD_TEMPLATE, changes="always"),
    workload(
        *("apps", "StatefulSet", _POD_TEMPLATE),
        claims=_STATEFUL_CLAIMS,
        claim_labels=["spec.selector.matchLabels"],
        changes="always",
    ),
    # A rollback restores the content of a ControllerRevision, so a forged one could bypass the rules.
    workload(
        *("apps", "ControllerRevision"),
        [f"data.{path}" for path in (*_POD_TEMPLATE, *_LWS_TEMPLATES)],
        claims=[f"data.{path}" for path in (*_STATEFUL_CLAIMS, *_LWS_CLAIMS)],
        changes="never",
    ),
    workload("argoproj.io", "Rollout", _POD_TEMPLATE, changes="always"),
    workload("batch", "Job", _POD_TEMPLATE, changes="suspended"),
    workload("batch", "CronJob", ["spec.jobTemplate.spec.template"], jobs=["spec.jobTemplate"], changes="always"),
    workload("batch.volcano.sh", "Job", ["spec.tasks[*].template"]),
    workload("compute.coreweave.com", "NodePool", node_labels=["spec.nodeLabels"]),
    workload(
        *("grove.io", "PodCliqueSet", ["spec.template.cliques[*]"]),
        claims=["spec.template.resourceClaimTemplates[*].templateSpec"],
        shape=_CLIQUE,
    ),
    workload("jobset.x-k8s.io", "JobSet", [f"{_REPLICATED_JOB}.spec.template"], jobs=[_REPLICATED_JOB]),
    *(
        workload("kubeflow.org", f"{name}Job", [f"spec.{key}ReplicaSpecs.*.template"])
        for name, key in _KUBEFLOW.items()
    ),
    workload("kubeflow.org", "Notebook", _POD_TEMPLATE),
    workload("leaderworkerset.x-k8s.io", "LeaderWorkerSet", _LWS_TEMPLATES, claims=_LWS_CLAIMS, changes="always"),
    workload("ray.io", "RayCluster", _ray("spec")),
    workload("ray.io", "RayJob", (*_ray("spec.rayClusterSpec"), "spec.submitterPodTemplate")),
    workload("ray.io", "RayService", _ray("spec.rayClusterConfig")),
    workload("resource.k8s.io", "ResourceClaimTemplate", claims=["spec"]),
    workload("serving.knative.dev", "Configuration", _POD_TEMPLATE, changes="never"),
    workload("serving.knative.dev", "Service", _POD_TEMPLATE, changes="never"),
    workload(
        *("slinky.slurm.net", "NodeSet", _POD_TEMPLATE),
        claims=_STATEFUL_CLAIMS,
        changes="always",
        containers=[("slurmd", ("spec", "slurmd"))],
    ),
    workload("sunk.coreweave.com", "NodeSet", _POD_TEMPLATE, changes="always"),
    *(
        workload("trainer.kubeflow.org", kind, [f"{_TRAINER_JOB}.spec.template"], jobs=["spec.template", _TRAINER_JOB])
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    ),
    workload(
        *("trainer.kubeflow.org", "TrainJob"),
        ["spec.podTemplateOverrides[*]", f"{_PATCHED_JOBSET}.{_REPLICATED_JOB}.spec.template"],
        jobs=[_PATCHED_JOBSET, f"{_PATCHED_JOBSET}.{_REPLICATED_JOB}"],
        pod_labels=["spec.labels"],
        changes="never",
    ),
)

SHIPPED: tuple[Workload, ...] = (
    workload(
        *("nvidia.com", "DynamoGraphDeployment", ["spec.components[*].podTemplate"]),
        pod_labels=["spec.labels", "spec.services.*.labels", "spec.services.*.extraPodMetadata.labels"],
    ),
    workload("apps.nvidia.com", "NIMService", pod_labels=["spec.labels"]),
)
"""Kinds that count only where `workloads:` of the configuration names them: an operator for them is not everywhere."""


def table(rows: Iterable[Workload]) -> Mapping[tuple[str, str], Workload]:
    """The rows by (group, kind). Raises ValueError if two rows are for the same kind."""
    rows_by_kind: dict[tuple[str, str], Workload] = {}
    for row in rows:
        key = row.group_kind
        if key in rows_by_kind:
            raise ValueError(f"{row.kind} of group {row.group or 'core'!r} is in the table of workloads twice")
        rows_by_kind[key] = row
    return rows_by_kind
