"""Follows the Nodes of a cluster with their accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from policies.topology.nodes.machine import Machine, machine
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.objects import labels_of, name_of
from webhook.cluster.placer.objects import NODES, WatchedNode
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.tasks import Followers

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


class Machines(Followers):
    """The Nodes, followed from `start` to `stop`. accelerators: globs of resource names."""

    def __init__(self, api: Connection, accelerators: Sequence[str], clock: Clock) -> None:
        self.accelerators = accelerators
        self._cache = Cache[WatchedNode, str, Machine](name_of, self._machine)
        self._reflector = Reflector(api, NODES, "/api/v1/nodes", self._cache, clock)
        self._reflectors = (self._reflector,)

    def cancel(self) -> None:
        """Stop following, without waiting for its end."""
        for task in self._tasks:
            task.cancel()

    async def listed(self) -> None:
        """Wait until the first list has arrived."""
        await self._reflector.synced.wait()

    @property
    def problem(self) -> str:
        """Why they are not known yet; empty if they are."""
        return "; ".join(self._reflector.unsynced())

    @property
    def known(self) -> Sequence[Machine]:
        """The Nodes; the same sequence until one changes."""
        return self._cache.values

    def _machine(self, item: WatchedNode) -> Machine | None:
        """The part of a Node that counts; None for one with a malformed amount."""
        item.manifest.metadata.labels = labels_of(item)
        try:
            return machine(item.manifest, self.accelerators)
        except ValueError:
            return None
