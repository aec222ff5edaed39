"""Derives Pods from the pod templates of workloads, so that policies on Pods can judge the workloads.

People then see the refusal when they apply a Deployment, not in the events of a ReplicaSet. A template is judged as a
write of a Pod by the user who writes the workload, with the owner and the labels that its controller would add.
Policies are matched and evaluated with `DerivedPod.requests`, and `DerivedPod.place` translates the places of findings
back.

A rule on Pods may say "owned by one of these kinds" or "of this JobSet"; by the table of controllers it says that of
templates. The text of a label may name fields of the workload in braces: `{metadata.name}`. There, `[*]` is the
template's own place in the list, and `{*}` is its key in the map, in lower case. A label whose field is not set is not
added. Not included are hashes and unique ids. Names that a controller makes up are shown as `web-0`.

Sources, of the versions of 2026: pkg/controller in k8s.io/kubernetes (Jobs, StatefulSets; the metadata that is copied:
GetPodFromTemplate in controller_utils.go); the controllers of JobSet, LeaderWorkerSet, Kubeflow's trainer (v1) and MPI
operator, KubeRay (labelPod), Volcano (createJobPod), Knative Serving, Kubeflow's notebooks, Grove
(podclique/components/pod) and Slinky (workerbuilder).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from policies.admissionpolicy.builtin.defaults import received
from policies.admissionpolicy.builtin.plugins import admit, generated
from policies.admissionpolicy.model import DERIVE, Policy
from policies.admissionpolicy.schema import built_in
from policies.cel.reads import Reads
from policies.engine.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    JsonObject,
    as_map,
    controller_reference,
    is_being_deleted,
    mapping,
)
from policies.kubernetes.release import NEWEST, Release
from policies.objects.fieldpath import Location, Pattern, Wildcard, lookup, parse, render
from policies.objects.workload import PATCHES, Workload

POD = GroupVersionKind("", "v1", "Pod")
PODS = GroupVersionResource("", "v1", "pods")

UNDERIVED: Final = frozenset(
    {("", "Pod"), ("apps", "ControllerRevision"), ("trainer.kubeflow.org", "ClusterTrainingRuntime"), *PATCHES}
)
"""Kinds in the table of workloads whose templates are not judged.

A Pod is judged directly. A ControllerRevision has a template that was judged with its workload. A cluster-scoped kind
is judged with the namespaced objects that are made from it, and so are patches with the object that they end up in.
"""

INHERITED: Final = tuple(
    f"kai.scheduler/topology{which}" for which in ("", "-required-placement", "-preferred-placement")
)
"""Annotations that hold for the Pods of a workload where they stand on the workload or on its job template.

A derived Pod shows them, although its controller does not copy them: a rule on Pods can then judge gangs.
"""

_COPIED = ("labels", "annotations", "finalizers")
_OWNERS = frozenset({"name", "generateName", "namespace"})
_OF_THE_WORKLOAD = frozenset(
    f"metadata.{field}" for field in ("name", "generateName", "namespace", "annotations", "ownerReferences")
)
_CLAIMS = ("spec.volumes", "spec.volumes[*].name", "spec.volumes[*].persistentVolumeClaim")

_OF_TOKENS = {
    *("spec.volumes[*].name", "spec.volumes[*].projected"),
    *("spec.containers[*].volumeMounts", "spec.initContainers[*].volumeMounts"),
}
_OF_RUNTIME_CLASSES = {"spec.tolerations", "spec.nodeSelector", "spec.overhead"}

FILLED_BY_ADMISSION: Final = frozenset(
    (
        # the API server's own, and the controller's
        *("metadata.name", "metadata.uid", "metadata.creationTimestamp", "metadata.generation"),
        *("metadata.managedFields", "status"),
        # the plugins ServiceAccount, Priority and RuntimeClass
        *("spec.imagePullSecrets", "spec.volumes", *_OF_TOKENS),
        *("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy"),
        *_OF_RUNTIME_CLASSES,
    )
)
"""Fields that a Pod may get only at its own creation, from an admission plugin, the API server or its controller.

