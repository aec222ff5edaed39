"""Derives Pods from the pod templates of workloads, so that policies on Pods can judge the workloads.

People then see the refusal when they apply a Deployment, not in the events of a ReplicaSet. A template is judged as a
CREATE of pods by the user who writes the workload. Policies are matched and evaluated with `DerivedPod.request`, and
`DerivedPod.place` translates the places of findings back.

Source of the metadata that a controller copies: k8s.io/kubernetes' pkg/controller/controller_utils.go,
GetPodFromTemplate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from policies.admissionpolicy.model import DERIVE, Policy
from policies.admissionpolicy.pods.defaults import defaulted
from policies.cel.reads import Reads
from policies.engine.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    JsonObject,
    is_being_deleted,
    mapping,
)
from policies.objects.fieldpath import Location, locate, lookup, render
from policies.objects.workload import Workload

POD = GroupVersionKind("", "v1", "Pod")
PODS = GroupVersionResource("", "v1", "pods")

UNDERIVED: Final = frozenset(
    {("", "Pod"), ("apps", "ControllerRevision"), ("trainer.kubeflow.org", "ClusterTrainingRuntime")}
)
"""Kinds in the table of workloads whose templates are not judged.

A Pod is judged directly. A ControllerRevision has a template that was judged with its workload. A cluster-scoped kind
is judged with the namespaced objects that are made from it.
"""

_COPIED = ("labels", "annotations", "finalizers")
_OWNERS = frozenset({"name", "generateName", "namespace"})
_CLAIMS = ("spec.volumes", "spec.volumes[*].name", "spec.volumes[*].persistentVolumeClaim")
_NOT_READY, _UNREACHABLE = (f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable"))

FILLED_BY_ADMISSION: Final = frozenset(
    {
        # the API server's own, and the controller's
        "metadata.name",
        "metadata.uid",
        "metadata.creationTimestamp",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.ownerReferences",
        "status",
        # ServiceAccount
        "spec.serviceAccountName",
        "spec.serviceAccount",
        "spec.imagePullSecrets",
        "spec.volumes",
        "spec.volumes[*].name",
        "spec.volumes[*].projected",
        "spec.containers[*].volumeMounts",
        "spec.initContainers[*].volumeMounts",
        # Priority
        "spec.priority",
        "spec.priorityClassName",
        "spec.preemptionPolicy",
        # DefaultTolerationSeconds, and RuntimeClass
        "spec.tolerations",
        "spec.nodeSelector",
        "spec.overhead",
    }
)
"""Fields that a Pod may get only at its own creation, from an admission plugin, the API server or its controller.

`DerivedPod.filled` returns those that are open for a Pod. The resources of containers, which LimitRanges fill in, are
not included: most Namespaces have no LimitRange, and most rules are about resources.
"""

FILLED_BY_CONTROLLERS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("apps", "DaemonSet"): frozenset({"spec.affinity", "spec.tolerations"}),
    ("apps", "StatefulSet"): frozenset({"spec.hostname", "spec.subdomain", *_CLAIMS}),
    ("batch", "Job"): frozenset({"spec.hostname"}),
    ("batch", "CronJob"): frozenset({"spec.hostname"}),
}
"""Fields that controllers of some kinds set in the Pods that they create.

