"""The request that would create an object which exists already, as somebody would send it today."""

from __future__ import annotations

from typing import Any, Final

from policies.engine.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    JsonObject,
    UserInfo,
    mapping,
)

ANYBODY: Final = UserInfo("user", groups=("system:authenticated",))
"""Who sends the requests: somebody who is not exempt from anything."""

# What the API server fills in after admission, or takes from nobody.
_OF_THE_SERVER: Final = ("resourceVersion", "managedFields", "selfLink")
_NODE: Final = ("", "Node")
_POD: Final = ("", "Pod")


def creation(obj: JsonObject, resource: GroupVersionResource, *, namespaced: bool) -> AdmissionRequest:
    """The request. obj: with apiVersion and kind; it is not changed."""
    group, _, version = str(obj.get("apiVersion")).rpartition("/")
    kind = GroupVersionKind(group, version, str(obj.get("kind")))
    metadata = mapping(obj, "metadata")
    name = str(metadata.get("name") or "")
    is_namespace = kind.group_kind == ("", "Namespace")
    return AdmissionRequest(
        uid="audit",
        kind=kind,
        resource=resource,
        name=name,
        namespace=name if is_namespace else str(metadata.get("namespace") or "") if namespaced else "",
        operation="CREATE",
        user_info=ANYBODY,
        object=as_sent(obj),
        dry_run=True,
    )


def as_sent(obj: JsonObject) -> JsonObject:
    """An object without what nobody sends: its status, and for a Pod the Node that the scheduler chose.

    A kubelet sends the status of its own Node. An object that has nothing of that is returned as it is.
    """
    metadata = mapping(obj, "metadata")
    kept = {key: value for key, value in metadata.items() if key not in _OF_THE_SERVER}
    kind = str(obj.get("apiVersion")).rpartition("/")[0], obj.get("kind")
    changes: dict[str, Any] = {}
    if len(kept) < len(metadata):
        changes["metadata"] = kept
    if kind == _POD and "nodeName" in mapping(obj, "spec") and not _is_named_by_its_author(metadata):
        changes["spec"] = {key: value for key, value in obj["spec"].items() if key != "nodeName"}
    without = ("status",) if kind != _NODE and "status" in obj else ()
    if not changes and not without:
        return obj
    return {key: changes.get(key, value) for key, value in obj.items() if key not in without}


def _is_named_by_its_author(metadata: JsonObject) -> bool:
    """Whether whoever wrote the Pod named its Node, or nobody knows. A scheduler's choice belongs to no manager.

    Source: assignPod in kubernetes' pkg/registry/core/pod/storage/storage.go, which keeps no managedFields.
    """
    managers = metadata.get("managedFields")
    if not isinstance(managers, list) or not managers:
        return "uid" not in metadata
    return any("f:nodeName" in mapping(mapping(manager, "fieldsV1"), "f:spec") for manager in managers)
