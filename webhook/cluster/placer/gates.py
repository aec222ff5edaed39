"""What others see of the placer: whether one leads, and the Pods behind its gate, which can be opened without it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple, NoReturn

from policies.topology.nodes.manifest import seconds
from policies.topology.placement import GATE
from webhook.cluster.api.call import ApiClient, Call, decoded, fetch, one, pages, resource_path
from webhook.cluster.api.errors import ApiError, Clock, ClusterError

LOOK_SECONDS: Final = 30.0
STALE_SECONDS: Final = 45.0
"""A placer renews its Lease every two seconds; one that is gone is replaced within 17."""

_REMEDY: Final = (
    "gangs with a placement wait; look at the Pods of the placer, or open all gates by `cks-admission topology release`"
)


class PlacerLookout:
    """Reads the placer's Lease again and again."""

    def __init__(self, api: ApiClient, namespace: str, lease: str, clock: Clock | None = None) -> None:
        self._api = api
        self._name = f"{namespace}/{lease}"
        self._path = resource_path("coordination.k8s.io/v1", "leases", namespace, lease)
        self._clock = clock or Clock()
        self._problem = ""

    def problems(self) -> list[str]:
        """Why gangs wait for a placer, with the remedy; empty if one leads."""
        return [self._problem] if self._problem else []

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            self._problem = await self.look()
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> str:
        """Why there is no placer; empty if there is one, or if that cannot be found out."""
        try:
            return await self.read()
        except ClusterError:
            return ""

    async def read(self) -> str:
        """Why there is no placer; empty if there is one. Raises ClusterError if that cannot be found out."""
        lease = await one(self._api, self._path, LOOK_SECONDS)
        if lease is None:
            return f"there is no Lease {self._name}: {_REMEDY}"
        spec = lease.get("spec") or {}
        if not spec.get("holderIdentity"):
            return f"nobody holds the Lease {self._name}: {_REMEDY}"
        age = self._clock.now().timestamp() - seconds(str(spec.get("renewTime")))
        if age > STALE_SECONDS:
            return f"{spec['holderIdentity']} has not renewed the Lease {self._name} for {age:.0f} s: {_REMEDY}"
        return ""


_GATE = GATE.encode()


class GatedPod(NamedTuple):
    """A Pod behind our gate. position: of the gate among its gates. created: None if that cannot be read."""

    namespace: str
    name: str
    uid: str
    position: int
    created: datetime | None = None


async def gated(api: ApiClient, namespace: str = "") -> list[GatedPod]:
    """The Pods behind our gate, of one Namespace or of all. Raises ClusterError."""
    found = []
    async for page in pages(api, resource_path("v1", "pods", namespace), (("fieldSelector", "spec.nodeName="),), 500):
        for raw in page.items or ():
            if _GATE not in bytes(raw):
                continue
            pod = decoded(raw, "GET pods")
            names = [gate.get("name") for gate in pod["spec"].get("schedulingGates") or ()]
            if GATE in names:
                metadata, created = pod["metadata"], None
                with suppress(TypeError, ValueError):
                    created = datetime.fromisoformat(metadata.get("creationTimestamp"))
                identity = metadata["namespace"], metadata["name"], metadata["uid"]
                found.append(GatedPod(*identity, names.index(GATE), created))
    return found


async def release(api: ApiClient, pod: GatedPod) -> bool:
    """Whether the gate of a Pod was opened; False if the Pod is gone or has changed. Raises ClusterError."""
    at = f"/spec/schedulingGates/{pod.position}"
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{at}/name", "value": GATE},
        {"op": "remove", "path": at},
    ]
    path = resource_path("v1", "pods", pod.namespace, pod.name)
    try:
        await fetch(api, Call("PATCH", path, content_type="application/json-patch+json", body=patch))
    except ApiError as error:
        if error.status in (404, 409, 422):
            return False
        raise
    return True
