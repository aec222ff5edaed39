"""The input of every rule: an AdmissionRequest, decoded once and never changed.

The fields are those of `admission.k8s.io/v1` AdmissionRequest. Optional fields that are absent or null become their
zero value.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

from policies.kubernetes.name import SUBDOMAIN_LENGTH

JsonObject = dict[str, Any]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


class GroupVersionKind(Struct, frozen=True):
    """A kind, such as apps/v1 Deployment; the core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def group_kind(self) -> tuple[str, str]:
        """Group and kind, the key of tables that do not depend on the version."""
        return self.group, self.kind


class GroupVersionResource(Struct, frozen=True):
    """A resource, such as apps/v1 deployments."""

    group: str
    version: str
    resource: str


class UserInfo(Struct, frozen=True):
    """The user who makes the request, as the API server authenticated them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class Target(Protocol):
    """The part of a request that decides which rules apply to it. An AdmissionRequest is a Target."""

    @property
    def operation(self) -> Operation:
        """The operation on the resource."""

    @property
    def resource(self) -> GroupVersionResource:
        """The resource that is written."""

    @property
    def sub_resource(self) -> str:
        """The subresource; empty for the object itself."""


class AdmissionRequest(Struct, frozen=True, kw_only=True, rename="camel", weakref=True):
    """One write that the API server asks about.

    `object` is None on DELETE, `old_object` on CREATE and CONNECT. Both contain only the paths that the selected rules
    read (`Rule.reads`), and `metadata.managedFields` only if a rule reads whole objects. `namespace` counts, not the
    one in the object, which may be empty. For a Namespace, `namespace` is its own name.
    """

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: Operation
    user_info: UserInfo = UserInfo()
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    dry_run: bool | None = False
    options: JsonObject | None = None
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""

    @property
    def scope_namespace(self) -> str:
        """The namespace of the object; empty for cluster-scoped objects, including Namespaces."""
        if self.resource.resource == "namespaces" and not self.resource.group:
            return ""
        return self.namespace

    @property
    def display_name(self) -> str:
        """The object's name for messages: `generateName` with an ellipsis until the name is known."""
        if self.name:
            return self.name
        metadata = mapping(self.object, "metadata")
        return str(metadata.get("name") or "") or f"{metadata.get('generateName') or ''}…"


def mapping(value: object, key: str) -> JsonObject:
    """`value[key]` if both are maps, else an empty map. For parents that may be missing, null or of another type."""
    if isinstance(value, dict):
        child = value.get(key)
        if isinstance(child, dict):
            return child
    return {}


def as_map(value: object) -> JsonObject:
    """The value if it is a map, else an empty map."""
    return value if isinstance(value, dict) else {}


def mappings(value: object, key: str) -> list[JsonObject]:
    """The maps in the list `value[key]`; none if there is no such list. What is no map is left out."""
    items = value.get(key) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def is_owned(obj: JsonObject | None) -> bool:
    """Whether a controller owns the object: it has an owner reference with `controller: true`."""
    return controller_reference(obj) is not None


def controller_reference(obj: JsonObject | None) -> JsonObject | None:
    """The owner reference with `controller: true`, as it is written; None if there is none."""
    references = mapping(obj, "metadata").get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller") is True:
            return reference
    return None


def is_mirror_pod(obj: JsonObject | None) -> bool:
    """Whether the object is the mirror of a kubelet's static Pod. Mirrors cannot be changed through the API."""
    return MIRROR_ANNOTATION in mapping(mapping(obj, "metadata"), "annotations")


def is_being_deleted(obj: JsonObject | None) -> bool:
    """Whether the object is deleted and waits only for its finalizers."""
    return bool(mapping(obj, "metadata").get("deletionTimestamp"))


class Owner(Struct, frozen=True):
    """An object that owns another as its controller."""

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def group_kind(self) -> tuple[str, str]:
        """Its API group and kind."""
        return self.api_version.rpartition("/")[0], self.kind


def controller(obj: JsonObject | None) -> Owner | None:
    """The controller of an object; None if it has none, or if the reference to it is malformed or too long for one."""
    reference = controller_reference(obj) or {}
    fields = [reference.get(field) for field in ("apiVersion", "kind", "name", "uid")]
    texts = [field for field in fields if isinstance(field, str) and 0 < len(field) <= SUBDOMAIN_LENGTH]
    return Owner(*texts) if len(texts) == len(fields) else None
