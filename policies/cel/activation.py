"""The variables of an evaluation, in the form in which kube-apiserver passes them to an expression.

The API server turns its typed AdmissionRequest and Namespace into maps. Some fields are always present, others only if
they are not empty (`omitempty`), and of a Namespace only some fields are shown. Source: k8s.io/apiserver's
pkg/admission/plugin/cel/activation.go and condition.go, k8s.io/api's admission/v1 and core/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.cel.library.authorizer import Authorizer, Check, Decisions, ResourceCheck, User

Json = Mapping[str, Any]

QUICK = frozenset(
    f"request.{field}"
    for field in (
        *("operation", "name", "namespace", "subResource", "userInfo.username", "userInfo.groups"),
        *(f"{of}.{part}" for of in ("kind", "requestKind") for part in ("group", "version", "kind")),
        *(f"{of}.{part}" for of in ("resource", "requestResource") for part in ("group", "version", "resource")),
    )
)
"""Fields of `request` that are shown as they are unless they are empty: the whole need not be made for them."""

_KIND = {"group": "", "version": "", "kind": ""}
_RESOURCE = {"group": "", "version": "", "resource": ""}
_METADATA = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "labels", "annotations", "finalizers",
)  # fmt: skip


def activation(
    request: Json,
    decisions: Decisions,
    *,
    object: Json | None,
    old_object: Json | None = None,
    params: Json | None = None,
    namespace: Json | None = None,
) -> dict[str, Any]:
    """The variables for one request: an AdmissionRequest as JSON, with its objects as separate arguments.

    `decisions` answers the checks that an expression makes with `authorizer`.
    """
    user, resource = requester(request), request.get("resource") or {}
    return {
        "object": object,
        "oldObject": old_object,
        "params": params,
        "namespaceObject": shown_namespace(namespace),
        "request": shown_request(request),
        "authorizer": Authorizer(decisions, Check(user=user)),
        "authorizer.requestResource": ResourceCheck(
            decisions,
            Check(
                user=user,
                api_group=resource.get("group", ""),
                resource=resource.get("resource", ""),
                subresource=request.get("subResource", ""),
                namespace=request.get("namespace", ""),
                name=request.get("name", ""),
            ),
        ),
    }


def requester(request: Json) -> User:
    """The user who makes a request."""
    info = request.get("userInfo") or {}
    extra = tuple((key, tuple(values)) for key, values in (info.get("extra") or {}).items())
    return User(info.get("username", ""), info.get("uid", ""), tuple(info.get("groups") or ()), extra)


def shown_request(request: Json) -> dict[str, Any]:
    """The variable `request`, which does not show the objects."""
    return {
        "uid": request.get("uid", ""),
        "kind": _KIND | (request.get("kind") or {}),
        "resource": _RESOURCE | (request.get("resource") or {}),
        **({"requestKind": _KIND | request["requestKind"]} if request.get("requestKind") else {}),
        **({"requestResource": _RESOURCE | request["requestResource"]} if request.get("requestResource") else {}),
        **_present(request, ("subResource", "requestSubResource", "name", "namespace")),
        "operation": request.get("operation", ""),
        "userInfo": _present(request.get("userInfo") or {}, ("username", "uid", "groups", "extra")),
        "object": None,
        "oldObject": None,
        **({"dryRun": request["dryRun"]} if request.get("dryRun") is not None else {}),
        "options": request.get("options"),
    }


def shown_namespace(namespace: Json | None) -> dict[str, Any] | None:
    """The variable `namespaceObject`; null for a cluster-scoped object."""
    if namespace is None:
        return None
    given = namespace.get("metadata") or {}
    metadata = _present(given, _METADATA)
    if given.get("deletionGracePeriodSeconds") is not None:
        metadata["deletionGracePeriodSeconds"] = given["deletionGracePeriodSeconds"]
    return {
        "metadata": metadata,
        "spec": _present(namespace.get("spec") or {}, ("finalizers",)),
        "status": _present(namespace.get("status") or {}, ("phase", "conditions")),
    }


def _present(given: Json, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: given[name] for name in names if given.get(name)}