Not included are their labels, the variable JOB_COMPLETION_INDEX, and what controllers of custom resources add: many
rules read labels and variables, but only rules about exactly these would have another verdict.
"""


class DerivedPod(Struct, frozen=True):
    """A Pod that would be created from a workload's template.

    request: the CREATE of that Pod. owner: the kind of the workload. template: the path of the template in the
    workload.
    """

    request: AdmissionRequest
    owner: GroupVersionKind
    template: Location

    @property
    def pod(self) -> JsonObject:
        """The Pod."""
        return self.request.object or {}

    def place(self, location: Location) -> Location:
        """The location in the workload that corresponds to a location in the Pod.

        A Pod's name and namespace correspond to those of the workload.
        """
        if location[:1] == ("metadata",) and location[1:2] and location[1] in _OWNERS:
            return ("metadata", "name" if location[1] == "generateName" else location[1], *location[2:])
        return (*self.template, *location)

    @property
    def filled(self) -> frozenset[str]:
        """The fields of FILLED_BY_ADMISSION that the template does not set, and those that the controller fills in."""
        left_open = FILLED_BY_ADMISSION - frozenset(_settled(mapping(self.pod, "spec")))
        return left_open | FILLED_BY_CONTROLLERS.get(self.owner.group_kind, frozenset())

    def unknown_to(self, reads: Reads) -> frozenset[str]:
        """The open fields on which an expression with these reads depends: the real Pod may have another result.

        A rule with such fields must not refuse the workload; a warning may name them.
        """
        return frozenset(path for path in self.filled if reads.touches(path))


def is_derived(policy: Policy) -> bool:
    """Whether a policy also applies to pod templates. It does, unless its annotation is `false`."""
    return policy.annotations.get(DERIVE) != "false"


def templated(workloads: Mapping[tuple[str, str], Workload]) -> Mapping[tuple[str, str], Workload]:
    """The kinds whose templates are judged."""
    return {kind: row for kind, row in workloads.items() if row.templates and kind not in UNDERIVED}


def template_paths(workloads: Mapping[tuple[str, str], Workload]) -> frozenset[str]:
    """The paths to decode in workloads for policies on Pods: whole templates.

    All fields are needed to detect a change, and many defaults depend on another field, as `imagePullPolicy` on the
    image.
    """
    return frozenset(render(pattern) for row in templated(workloads).values() for pattern in row.templates)


def derive(request: AdmissionRequest, workloads: Mapping[tuple[str, str], Workload]) -> tuple[DerivedPod, ...]:
    """The Pods that would be created after a request; none if it does not change the templates.

    There are none for a cluster-scoped workload: its Pods are judged with the namespaced object that is made from it.
    """
    row = workloads.get(request.kind.group_kind)
    if row is None or request.kind.group_kind in UNDERIVED or not _is_written(request):
        return ()
    return tuple(
        DerivedPod(_creation(request, template), request.kind, location)
        for pattern in row.templates
        for location, template in locate(request.object, pattern)
        if isinstance(template, dict)
        and not (request.operation == "UPDATE" and lookup(request.old_object, location) == template)
    )


def _is_written(request: AdmissionRequest) -> bool:
    return (
        request.operation in ("CREATE", "UPDATE")
        and not request.sub_resource
        and bool(request.scope_namespace)
        and not is_being_deleted(request.object)
    )


def _creation(request: AdmissionRequest, template: JsonObject) -> AdmissionRequest:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(request, mapping(template, "metadata")),
        "spec": template.get("spec"),
    }
    return replace(
        request, kind=POD, resource=PODS, name="", operation="CREATE", object=defaulted(pod), old_object=None
    )


def _metadata(request: AdmissionRequest, metadata: JsonObject) -> JsonObject:
    """The template's metadata, with a generateName from the workload's name, such as `web-`."""
    owner = mapping(request.object, "metadata")
    name = request.name or owner.get("name")
    prefix = f"{name}-" if name else owner.get("generateName") or ""
    copied: JsonObject = {field: metadata[field] for field in _COPIED if field in metadata}
    return {"generateName": prefix, "namespace": request.namespace, **copied}


def _settled(spec: JsonObject) -> Iterator[str]:
    """The fields that admission does not change in a Pod with this spec."""
    for field in ("imagePullSecrets", "priority", "priorityClassName", "preemptionPolicy"):
        if spec.get(field) not in (None, "", []):
            yield f"spec.{field}"
    if spec.get("serviceAccountName"):
        yield from ("spec.serviceAccountName", "spec.serviceAccount")
    if spec.get("automountServiceAccountToken") is False:
        yield from ("spec.volumes[*].name", "spec.volumes[*].projected")
        yield from ("spec.containers[*].volumeMounts", "spec.initContainers[*].volumeMounts")
    if spec.get("automountServiceAccountToken") is False or spec.get("volumes"):
        yield "spec.volumes"
    if not spec.get("runtimeClassName"):
        yield from ("spec.nodeSelector", "spec.overhead")
        if _tolerates(spec, _NOT_READY) and _tolerates(spec, _UNREACHABLE):
            yield "spec.tolerations"


def _tolerates(spec: JsonObject, taint: str) -> bool:
    """Whether there is a toleration, so that DefaultTolerationSeconds adds none (admission.go)."""
    tolerations = spec.get("tolerations")
    return any(
        toleration.get("key") in (taint, None, "") and toleration.get("effect") in ("NoExecute", None, "")
        for toleration in (tolerations if isinstance(tolerations, list) else [])
        if isinstance(toleration, dict)
    )
