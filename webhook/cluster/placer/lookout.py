"""Whether there is a placer: serving replicas say so, since gated Pods wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import quote

import msgspec

from policies.topology.placer.state import seconds
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

LOOK_SECONDS: Final = 30.0
STALE_SECONDS: Final = 45.0
"""A placer renews its Lease every two seconds; one that is gone is replaced within 17."""

_REMEDY: Final = (
    "gangs with a placement wait; look at the Pods of the placer, or open all gates by `cks-admission topology release`"
)
_DECODER = msgspec.json.Decoder(dict[str, Any])


class PlacerLookout:
    """Reads the placer's Lease again and again."""

    def __init__(self, api: ApiClient, namespace: str, lease: str, clock: Clock | None = None) -> None:
        self._api = api
        self._name = f"{namespace}/{lease}"
        self._path = (
            f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases/{quote(lease, safe='')}"
        )
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
        try:
            content = await fetch(self._api, Call("GET", self._path, seconds=LOOK_SECONDS))
        except ClusterError as error:
            if error.status == 404:
                return f"there is no Lease {self._name}: {_REMEDY}"
            raise
        spec = _DECODER.decode(content).get("spec") or {}
        if not spec.get("holderIdentity"):
            return f"nobody holds the Lease {self._name}: {_REMEDY}"
        age = self._clock.now().timestamp() - seconds(str(spec.get("renewTime")))
        if age > STALE_SECONDS:
            return f"{spec['holderIdentity']} has not renewed the Lease {self._name} for {age:.0f} s: {_REMEDY}"
        return ""
