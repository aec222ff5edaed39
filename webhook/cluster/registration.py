"""Webhook configurations, written to the cluster by server-side apply and taken away again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.request import JsonObject
from webhook.cluster.client import Api, ClusterError

FIELD_MANAGER = "cks-admission"
_PATHS = {
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


async def apply(api: Api, configurations: Sequence[JsonObject]) -> None:
    """Write the configurations, taking fields over from whoever else set them. Raises ClusterError."""
    for configuration in configurations:
        path = f"{_PATHS[configuration['kind']]}/{configuration['metadata']['name']}"
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        async with api.request(
            "PATCH", path, query, body=configuration, content_type="application/apply-patch+yaml"
        ) as answer:
            await answer.read()


async def remove(api: Api, names: Mapping[str, str]) -> list[str]:
    """Delete configurations by kind and name, those that are there; returns what was removed. Raises ClusterError."""
    removed = []
    for kind, name in names.items():
        try:
            async with api.request("DELETE", f"{_PATHS[kind]}/{name}") as answer:
                await answer.read()
        except ClusterError as error:
            if error.status == 404:
                continue
            raise
        removed.append(f"{kind} {name} was removed")
    return removed