The resources of containers, which LimitRanges fill in, are
not included: most Namespaces have no LimitRange, and most rules are about resources.
"""

FILLED_BY_CONTROLLERS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("apps", "DaemonSet"): frozenset({"spec.affinity"}),
    ("apps", "StatefulSet"): frozenset({"spec.hostname", "spec.subdomain", *_CLAIMS}),
    ("batch", "Job"): frozenset({"spec.hostname"}),
    ("batch", "CronJob"): frozenset({"spec.hostname"}),
    # It merges the template into a Pod of its own, with the container slurmd, which stands beside the template.
    ("slinky.slurm.net", "NodeSet"): frozenset(
        {
            *("spec.affinity", "spec.containers", "spec.dnsConfig", "spec.enableServiceLinks", "spec.hostname"),
            *("spec.automountServiceAccountToken", "spec.initContainers", "spec.subdomain", *_CLAIMS),
        }
    ),
}
"""Fields that controllers of some kinds set in the Pods that they create.

Not included are the variable JOB_COMPLETION_INDEX, the tolerations of a DaemonSet's Pods, and what controllers of
custom resources add: many rules read variables and tolerations, but only rules about exactly these would have another
verdict. Labels are in the table of controllers.
"""


_INDEX = "batch.kubernetes.io/job-completion-index"  # the label and the annotation of the Pods of an Indexed Job
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
_MPI = {f"{_KUBEFLOW}/job-name": "{metadata.name}", f"{_KUBEFLOW}/job-role": "{*}"}
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
    ("grove.io", "PodCliqueSet"): (
        Controller(
            owner=Owner("grove.io/v1alpha1", "PodClique", "{metadata.name}-0-{spec.template.cliques[*].name}"),
            labels={
                "app.kubernetes.io/managed-by": "grove-operator",
                "app.kubernetes.io/part-of": "{metadata.name}",
                "grove.io/podcliqueset-replica-index": "0",
                "grove.io/podclique-pod-index": "0",
            },
        ),
    ),
    ("jobset.x-k8s.io", "JobSet"): (_of_jobset("spec"),),
    **{
        ("kubeflow.org", f"{name}Job"): (
            Controller(
                labels={
                    f"{_KUBEFLOW}/job-name": "{metadata.name}",
                    f"{_KUBEFLOW}/operator-name": f"{name.lower()}job-controller",
                    f"{_KUBEFLOW}/replica-type": "{*}",
                    f"{_KUBEFLOW}/replica-index": "0",
                }
            ),
        )
        for name in ("PyTorch", "TF", "XGBoost", "Paddle", "JAX")
    },
    ("kubeflow.org", "MPIJob"): (
        Controller(
            "spec.mpiReplicaSpecs.Launcher.template", Owner("batch/v1", "Job", "{metadata.name}-launcher"), _MPI
        ),
        Controller(labels=_MPI),
    ),
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

_OWNERLESS = frozenset({("", "PodTemplate")})  # kinds with templates from which no controller creates Pods


def controller_of(kind: tuple[str, str], template: Location) -> Controller:
    """The row for the template at a location of a workload of a group and kind."""
    for row in CONTROLLERS.get(kind, ()):
        pattern = parse(row.template)
        if not row.template or (len(pattern) == len(template) and _within(pattern, template) == template):
            return row
    return Controller()


def _filled(text: str, workload: JsonObject, template: Location) -> str | None:
    """The text with the workload's fields; None if one of them is not set."""
    values = []
    for field in _FIELD.findall(text):
        if field == "*":  # the key of the template's map stands before the field that holds the template
            value: object = str(template[-2]).lower()
        else:
            value = lookup(workload, _within(parse(field), template))
            if value in (None, "") and field == "metadata.name":
                value = f"{lookup(workload, ('metadata', 'generateName')) or ''}0"
        if not isinstance(value, str) or not value:
            return None
        values.append(value)
    fields = iter(values)
    return _FIELD.sub(lambda _: next(fields), text)


def _within(pattern: Pattern, template: Location) -> Location:
    """The pattern's place next to a template: its wildcards are the template's own steps."""
    steps = zip_longest(pattern, template[: len(pattern)])
    return tuple(own if isinstance(step, Wildcard) else step for step, own in steps)


