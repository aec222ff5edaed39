"""Writes the webhook configurations to the cluster, and removes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from webhook.cluster.call import Call, fetch
from webhook.cluster.errors import ApiError, ClusterError

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

GROUP = "admissionregistration.k8s.io"
PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_SECONDS = 15.0


async def apply(
    api: ApiClient, configurations: Sequence[Mapping[str, Any]], field_manager: str = "cks-admission"
) -> None:
    """Make each configuration be as given (server-side apply), taking over its fields from whoever set them before.

    Raises ClusterError at the first that cannot be written; the ones before it are written then.
    """
    for configuration in configurations:
        kind, name = configuration["kind"], configuration["metadata"]["name"]
        call = Call(
            "PATCH",
            _path(kind, name),
            query=(("fieldManager", field_manager), ("force", "true")),
            content_type="application/apply-patch+yaml",
            body=configuration,
            seconds=_SECONDS,
        )
        try:
            await fetch(api, call)
        except ClusterError as error:
            # Applying what does not exist yet is authorized as a creation as well.
            raise _failure(f"{kind} {name} could not be written", error, kind, "patch and create") from error


async def remove(api: ApiClient, names: Mapping[str, str]) -> list[str]:
    """Delete the configurations, given as a name for each kind; returns which there were, as `kind/name`.

    Raises ClusterError at the first that cannot be deleted.
    """
    removed = []
    for kind, name in names.items():
        try:
            await fetch(api, Call("DELETE", _path(kind, name), seconds=_SECONDS))
        except ApiError as error:
            if error.status == 404:
                continue
            raise _failure(f"{kind} {name} could not be removed", error, kind, "delete") from error
        except ClusterError as error:
            raise _failure(f"{kind} {name} could not be removed", error, kind, "delete") from error
        removed.append(f"{kind}/{name}")
    return removed


def _path(kind: str, name: str) -> str:
    """Raises ClusterError for a kind that is no webhook configuration."""
    if kind not in PLURALS:
        raise ClusterError(f"{kind} is not a kind of webhook configuration; these are: {', '.join(PLURALS)}")
    return f"/apis/{GROUP}/v1/{PLURALS[kind]}/{quote(name, safe='')}"


def _failure(what: str, error: ClusterError, kind: str, verbs: str) -> ClusterError:
    remedy = ""
    if isinstance(error, ApiError) and error.status == 403:
        remedy = f"; a ClusterRole must allow its account to {verbs} {PLURALS[kind]} in {GROUP}"
    return ClusterError(f"{what}: {error}{remedy}")
