"""What controllers add to the Pods that they create from a workload's template: an owner, and labels.

A rule on Pods may say "owned by one of these kinds" or "of this JobSet"; with this table it says the same of templates.
The text of a label may name fields of the workload in braces: `{metadata.name}`. There, `[*]` is the template's own
place in the list, and `{*}` is its key in the map, in lower case. A label whose field is not set is not added.

Not included are hashes and unique ids. Names that a controller makes up are shown as `web-0`.

Sources, of the versions of 2026: pkg/controller in k8s.io/kubernetes (Jobs, StatefulSets); the controllers of JobSet,
LeaderWorkerSet, Kubeflow's trainer (v1) and MPI operator, KubeRay (labelPod), Volcano (createJobPod), Knative Serving,
Kubeflow's notebooks, Grove (podclique/components/pod) and Slinky (workerbuilder).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final

from msgspec import Struct

from policies.engine.request import GroupVersionKind, JsonObject
from policies.objects.fieldpath import Location, Pattern, Wildcard, lookup, parse

INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""The label and the annotation of the Pods of an Indexed Job."""

_FIELD = re.compile(r"\{([^}]*)\}")


class Owner(Struct, frozen=True):
    """The object that a controller makes between a workload and its Pods. name: a text like that of a label."""

    api_version: str
    kind: str
    name: str = "{metadata.name}-0"


class Controller(Struct, frozen=True):
    """What the Pods of a template get. The defaults hold for kinds that are not in the table.

    template: the templates that this is about; empty for all of the kind. owner: what controls the Pods; None for the
    workload itself. labels: texts by key. completion_mode: where a Job's completionMode stands, empty for none.
    is_indexed: whether Jobs are Indexed that do not say.
    """

    template: str = ""
    owner: Owner | None = None
    labels: Mapping[str, str] = {}
    completion_mode: str = ""
    is_indexed: bool = False


_REPLICA_SET = Owner("apps/v1", "ReplicaSet")
_STATEFUL = {"apps.kubernetes.io/pod-index": "0", "statefulset.kubernetes.io/pod-name": "{metadata.name}-0"}
_STATEFUL_SET = Owner("apps/v1", "StatefulSet", "{metadata.name}")
_RAY_CLUSTER = Owner("ray.io/v1", "RayCluster")
_ORIGIN = {"ray.io/originated-from-cr-name": "{metadata.name}", "ray.io/originated-from-crd": "RayJob"}
_KUBEFLOW = "training.kubeflow.org"
_LWS = "leaderworkerset.sigs.k8s.io"


def _of_job(name: str) -> dict[str, str]:
    return {"batch.kubernetes.io/job-name": name, "job-name": name}


def _of_jobset(root: str) -> Controller:
    job = f"{root}.replicatedJobs[*]"
    name = f"{{metadata.name}}-{{{job}.name}}-0"
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "{metadata.name}",
        "jobset.sigs.k8s.io/replicatedjob-name": f"{{{job}.name}}",
        "jobset.sigs.k8s.io/job-index": "0",
        **_of_job(name),
    }
    return Controller(
        "", Owner("batch/v1", "Job", name), labels, f"{job}.template.spec.completionMode", is_indexed=True
    )


def _of_training(operator: str) -> Controller:
    labels = {"job-name": "{metadata.name}", "operator-name": operator, "replica-type": "{*}", "replica-index": "0"}
    return Controller(labels={f"{_KUBEFLOW}/{key}": text for key, text in labels.items()})


def _of_ray(root: str, cluster: str, owner: Owner | None) -> tuple[Controller, ...]:
    common = {"ray.io/is-ray-node": "yes", "ray.io/cluster": cluster}
    head = {**common, "ray.io/node-type": "head", "ray.io/group": "headgroup"}
    group = f"{{{root}.workerGroupSpecs[*].groupName}}"
    worker = {**common, "ray.io/node-type": "worker", "ray.io/group": group}
    return (
        Controller(f"{root}.headGroupSpec.template", owner, head),
        Controller(f"{root}.workerGroupSpecs[*].template", owner, worker),
    )