class DerivedPod(Struct, frozen=True):
    """A Pod that would be created from a workload's template.

    creation: the CREATE of that Pod. change: the UPDATE of the Pod of the old template to it; None for a new template.
    owner: the kind of the workload. template: the path of the template in the workload. row: of the kind. workload:
    the object.
    """

    creation: AdmissionRequest
    change: AdmissionRequest | None
    owner: GroupVersionKind
    template: Location
    row: Workload
    workload: JsonObject

    @property
    def requests(self) -> tuple[AdmissionRequest, ...]:
        """The requests by which the Pod is judged: the first that a policy matches counts.

        A policy on UPDATE sees the old template's Pod as oldObject, so it can let stay what was there before. A policy
        on CREATE alone judges the new template as it stands.
        """
        return (self.creation,) if self.change is None else (self.change, self.creation)

    @property
    def pod(self) -> JsonObject:
        """The Pod."""
        return self.creation.object or {}

    def place(self, location: Location) -> Location:
        """The location in the workload of one in the Pod, whose name and namespace are those of the workload."""
        if location[:1] == ("metadata",) and location[1:2] and location[1] in _OWNERS:
            return ("metadata", "name" if location[1] == "generateName" else location[1], *location[2:])
        return self.row.place(self.workload, self.template, location)

    def unknown_to(self, reads: Mapping[str, Reads]) -> frozenset[str]:
        """The open fields on which expressions with these reads depend, so that they must not refuse the workload."""
        spec, given = mapping(self.pod, "spec"), set[str]()  # fields that admission does not change in this Pod
        for field in ("imagePullSecrets", "priority", "priorityClassName", "preemptionPolicy"):
            given |= {f"spec.{field}"} if spec.get(field) not in (None, "", []) else set()
        if (has_no_token := spec.get("automountServiceAccountToken") is False) or spec.get("volumes"):
            given |= {"spec.volumes"}
        given |= _OF_TOKENS if has_no_token else set()
        given |= set() if spec.get("runtimeClassName") else _OF_RUNTIME_CLASSES
        left_open = (FILLED_BY_ADMISSION - given) | FILLED_BY_CONTROLLERS.get(self.owner.group_kind, frozenset())
        unknown = frozenset(path for path in left_open if reads["object"].touches(path))
        return unknown | {"request.name"} if reads["request"].touches("name") else unknown


def is_derived(policy: Policy) -> bool:
    """Whether a policy also applies to pod templates. It does, unless its annotation is `false`."""
    return policy.annotations.get(DERIVE) != "false"


def templated(workloads: Mapping[tuple[str, str], Workload]) -> Mapping[tuple[str, str], Workload]:
    """The kinds whose templates are judged."""
    return {kind: row for kind, row in workloads.items() if row.templates and kind not in UNDERIVED}


def template_paths(workloads: Mapping[tuple[str, str], Workload]) -> frozenset[str]:
    """The paths to decode in workloads for policies on Pods: whole templates, and what their controllers copy."""
    rows = templated(workloads)
    templates = {render(pattern) for row in rows.values() for pattern in row.templates}
    annotations = {f"{render(job)}.metadata.annotations" for row in rows.values() for job in row.jobs}
    controllers = [controller for kind in rows for controller in CONTROLLERS.get(kind, ())]
    texts = [text for one in controllers for text in (*one.labels.values(), one.owner.name if one.owner else "")]
    copied = {field for text in texts for field in _FIELD.findall(text) if field != "*"}
    copied |= {one.completion_mode for one in controllers if one.completion_mode}
    beside = {render(place) for row in rows.values() for _, place in row.containers}
    return frozenset(templates | annotations | copied | beside | _OF_THE_WORKLOAD) if rows else frozenset()


