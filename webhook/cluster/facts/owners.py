"""Finds the workload at the top: whose controllers, one after the other, made an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from policies.engine.request import Owner, controller, mapping
from policies.objects.workload import Workload
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.wire import UNREADABLE
from webhook.cluster.facts.references import ACCEPT

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

Workloads = Mapping[tuple[str, str], Workload]

# A Pod of a TrainJob has four: Job, JobSet, TrainJob.
_HIGHEST = 5
_KNOWN = 1_000
_SECONDS = 15.0
_NOT_SERVED = 404
_LIST = msgspec.json.Decoder(dict[str, object])


class Owners:
    """Reads the metadata of workloads by their names. workloads: the kinds that are read; others count as the top."""

    def __init__(self, api: ApiClient, workloads: Workloads) -> None:
        self._api = api
        self._workloads = workloads
        self._known: dict[tuple[str, Owner], Owner | None] = {}

    async def top(self, namespace: str, owner: Owner) -> Owner:
        """The owner that nobody owns: of the owner, of its owner, and so on. Raises ClusterError."""
        for _ in range(_HIGHEST):
            above = await self._above(namespace, owner)
            if above is None:
                break
            owner = above
        return owner

    async def _above(self, namespace: str, owner: Owner) -> Owner | None:
        row = self._workloads.get(owner.group_kind)
        if row is None:
            return None
        key = namespace, owner  # all of it, since whoever makes an object can write a false reference
        if key not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = await self._read(namespace, owner, row.resource)
        return self._known[key]

    async def _read(self, namespace: str, owner: Owner, resource: str) -> Owner | None:
        """The controller of an owner; None if it has none, is gone, or is of a kind that is not served.

        A list by name needs no right but to list, which replicas have anyway. Raises ClusterError.
        """
        root = f"/apis/{quote(owner.api_version)}" if "/" in owner.api_version else f"/api/{quote(owner.api_version)}"
        path = f"{root}/namespaces/{quote(namespace, safe='')}/{resource}"
        query = (("fieldSelector", f"metadata.name={owner.name}"),)
        try:
            body = await fetch(self._api, Call("GET", path, query, ACCEPT, seconds=_SECONDS))
        except ApiError as error:
            if error.status == _NOT_SERVED:
                return None
            raise
        try:
            items = _LIST.decode(body).get("items")
        except UNREADABLE as error:
            raise ClusterError(f"the answer to GET {path} is not a list: {error}") from error
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and mapping(item, "metadata").get("uid") == owner.uid:
                return controller(item)
        return None
