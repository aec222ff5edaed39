"""Derives Pods from the pod templates of workloads, so that policies on Pods can judge the workloads.

People then see the refusal when they apply a Deployment, not in the events of a ReplicaSet. A template is judged as a
write of a Pod by the user who writes the workload, with the owner and the labels that its controller would add.
Policies are matched and evaluated with `DerivedPod.requests`, and `DerivedPod.place` translates the places of findings
back.

Source of the metadata that a controller copies: k8s.io/kubernetes' pkg/controller/controller_utils.go,
GetPodFromTemplate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from policies.admissionpolicy.builtin.defaults import received
from policies.admissionpolicy.builtin.plugins import admit, generated
from policies.admissionpolicy.controller import (
    CONTROLLERS,
    INDEX,
    OWNERLESS,
    controller_of,
    fields_of,
    labels_of,
    owners_of,
)
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
from policies.objects.fieldpath import Location, lookup, render
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

FILLED_BY_ADMISSION: Final = frozenset(
    (
        # the API server's own, and the controller's
        *("metadata.name", "metadata.uid", "metadata.creationTimestamp", "metadata.generation"),
        *("metadata.managedFields", "status"),
        # ServiceAccount
        *("spec.imagePullSecrets", "spec.volumes"),
        *("spec.volumes[*].name", "spec.volumes[*].projected"),
        *("spec.containers[*].volumeMounts", "spec.initContainers[*].volumeMounts"),
        # Priority
        *("spec.priority", "spec.priorityClassName", "spec.preemptionPolicy"),
        # RuntimeClass
        *("spec.tolerations", "spec.nodeSelector", "spec.overhead"),
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

    @property
    def filled(self) -> frozenset[str]:
        """The fields of FILLED_BY_ADMISSION that the template does not set, and those that the controller fills in."""
        left_open = FILLED_BY_ADMISSION - frozenset(_settled(mapping(self.pod, "spec")))
        return left_open | FILLED_BY_CONTROLLERS.get(self.owner.group_kind, frozenset())

    def unknown_to(self, reads: Mapping[str, Reads]) -> frozenset[str]:
        """The open fields on which expressions with these reads depend, so that they must not refuse the workload."""
        unknown = frozenset(path for path in self.filled if reads["object"].touches(path))
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
    copied = {field for kind in rows for row in CONTROLLERS.get(kind, ()) for field in fields_of(row)}
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
        pod = _pod(request, row, request.object, location, template)
        name = pod["metadata"].get("name", "")
        creation = replace(request, kind=POD, resource=PODS, name=name, operation="CREATE", object=pod, old_object=None)
        change = None
        if isinstance(old, dict):
            before = _pod(request, row, request.old_object, location, old)
            change = replace(creation, operation="UPDATE", old_object=before)
        pods.append(DerivedPod(creation, change, request.kind, location, row, request.object or {}))
    return tuple(pods)


def _pod(
    request: AdmissionRequest, row: Workload, workload: JsonObject | None, location: Location, template: JsonObject
) -> JsonObject:
    controller = controller_of(row.group_kind, location)
    labels = labels_of(controller, workload or {}, location)
    index = {INDEX: labels[INDEX]} if INDEX in labels else {}
    metadata = _metadata(request, workload, mapping(template, "metadata"))
    _set(metadata, "labels", {}, labels)
    _set(metadata, "annotations", _inherited(row, workload, location), index)
    if row.group_kind not in OWNERLESS:
        metadata["ownerReferences"] = owners_of(controller, request.kind, workload or {}, location)
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


def _metadata(request: AdmissionRequest, workload: JsonObject | None, metadata: JsonObject) -> JsonObject:
    """The template's metadata, with a name like those that controllers give, such as `web-xxxxx`."""
    owner = mapping(workload, "metadata")
    name = request.name or owner.get("name")
    prefix = f"{name}-" if name else owner.get("generateName") or ""
    copied: JsonObject = {field: metadata[field] for field in _COPIED if field in metadata}
    return {"name": generated(str(prefix)), "generateName": prefix, "namespace": request.namespace, **copied}


def _set(metadata: JsonObject, field: str, below: Mapping[str, str], above: Mapping[str, str]) -> None:
    """Add entries to a map of the metadata: some give way to what is there, and some take its place."""
    own = metadata.get(field) or {}
    if (below or above) and isinstance(own, dict):  # what is no map is refused elsewhere
        metadata[field] = {**below, **own, **above}


def _inherited(row: Workload, workload: JsonObject | None, template: Location) -> dict[str, str]:
    """The topology annotations of the workload and of its job templates around the template, the nearest first."""
    holders: list[Location] = [(), *(template[: len(pattern)] for pattern in sorted(row.jobs, key=len))]
    annotations: dict[str, str] = {}
    for holder in holders:
        own = mapping(mapping(as_map(lookup(workload, holder)), "metadata"), "annotations")
        annotations |= {key: own[key] for key in INHERITED if isinstance(own.get(key), str)}
    return annotations


def _settled(spec: JsonObject) -> Iterator[str]:
    """The fields that admission does not change in a Pod with this spec."""
    for field in ("imagePullSecrets", "priority", "priorityClassName", "preemptionPolicy"):
        if spec.get(field) not in (None, "", []):
            yield f"spec.{field}"
    has_no_token = spec.get("automountServiceAccountToken") is False
    if has_no_token:
        yield from ("spec.volumes[*].name", "spec.volumes[*].projected")
        yield from ("spec.containers[*].volumeMounts", "spec.initContainers[*].volumeMounts")
    if has_no_token or spec.get("volumes"):
        yield "spec.volumes"
    if not spec.get("runtimeClassName"):
        yield from ("spec.nodeSelector", "spec.overhead", "spec.tolerations")
