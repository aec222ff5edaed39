"""Reads objects from files, as kubectl does, and makes the requests that the API server would make of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from policies.engine.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    JsonObject,
    Operation,
    UserInfo,
)
from policies.objects.workload import plural
from webhook.files.yamlfile import OBJECTS, FileError, YamlDocument, content, load, odd

SUFFIXES = (".yaml", ".yml", ".json")
# Resource names other than the lower-case kind with s or es.
_IRREGULAR = {"Endpoints": "endpoints"}
# Cluster-scoped kinds. Unknown kinds count as namespaced, as nearly all custom resources are.
CLUSTER_SCOPED = {
    "": ("Namespace", "Node", "PersistentVolume"),
    "admissionregistration.k8s.io": (
        "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
    ),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apiregistration.k8s.io": ("APIService",),
    "certificates.k8s.io": ("CertificateSigningRequest", "ClusterTrustBundle"),
    "cks-admission.dev": ("PolicyException",),
    "compute.coreweave.com": ("NodePool",),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "grove.io": ("ClusterTopology", "ClusterTopologyBinding"),
    "kai.scheduler": ("Topology",),
    "kueue.x-k8s.io": (
        "AdmissionCheck", "ClusterQueue", "Cohort", "MultiKueueCluster", "MultiKueueConfig", "ResourceFlavor",
        "Topology", "WorkloadPriorityClass",
    ),
    "networking.k8s.io": ("IngressClass", "IPAddress", "ServiceCIDR"),
    "node.k8s.io": ("RuntimeClass",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceSlice"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"),
    "trainer.kubeflow.org": ("ClusterTrainingRuntime",),
}  # fmt: skip


Places = Callable[[Sequence[str | int]], tuple[int, int]]
"""Returns line and column, from 1, of the field at a path, or of its nearest existing parent."""


class Manifest(NamedTuple):
    """An object and its place, as file:line. places: of its fields, in that file."""

    where: str
    object: JsonObject
    places: Places = lambda _: (1, 1)

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.where.rpartition(":")[0]


def read(paths: Iterable[str], stdin: bytes = b"") -> Iterator[Manifest]:
    """The objects in files, in directories (sorted by name, recursively) and, for `-`, in the text of standard input.

    Raises FileError and OSError.
    """
    for path in paths:
        read_files = ((file, content(file, most=OBJECTS, pipes=True)) for file in given(path))
        files: Iterable[tuple[str, bytes]] = [("stdin", stdin)] if path == "-" else read_files
        for name, text in files:
            for document in load(name, text):
                for place, value in document.parts():
                    yield of_value(document, place, value)


def given(path: str) -> Iterator[str]:
    """The file at a path from a command line, or those in that directory, sorted, but hidden ones and tools' own.

    Raises OSError.
    """
    if Path(path).is_dir():
        yield from sorted(str(file) for file in _files(path) if file.is_file())
    else:
        yield path


def followed(path: str) -> Iterator[Path]:
    """The file at a path from the configuration, or the files in that directory, sorted by name, recursively.

    Names that begin with a dot are skipped: in a mounted ConfigMap such directories contain the same files again. So
    are tools' own files, such as kustomization.yaml, and what is no file, such as a FIFO. Raises OSError.
    """
    return (file for file in _files(path) if file == Path(path) or not odd(file))


def passed_over(path: str) -> list[str]:
    """What in a directory has the name of a file but is none, a line each. Raises OSError."""
    found = ((file, odd(file)) for file in _files(path) if file != Path(path))
    return [f"{file} is {what}, not a regular file: it is passed over" for file, what in found if what]


def _files(path: str) -> Iterator[Path]:
    if not Path(path).is_dir():
        yield Path(path)
        return
    for directory, below, names in os.walk(path, onerror=_raised):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            file = Path(directory, name)
            if file.suffix in SUFFIXES and not name.startswith(".") and name not in _TOOLS:
                yield file


KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
_TOOLS = frozenset({"Chart.yaml", *KUSTOMIZATIONS})
"""Files that lie beside manifests and policies and are for tools."""


def _raised(error: OSError) -> None:
    """Raise the error of a directory that cannot be listed, so that it does not count as empty."""
    raise error


def of_value(document: YamlDocument, path: tuple[str | int, ...], value: Any) -> Manifest:
    """The object that is a document, or that stands at a path in it. Raises FileError."""
    where = f"{document.name}:{document.line(path)}"
    if not isinstance(value, dict):
        raise FileError(f"{where}: not a Kubernetes object: a map with apiVersion, kind and metadata was expected")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise FileError(f"{where}: not a Kubernetes object: it has no {field}")
    if not isinstance(value.get("metadata", {}), dict):
        raise FileError(f"{where}: metadata must be a map")
    return Manifest(where, value, lambda steps: document.place((*path, *steps)))


def request(
    obj: JsonObject, old: JsonObject | None, *, user: UserInfo, namespace: str, uid: str = "check"
) -> AdmissionRequest:
    """The request that the API server would make for a create or, with an old object, an update.

    namespace: for objects that have none. The resource is guessed from the kind, as kubectl does offline.
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
