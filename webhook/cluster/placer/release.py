"""Opens all gates of ours without placing anything, for a cluster in which no placer is to run any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec

from policies.topology.annotation import GATE
from webhook.cluster.api.call import Call, fetch, pages
from webhook.cluster.api.errors import ApiError

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

_GATE = GATE.encode()
_CONTENT = msgspec.json.Decoder(dict[str, Any])


class GatedPod(NamedTuple):
    """A Pod behind our gate. position: of the gate among its gates. created: as the API server writes it."""

    namespace: str
    name: str
    uid: str
    position: int
    created: str = ""


async def gated(api: ApiClient, namespace: str = "") -> list[GatedPod]:
    """The Pods behind our gate, of one Namespace or of all. Raises ClusterError."""
    where = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace else "/api/v1/pods"
    found = []
    async for page in pages(api, where, (("fieldSelector", "spec.nodeName="),), 500):
        for raw in page.items or ():
            if _GATE not in bytes(raw):
                continue
            pod = _CONTENT.decode(raw)
            names = [gate.get("name") for gate in pod["spec"].get("schedulingGates") or ()]
            metadata = pod["metadata"]
            if GATE in names:
                found.append(
                    GatedPod(
                        metadata["namespace"],
                        metadata["name"],
                        metadata["uid"],
                        names.index(GATE),
                        metadata.get("creationTimestamp") or "",
                    )
                )
    return found


async def release(api: ApiClient, pod: GatedPod) -> bool:
    """Whether the gate of a Pod was opened; False if the Pod is gone or has changed. Raises ClusterError."""
    at = f"/spec/schedulingGates/{pod.position}"
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{at}/name", "value": GATE},
        {"op": "remove", "path": at},
    ]
    path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}"
    try:
        await fetch(api, Call("PATCH", path, content_type="application/json-patch+json", body=patch))
    except ApiError as error:
        if error.status in (404, 409, 422):
            return False
        raise
    return True
