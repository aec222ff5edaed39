"""Reads and writes the webhook configurations of the cluster, and removes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.registration.configurations import UNREGISTER
from webhook.registration.drift import MANAGER

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

GROUP = "admissionregistration.k8s.io"
PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_MANAGER = (("fieldManager", MANAGER),)
# The API server itself aborts a write after 34 s. It compiles all conditions of a configuration. If that takes long, a
# shorter limit here would repeat the write forever.
_SECONDS = 35.0

Json = dict[str, Any]

_OBJECT = msgspec.json.Decoder(Json)


async def read(api: ApiClient, kind: str, name: str) -> Json | None:
    """The current configuration; None if it does not exist. Raises ClusterError."""
    try:
        body = await fetch(api, Call("GET", path(kind, name), seconds=_SECONDS))
    except ClusterError as error:
        if error.status == 404:
            return None
        raise _failure(f"{kind} {name} could not be read", error, kind, "get") from error
    return {**_OBJECT.decode(body), "apiVersion": f"{GROUP}/v1", "kind": kind}


async def apply(api: ApiClient, configuration: Mapping[str, Any]) -> Json:
    """Write a configuration by server-side apply, and take over the ownership of its fields.

    Returns the resulting configuration. Raises ClusterError.
    """
    # Applying an object that does not exist needs the right to create it, too.
    return await _write(
        api, "PATCH", configuration, (*_MANAGER, ("force", "true")), "application/apply-patch+yaml", "patch and create"
    )


async def replace(api: ApiClient, configuration: Mapping[str, Any]) -> Json:
    """Replace the configuration with the same resourceVersion. Returns the resulting configuration.

    Raises ClusterError; an ApiError with status 409 if somebody else changed the configuration first.
    """
    return await _write(api, "PUT", configuration, _MANAGER, "application/json", "update")


async def owner_uid(api: ApiClient, name: str) -> str | None:
    """The uid of a ClusterRole; None if it does not exist. Raises ClusterError."""
    try:
        body = await fetch(api, Call("GET", f"{_CLUSTER_ROLES}/{quote(name, safe='')}", seconds=_SECONDS))
    except ApiError as error:
        if error.status == 404:
            return None
        remedy = "; a ClusterRole must allow the service's account to get it" if error.status == 403 else ""
        raise ClusterError(f"ClusterRole {name} could not be read: {error}{remedy}") from error
    return str(_OBJECT.decode(body)["metadata"]["uid"])


async def unregister(api: ApiClient, names: Mapping[str, str]) -> list[str]:
    """Delete the configurations, given as a name by kind, permanently. Returns those that existed, as `kind/name`.

    They are annotated first, so that a running service does not recreate them. Waiting is not necessary, because a
    watch shows the changes of an object in their order, this one before the deletion.

    Raises ClusterError at the first that cannot be annotated or deleted.
    """
    announced = {"metadata": {"annotations": {UNREGISTER: "true"}}}
    for kind, name in names.items():
        call = Call(
            "PATCH",
            path(kind, name),
            _MANAGER,
            content_type="application/merge-patch+json",
            body=announced,
            seconds=_SECONDS,
        )
        try:
            await fetch(api, call)
        except ClusterError as error:
            if error.status != 404:
                raise _failure(f"{kind} {name} could not be annotated", error, kind, "patch") from error
    return await remove(api, names)


async def remove(api: ApiClient, names: Mapping[str, str]) -> list[str]:
    """Delete the configurations, given as a name by kind. Returns those that existed, as `kind/name`.

    Raises ClusterError at the first that cannot be deleted.
    """
    removed = []
    for kind, name in names.items():
        try:
            await fetch(api, Call("DELETE", path(kind, name), seconds=_SECONDS))
        except ClusterError as error:
            if error.status == 404:
                continue
            raise _failure(f"{kind} {name} could not be removed", error, kind, "delete") from error
        removed.append(f"{kind}/{name}")
    return removed


def path(kind: str, name: str = "") -> str:
    """The path of a configuration, or of all configurations of a kind. Raises ClusterError for other kinds."""
    if kind not in PLURALS:
        raise ClusterError(f"{kind} is not a kind of webhook configuration; these are: {', '.join(PLURALS)}")
    whole = f"/apis/{GROUP}/v1/{PLURALS[kind]}"
    return f"{whole}/{quote(name, safe='')}" if name else whole


async def _write(
    api: ApiClient,
    method: str,
    configuration: Mapping[str, Any],
    query: tuple[tuple[str, str], ...],
    content_type: str,
    verbs: str,
) -> Json:
    kind, name = configuration["kind"], configuration["metadata"]["name"]
    call = Call(method, path(kind, name), query, content_type=content_type, body=configuration, seconds=_SECONDS)
    try:
        return _OBJECT.decode(await fetch(api, call))
    except ClusterError as error:
        raise _failure(f"{kind} {name} could not be written", error, kind, verbs) from error


def _failure(what: str, error: ClusterError, kind: str, verbs: str) -> ClusterError:
    """The error with a message about what was tried. An ApiError stays an ApiError with its status."""
    if not isinstance(error, ApiError):
        return ClusterError(f"{what}: {error}")
    remedy = (
        f"; a ClusterRole must allow its account to {verbs} {PLURALS[kind]} in {GROUP}" if error.status == 403 else ""
    )
    return ApiError(f"{what}: {error}{remedy}", error.status, error.retry_after)
