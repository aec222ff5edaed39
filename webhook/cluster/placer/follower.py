"""Brings Nodes, Pods, workloads and topologies of a cluster into a placer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from policies.objects.workload import BUILT_IN
from policies.topology.placer.placer import ROOT_KINDS, Options, Placer
from policies.topology.topology import Catalog, Topology
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.objects import WholeObject, key_of, name_of
from webhook.cluster.placer.entries import Entries
from webhook.cluster.placer.objects import NODES, PODS, WatchedNode, WatchedPod
from webhook.cluster.placer.roots import GroupKind, NamespacedName, Roots, Sink
from webhook.cluster.watches.cluster import STALE_SECONDS
from webhook.cluster.watches.reflector import Followers, Reflector, cancelled, started

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


class Follower(Followers):
    """A placer that knows what is in a cluster. catalog: the topologies that do not come from the cluster.

    facts: what has not arrived yet of that which options.facts tell. changed: set when anything has changed that a gang
    may depend on.
    """

    def __init__(
        self,
        api: Connection,
        options: Options,
        catalog: Catalog,
        facts: Callable[[], Sequence[str]] = lambda: (),
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock = clock or Clock()
        self.placer = Placer(options)
        self.changed = asyncio.Event()
        self._options = options
        self._catalog = catalog
        self._facts = facts
        self._topologies: tuple[Topology, ...] | None = None
        nodes: Entries[WatchedNode, str] = Entries(name_of, self._put_node, self._remove_node)
        pods: Entries[WatchedPod, NamespacedName] = Entries(key_of, self._put_pod, self._remove_pod)
        self._reflectors: tuple[Reflector[Any], ...] = (
            Reflector(api, NODES, "/api/v1/nodes", nodes, clock, noticed=self.changed.set),
            Reflector(api, PODS, "/api/v1/pods", pods, clock, noticed=self.changed.set),
        )
        kinds = {kind for kind in ROOT_KINDS if kind in options.workloads}
        self._roots = Roots(api, sorted(kinds | _configured(options)), self._sink, clock)

    async def start(self) -> None:
        """Begin to follow; `unsynced` tells what has not arrived yet."""
        await super().start()
        await self._roots.start()

    async def stop(self) -> None:
        """Stop following."""
        await super().stop()
        await self._roots.stop()

    async def list_anew(self) -> None:
        """List the Pods from the API server's storage: until they have arrived, `unsynced` says so.

        What is known of them may be from before the last writes of another process.
        """
        _, pods = self._reflectors
        to_nodes, to_pods = self._tasks
        await cancelled([to_pods])
        pods.synced.clear()
        self._tasks = [to_nodes, *started([pods])]

    def unsynced(self) -> list[str]:
        """What has not arrived yet, or is too old: before all of it is there nothing must be opened."""
        now = self._clock.monotonic()
        stale = [
            f"{one.resource.name}: not known to be up to date for {now - one.fresh:.0f} s: "
            f"{one.problem or 'its watch is silent'}"
            for one in self._reflectors
            if now - one.fresh >= STALE_SECONDS
        ]
        listed = [reason for one in self._reflectors for reason in one.unsynced()]
        return [*listed, *stale, *self._roots.unsynced(), *self._facts()]

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return [*super().reflectors(), *self._roots.reflectors()]

    def problems(self) -> list[str]:
        """What is not followed, with reasons and remedies."""
        own = [f"{one.resource.name}: {one.problem}" for one in self._reflectors if one.problem]
        return [*own, *self._roots.problems()]

    def refresh(self) -> None:
        """Take the topologies as they are now."""
        known = self._options.facts.topologies()
        if known is not self._topologies:
            self._topologies = known
            self.placer.put_catalog(self._catalog.joined(known))

    def _put_node(self, node: WatchedNode) -> None:
        self.placer.put_node(node.manifest)
        self.changed.set()

    def _remove_node(self, name: str) -> None:
        self.placer.remove_node(name)
        self.changed.set()

    def _put_pod(self, pod: WatchedPod) -> None:
        self.placer.put_pod(pod.manifest, pod.placed)
        self.changed.set()

    def _remove_pod(self, key: NamespacedName) -> None:
        self.placer.remove_pod(*key)
        self.changed.set()

    def _sink(self, kind: GroupKind) -> Sink:
        def put(item: WholeObject) -> None:
            if item.content:
                self.placer.put_root(item.content)
                self.changed.set()
            else:
                self.placer.remove_root(*kind, *key_of(item))

        def remove(key: NamespacedName) -> None:
            self.placer.remove_root(*kind, *key)
            self.changed.set()

        return Entries(key_of, put, remove)


def _configured(options: Options) -> set[GroupKind]:
    """The kinds that the configuration adds to the table of workloads."""
    return set(options.workloads) - {row.group_kind for row in BUILT_IN}