def _of_group(template: str, index: str) -> Controller:
    labels = {f"{_LWS}/name": "{metadata.name}", f"{_LWS}/group-index": "0", f"{_LWS}/worker-index": index}
    return Controller(f"spec.leaderWorkerTemplate.{template}", _STATEFUL_SET, labels)


def _of_clique() -> Controller:
    name = "{spec.template.cliques[*].name}"
    labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "{metadata.name}"}
    replica = {"grove.io/podcliqueset-replica-index": "0", "grove.io/podclique-pod-index": "0"}
    return Controller(
        owner=Owner("grove.io/v1alpha1", "PodClique", f"{{metadata.name}}-0-{name}"), labels=labels | replica
    )


def _of_mpi() -> tuple[Controller, ...]:
    labels = {f"{_KUBEFLOW}/job-name": "{metadata.name}", f"{_KUBEFLOW}/job-role": "{*}"}
    launcher = Owner("batch/v1", "Job", "{metadata.name}-launcher")
    return Controller("spec.mpiReplicaSpecs.Launcher.template", launcher, labels), Controller(labels=labels)


CONTROLLERS: Final[Mapping[tuple[str, str], tuple[Controller, ...]]] = {
    ("apps", "Deployment"): (Controller(owner=_REPLICA_SET),),
    ("apps", "StatefulSet"): (Controller(labels=_STATEFUL),),
    ("argoproj.io", "Rollout"): (Controller(owner=_REPLICA_SET),),
    ("batch", "Job"): (Controller(labels=_of_job("{metadata.name}"), completion_mode="spec.completionMode"),),
    ("batch", "CronJob"): (
        Controller(
            owner=Owner("batch/v1", "Job"),
            labels=_of_job("{metadata.name}-0"),
            completion_mode="spec.jobTemplate.spec.completionMode",
        ),
    ),
    ("batch.volcano.sh", "Job"): (
        Controller(
            labels={
                "volcano.sh/job-name": "{metadata.name}",
                "volcano.sh/job-namespace": "{metadata.namespace}",
                "volcano.sh/queue-name": "{spec.queue}",
                "volcano.sh/task-spec": "{spec.tasks[*].name}",
            }
        ),
    ),
    ("grove.io", "PodCliqueSet"): (_of_clique(),),
    ("jobset.x-k8s.io", "JobSet"): (_of_jobset("spec"),),
    **{
        ("kubeflow.org", f"{name}Job"): (_of_training(f"{name.lower()}job-controller"),)
        for name in ("PyTorch", "TF", "XGBoost", "Paddle", "JAX")
    },
    ("kubeflow.org", "MPIJob"): _of_mpi(),
    ("kubeflow.org", "Notebook"): (
        Controller(owner=_STATEFUL_SET, labels={"notebook-name": "{metadata.name}", **_STATEFUL}),
    ),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        _of_group("leaderTemplate", "0"),
        _of_group("workerTemplate", "1"),
    ),
    ("ray.io", "RayCluster"): _of_ray("spec", "{metadata.name}", None),
    ("ray.io", "RayJob"): (
        *_of_ray("spec.rayClusterSpec", "{metadata.name}-0", _RAY_CLUSTER),
        Controller(
            "spec.submitterPodTemplate",
            Owner("batch/v1", "Job", "{metadata.name}"),
            {**_ORIGIN, **_of_job("{metadata.name}")},
        ),
    ),
    ("ray.io", "RayService"): _of_ray("spec.rayClusterConfig", "{metadata.name}-0", _RAY_CLUSTER),
    ("serving.knative.dev", "Configuration"): (
        Controller(owner=_REPLICA_SET, labels={"serving.knative.dev/configuration": "{metadata.name}"}),
    ),
    ("serving.knative.dev", "Service"): (
        Controller(
            owner=_REPLICA_SET,
            labels={f"serving.knative.dev/{key}": "{metadata.name}" for key in ("service", "configuration")},
        ),
    ),
    ("slinky.slurm.net", "NodeSet"): (
        Controller(
            labels={
                "app.kubernetes.io/name": "slurmd",
                "app.kubernetes.io/instance": "{metadata.name}",
                "app.kubernetes.io/component": "worker",
            }
        ),
    ),
    ("trainer.kubeflow.org", "TrainingRuntime"): (_of_jobset("spec.template.spec"),),
}
"""By the group and kind of the workload; where there are several, the first for a template's place counts."""