def derive(request: AdmissionRequest, workloads: Mapping[tuple[str, str], Workload]) -> tuple[DerivedPod, ...]:
    """The Pods that would be created after a request; none if it does not change the templates.

    There are none for a cluster-scoped workload: its Pods are judged with the namespaced object that is made from it.
    There are none for a new object of a workload in the table: its templates were judged with that workload.
    """
    row = workloads.get(request.kind.group_kind)
    if row is None or request.kind.group_kind in UNDERIVED or request.operation not in ("CREATE", "UPDATE"):
        return ()
    if request.sub_resource or not request.scope_namespace or is_being_deleted(request.object):
        return ()
    reference = controller_reference(request.object) if request.operation == "CREATE" else None
    if reference is not None:
        controller = (str(reference.get("apiVersion")).rpartition("/")[0], reference.get("kind"))
        if controller in templated(workloads):
            return ()
    pods = []
    for location, template in row.pods(request.object):
        old = None
        if request.operation == "UPDATE":
            old = row.view(request.old_object, lookup(request.old_object, location))
        if not isinstance(template, dict) or template == old:
            continue
        pod = _pod(request, row, request.object or {}, location, template)
        name = pod["metadata"].get("name", "")
        creation = replace(request, kind=POD, resource=PODS, name=name, operation="CREATE", object=pod, old_object=None)
        change = None
        if isinstance(old, dict):
            before = _pod(request, row, request.old_object or {}, location, old)
            change = replace(creation, operation="UPDATE", old_object=before)
        pods.append(DerivedPod(creation, change, request.kind, location, row, request.object or {}))
    return tuple(pods)


def _pod(
    request: AdmissionRequest, row: Workload, workload: JsonObject, location: Location, template: JsonObject
) -> JsonObject:
    controller = controller_of(row.group_kind, location)
    # The template's metadata, with a name like those that controllers give, such as `web-xxxxx`.
    owner, own = mapping(workload, "metadata"), mapping(template, "metadata")
    name = request.name or owner.get("name")
    prefix = f"{name}-" if name else owner.get("generateName") or ""
    metadata: JsonObject = {
        "name": generated(str(prefix)),
        "generateName": prefix,
        "namespace": request.namespace,
        **{field: own[field] for field in _COPIED if field in own},
    }

    # The labels that the controller adds; an Indexed Job also adds an annotation.
    texts = {key: _filled(text, workload, location) for key, text in controller.labels.items()}
    labels = {key: text for key, text in texts.items() if text is not None}
    index = {}
    if controller.completion_mode:
        mode = lookup(workload, _within(parse(controller.completion_mode), location))
        index = {_INDEX: "0"} if mode == "Indexed" or (mode is None and controller.is_indexed) else {}

    # The topology annotations of the workload and of its job templates around the template, the nearest first.
    annotations: dict[str, str] = {}
    for holder in ((), *(location[: len(pattern)] for pattern in sorted(row.jobs, key=len))):
        written = mapping(mapping(as_map(lookup(workload, holder)), "metadata"), "annotations")
        annotations |= {key: written[key] for key in INHERITED if isinstance(written.get(key), str)}

    # Some entries give way to what is there, and some take its place. What is no map is refused elsewhere.
    for field, below, above in (("labels", {}, labels | index), ("annotations", annotations, index)):
        before = metadata.get(field) or {}
        if (below or above) and isinstance(before, dict):
            metadata[field] = {**below, **before, **above}

    # What controls the Pod, then the workload, if that is another. A Pod that exists names only the first; the second
    # lets rules name the kinds that people write. The owners need not exist yet, so they have no uid: that tells a
    # derived Pod from one that a controller made.
    if row.group_kind not in _OWNERLESS:
        kind, made = request.kind, controller.owner
        owners: list[JsonObject] = [
            {
                "apiVersion": f"{kind.group}/{kind.version}".lstrip("/"),
                "kind": kind.kind,
                "name": _filled("{metadata.name}", workload, location) or "",
            }
        ]
        if made is not None:
            made_name = _filled(made.name, workload, location)
            owners.insert(0, {"apiVersion": made.api_version, "kind": made.kind, "name": made_name})
        metadata["ownerReferences"] = [
            {**one, "controller": not at, "blockOwnerDeletion": not at} for at, one in enumerate(owners)
        ]
    pod = defaulted({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")})
    admit(pod, is_daemon=row.kind == "DaemonSet")
    return pod


def defaulted(pod: JsonObject, release: Release = NEWEST) -> JsonObject:
    """A copy of a Pod as the API server hands it to its admission plugins, without a status."""
    schema = built_in(POD, release)
    if schema is None:
        raise LookupError("the table of built-in kinds has no Pod")
    whole = received(pod, schema)
    del whole["status"]
    return whole
