"""The fields that every object has, because they are required, always written, or filled in by defaults.

For a built-in kind, OpenAPI tells what is required and what is always written, and builtin/defaults.py what has a
default of its own. What depends on other fields, on the cluster or on validation is in the tables here. A field that is
filled in conditionally counts as always present.
Sources: SetDefaults_* in kubernetes' pkg/apis/{core,apps,batch,networking,rbac}/v1/defaults.go, and for metadata
BeforeCreate in k8s.io/apiserver's pkg/registry/rest/create.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from policies.admissionpolicy.builtin.defaults import of_type
from policies.lint.declared import DeclaredType

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_CORE, _APPS, _BATCH = (f"io.k8s.api.{group}.v1" for group in ("core", "apps", "batch"))
# Other groups are not checked, because their defaults are not in the table.
_KNOWN = (_CORE, _APPS, _BATCH, "io.k8s.api.networking.v1", "io.k8s.api.rbac.v1", "io.k8s.apimachinery.pkg.apis.meta")
_ROLLING = "type rollingUpdate"
_HISTORY = "replicas revisionHistoryLimit"
_CONTAINER = "image imagePullPolicy"

_FILLED: Mapping[str, str] = {
    _META: "name namespace uid creationTimestamp generation managedFields resourceVersion",
    f"{_APPS}.DeploymentSpec": f"{_HISTORY} progressDeadlineSeconds",
    f"{_APPS}.DeploymentStrategy": _ROLLING,
    f"{_APPS}.RollingUpdateDeployment": "maxUnavailable maxSurge",
    f"{_APPS}.DaemonSetSpec": "revisionHistoryLimit",
    f"{_APPS}.DaemonSetUpdateStrategy": _ROLLING,
    f"{_APPS}.RollingUpdateDaemonSet": "maxUnavailable maxSurge",
    f"{_APPS}.StatefulSetSpec": f"{_HISTORY} podManagementPolicy persistentVolumeClaimRetentionPolicy",
    f"{_APPS}.StatefulSetUpdateStrategy": _ROLLING,
    f"{_APPS}.RollingUpdateStatefulSetStrategy": "partition maxUnavailable",
    f"{_APPS}.StatefulSetPersistentVolumeClaimRetentionPolicy": "whenDeleted whenScaled",
    f"{_APPS}.ReplicaSetSpec": "replicas template",
    f"{_BATCH}.JobSpec": (
        "completions parallelism backoffLimit completionMode suspend podReplacementPolicy manualSelector selector"
    ),
    f"{_BATCH}.CronJobSpec": "concurrencyPolicy suspend successfulJobsHistoryLimit failedJobsHistoryLimit",
    f"{_CORE}.ReplicationControllerSpec": "replicas selector template",
    f"{_CORE}.PodTemplateSpec": "spec metadata",
    f"{_CORE}.PodSpec": ("enableServiceLinks serviceAccountName serviceAccount tolerations priority preemptionPolicy"),
    f"{_CORE}.Container": _CONTAINER,
    f"{_CORE}.EphemeralContainer": _CONTAINER,
    f"{_CORE}.ImageVolumeSource": "pullPolicy",
    f"{_CORE}.ServiceSpec": (
        "sessionAffinity type ports clusterIP clusterIPs ipFamilies ipFamilyPolicy internalTrafficPolicy"
        " externalTrafficPolicy allocateLoadBalancerNodePorts"
    ),
    f"{_CORE}.ServicePort": "targetPort",
    f"{_CORE}.PersistentVolumeSpec": "persistentVolumeReclaimPolicy volumeMode",
    f"{_CORE}.PersistentVolumeClaimStatus": "phase",
    f"{_CORE}.PodStatus": "phase qosClass",
    f"{_CORE}.NamespaceSpec": "finalizers",
    "io.k8s.api.networking.v1.NetworkPolicySpec": "policyTypes podSelector",
    "io.k8s.api.rbac.v1.Subject": "apiGroup",
}
# Metadata that all objects of a kind have: from conversion, from admission, from the template.
_METADATA: Mapping[str, str] = {
    "DaemonSet": "annotations",
    "PersistentVolumeClaim": "finalizers",
    "ReplicationController": "labels",
}
# Fields that may be absent in types of CEL's own. The other fields are present, or empty ones mean nothing.
_ABSENT: Mapping[str, str] = {
    "kubernetes.AdmissionRequest": "subResource requestSubResource",
    "kubernetes.UserInfo": "extra",
    "kubernetes.NamespaceMetadata": "annotations deletionTimestamp deletionGracePeriodSeconds generateName finalizers",
}


class FieldPresence:
    """The presence of fields in the types of one policy's objects and parameters."""

    def __init__(self, *declared: DeclaredType | None) -> None:
        self._declared = [declaration for declaration in declared if declaration is not None]

    def may_lack(self, struct: str, field: str, place: str) -> bool:
        """Whether the value at a place, of type `struct`, may lack a field; False if that is unknown."""
        if field == "labels" and place.endswith("bject.spec.template.metadata"):
            return False  # a workload's selector has to match them
        if struct in _ABSENT:
            return field in _ABSENT[struct].split()
        for declared in self._declared:
            if place.endswith("bject.metadata") and _METADATA.get(declared.type.name) == field:
                return False
            if field in declared.structs.get(struct, ()):
                return _may_lack(declared, struct, field)
        return False


def _may_lack(declared: DeclaredType, struct: str, field: str) -> bool:
    if struct == declared.type.name and field in ("apiVersion", "kind", "metadata"):
        return False
    definition = declared.definitions.get(struct, "")
    if definition and not definition.startswith(_KNOWN):
        return False
    there = declared.present[struct] | set(_FILLED.get(definition, "").split()) | _defaulted(definition)
    return field.strip("_") not in there


def _defaulted(definition: str) -> set[str]:
    """The fields of a built-in type that have a default of their own."""
    constants = of_type(definition).constants if definition else ()
    return {default.path[0] for default in constants if len(default.path) == 1}