OWNERLESS: Final = frozenset({("", "PodTemplate")})
"""Kinds with templates from which no controller creates Pods."""


def controller_of(kind: tuple[str, str], template: Location) -> Controller:
    """The row for the template at a location of a workload of a group and kind."""
    for row in CONTROLLERS.get(kind, ()):
        pattern = parse(row.template)
        if not row.template or (len(pattern) == len(template) and _within(pattern, template) == template):
            return row
    return Controller()


def labels_of(controller: Controller, workload: JsonObject, template: Location) -> dict[str, str]:
    """The labels that the controller adds to a Pod of a template, with their values."""
    texts = {key: filled(text, workload, template) for key, text in controller.labels.items()}
    labels = {key: text for key, text in texts.items() if text is not None}
    if controller.completion_mode:
        mode = lookup(workload, _within(parse(controller.completion_mode), template))
        if mode == "Indexed" or (mode is None and controller.is_indexed):
            labels[INDEX] = "0"
    return labels


def owners_of(
    controller: Controller, kind: GroupVersionKind, workload: JsonObject, template: Location
) -> list[JsonObject]:
    """The owner references of a Pod of a template: what controls it, then the workload, if that is another.

    A Pod that exists names only the first. The second lets rules name the kinds that people write. The owners need not
    exist yet, so they have no uid: that tells a derived Pod from one that a controller made.
    """
    name = filled("{metadata.name}", workload, template) or ""
    owners: list[JsonObject] = [
        {"apiVersion": f"{kind.group}/{kind.version}".lstrip("/"), "kind": kind.kind, "name": name}
    ]
    if (made := controller.owner) is not None:
        own_name = filled(made.name, workload, template)
        owners.insert(0, {"apiVersion": made.api_version, "kind": made.kind, "name": own_name})
    return [{**owner, "controller": not at, "blockOwnerDeletion": not at} for at, owner in enumerate(owners)]


def filled(text: str, workload: JsonObject, template: Location) -> str | None:
    """The text with the workload's fields; None if one of them is not set."""
    values = [_value(field, workload, template) for field in _FIELD.findall(text)]
    if any(not isinstance(value, str) or not value for value in values):
        return None
    fields = iter(values)
    return _FIELD.sub(lambda _: str(next(fields)), text)


def fields_of(controller: Controller) -> Iterator[str]:
    """The paths of the workload that the row's texts and its completion mode depend on."""
    texts = [*controller.labels.values(), *([controller.owner.name] if controller.owner else [])]
    yield from (field for text in texts for field in _FIELD.findall(text) if field != "*")
    if controller.completion_mode:
        yield controller.completion_mode


def _value(field: str, workload: JsonObject, template: Location) -> Any:
    if field == "*":
        # The key of the template's map stands before the field that holds the template.
        return str(template[-2]).lower()
    value = lookup(workload, _within(parse(field), template))
    if value in (None, "") and field == "metadata.name":
        return f"{lookup(workload, ('metadata', 'generateName')) or ''}0"
    return value


def _within(pattern: Pattern, template: Location) -> Location:
    """The pattern's place next to a template: its wildcards are the template's own steps."""
    steps = zip_longest(pattern, template[: len(pattern)])
    return tuple(own if isinstance(step, Wildcard) else step for step, own in steps)
