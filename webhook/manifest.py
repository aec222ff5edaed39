"""Objects in files, as people give them to kubectl, and the requests that the API server would make of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from policies.request import AdmissionRequest, GroupVersionKind, GroupVersionResource, JsonObject, Operation, UserInfo
from policies.workload import plural
from webhook.yamlfile import load

SUFFIXES = (".yaml", ".yml", ".json")
# Resource names that are not the lower-case kind with an s or es.
_IRREGULAR = {"Endpoints": "endpoints"}
# Kinds without a namespace; a kind that is not known is taken for a namespaced one, as nearly all custom resources are.
CLUSTER_SCOPED = {
    "": ("Namespace", "Node", "PersistentVolume"),
    "admissionregistration.k8s.io": (
        "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
    ),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apiregistration.k8s.io": ("APIService",),
    "certificates.k8s.io": ("CertificateSigningRequest", "ClusterTrustBundle"),
    "compute.coreweave.com": ("NodePool",),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "networking.k8s.io": ("IngressClass", "IPAddress", "ServiceCIDR"),
    "node.k8s.io": ("RuntimeClass",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceSlice"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"),
    "trainer.kubeflow.org": ("ClusterTrainingRuntime",),
}  # fmt: skip


class ManifestError(Exception):
    """A file with something that is no Kubernetes object; the text says where and what."""


class Manifest(NamedTuple):
    """An object and where it came from, as file:line."""

    where: str
    object: JsonObject


def read(paths: Iterable[str], stdin: bytes = b"") -> Iterator[Manifest]:
    """The objects in files, in directories (by name, with all below) and, for `-`, in the text of standard input.

    Raises ManifestError, FileError and OSError.
    """
    for path in paths:
        if path == "-":
            yield from _objects("stdin", stdin)
        elif Path(path).is_dir():
            for file in sorted(p for p in Path(path).rglob("*") if p.suffix in SUFFIXES and p.is_file()):
                yield from _objects(str(file), file.read_bytes())
        else:
            yield from _objects(path, Path(path).read_bytes())


def _objects(name: str, text: str | bytes) -> Iterator[Manifest]:
    for document in load(name, text):
        items = document.value.get("items") if isinstance(document.value, dict) else None
        if isinstance(items, list) and str(document.value.get("kind", "")).endswith("List"):
            for index, item in enumerate(items):
                yield _manifest(f"{name}:{document.line(('items', index))}", item)
        else:
            yield _manifest(f"{name}:{document.line()}", document.value)


def _manifest(where: str, value: Any) -> Manifest:
    if not isinstance(value, dict):
        raise ManifestError(f"{where}: not a Kubernetes object: a map with apiVersion, kind and metadata was expected")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise ManifestError(f"{where}: not a Kubernetes object: it has no {field}")
    if not isinstance(value.get("metadata", {}), dict):
        raise ManifestError(f"{where}: metadata must be a map")
    return Manifest(where, value)


def request(
    obj: JsonObject, old: JsonObject | None, *, user: UserInfo, namespace: str, uid: str = "check"
) -> AdmissionRequest:
    """The request that the API server would make for a create or, with an old object, an update.

    namespace: the one for objects that name none. The resource is guessed from the kind, as kubectl does offline.
    """
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = obj["kind"]
    metadata = obj.get("metadata") or {}
    operation: Operation = "CREATE" if old is None else "UPDATE"
    name = str(metadata.get("name") or "")
    if (group, kind) == ("", "Namespace"):
        scope = name
    elif kind in CLUSTER_SCOPED.get(group, ()):
        scope = ""
    else:
        scope = str(metadata.get("namespace") or namespace)
    return AdmissionRequest(
        uid=uid,
        kind=GroupVersionKind(group, version, kind),
        resource=GroupVersionResource(group, version, _IRREGULAR.get(kind) or plural(kind)),
        name=name,
        namespace=scope,
        operation=operation,
        user_info=user,
        object=obj,
        old_object=old,
        dry_run=True,
    )
