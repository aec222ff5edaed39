"""Writes a ConfigMap with facts for policies, only where something in it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.errors import ApiError, ClusterError

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

_MANAGER: Final = ("app.kubernetes.io/managed-by", "cks-admission")
_SECONDS: Final = 15.0
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


async def publish(api: Connection, namespace: str, name: str, data: dict[str, str]) -> None:
    """Bring a ConfigMap to hold this data, and nothing else. Raises ClusterError.

    One that somebody else made is left as it is.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
    own = f"{path}/{quote(name, safe='')}"
    title = f"ConfigMap {namespace}/{name}"
    try:
        known = await _read(api, own)
        body = {**_made(name), "data": data}
        if known is None:
            await fetch(api, Call("POST", path, body=body, seconds=_SECONDS))
            return
        metadata = known["metadata"]
        if (metadata.get("labels") or {}).get(_MANAGER[0]) != _MANAGER[1]:
            raise ClusterError(f"{title} is somebody else's; delete it, or set topology.facts to another name")
        if (known.get("data") or {}) != data or known.get("binaryData"):
            await fetch(api, Call("PUT", own, body={**body, "metadata": metadata}, seconds=_SECONDS))
    except ApiError as error:
        remedy = (
            f"; a Role in namespace {namespace} must allow to create configmaps, and to get and update {name}"
            if error.status == 403
            else ""
        )
        raise ClusterError(f"{title} could not be written: {error}{remedy}") from error


async def _read(api: Connection, path: str) -> dict[str, Any] | None:
    """The ConfigMap; None if there is none. Raises ApiError and UnreachableError."""
    try:
        return _OBJECT.decode(await fetch(api, Call("GET", path, seconds=_SECONDS)))
    except ApiError as error:
        if error.status != 404:
            raise
        return None


def _made(name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "cks-admission", _MANAGER[0]: _MANAGER[1]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
