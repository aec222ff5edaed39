"""Brings Nodes, Pods, workloads and topologies of a cluster into a placer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import msgspec
import structlog

from policies.objects.workload import BUILT_IN
from policies.topology.membership import ROOT_KINDS
from policies.topology.placer.placer import Placer
from policies.topology.placer.state import Options
from policies.topology.topology import Catalog, Topology
from webhook.cluster.api.call import Connection
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.api.objects import FollowedResource, Object, WholeObject, key_of, name_of, whole
from webhook.cluster.placer.objects import MENTION, NODES, PODS, WatchedNode, WatchedPod
from webhook.cluster.watches.cluster import STALE_SECONDS
from webhook.cluster.watches.optional import FollowedGroup, Wanted
from webhook.cluster.watches.reflector import Change, Following, Reflector

T = TypeVar("T", bound=Object)
K = TypeVar("K", bound=Hashable)


class Entries(Generic[T, K]):
    """A sink that puts and removes single objects, so that no list is held as a whole.

    key: identifies an object. put: takes an object that is new or has changed; may raise ValueError. remove: takes the
    key of an object that is gone. noticed: called after each of them.
    """

    def __init__(
        self,
        key: Callable[[T], K],
        put: Callable[[T], object],
        remove: Callable[[K], object],
        noticed: Callable[[], object] = lambda: None,
    ) -> None:
        self._noticed = noticed
        self._key = key
        self._put = put
        self._remove = remove
        self._keys: set[K] = set()
        self._listed: set[K] = set()

    def begin(self) -> None:
        """Begin a list."""
        self._listed = set()

    def page(self, objects: Sequence[T]) -> None:
        """Put a part of the list."""
        for item in objects:
            self._listed.add(self._take(item))

    def complete(self) -> None:
        """Remove what was not in the list."""
        gone, self._keys = self._keys - self._listed, self._listed
        self._listed = set()
        for key in gone:
            self._gone(key)

    def changed(self, change: Change, item: T) -> None:
        """Put or remove an object."""
        if change == "DELETED":
            self._keys.discard(self._key(item))
            self._gone(self._key(item))
        else:
            self._take(item)

    def _take(self, item: T) -> K:
        """Put an object, and return its key. A malformed one is as if it were not there, and does not affect others."""
        key = self._key(item)
        self._keys.add(key)
        try:
            self._put(item)
            self._noticed()
        except ValueError as error:
            self._gone(key)
            structlog.get_logger().error("object skipped", key=key, reason=str(error))
        return key

    def _gone(self, key: K) -> None:
        self._remove(key)
        self._noticed()


GroupKind = tuple[str, str]
NamespacedName = tuple[str, str]

# How soon a new or removed CustomResourceDefinition is noticed. Most clusters lack most of the kinds, and nothing but
# what is promised depends on it.
LOOK_AGAIN_SECONDS = 30.0
_OBJECT = msgspec.json.Decoder(Object)


class _Workloads(FollowedGroup):
    """The workloads of one API group."""

    def unsynced(self) -> list[str]:
        """What has not arrived yet, though nothing is known to be in its way."""
        if not self._decided:
            return [] if self._discovery.problem else [self._discovery.waiting]
        return [reason for reflector in self.parts if not reflector.problem for reason in reflector.unsynced()]


def _workload(kind: str, served: ServedResource) -> FollowedResource[WholeObject]:
    """Objects with their type, which items of a list lack; without content if no placement is in one."""
    typed = {"apiVersion": served.api_version, "kind": kind}

    def decode(raw: msgspec.Raw) -> WholeObject:
        if MENTION not in bytes(raw):
            return WholeObject(_OBJECT.decode(raw).metadata, {})
        item = whole(raw)
        item.content = {**typed, **item.content}
        item.content["metadata"].pop("managedFields", None)
        return item

    return FollowedResource(f"{served.resource.resource}.{served.resource.group}".rstrip("."), decode)


class Follower(Following):
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
        placer, noticed = self.placer, self.changed.set
        nodes: Entries[WatchedNode, str] = Entries(
            name_of, lambda node: placer.put_node(node.manifest), placer.remove_node, noticed
        )
        pods: Entries[WatchedPod, NamespacedName] = Entries(
            key_of, lambda pod: placer.put_pod(pod.manifest, pod.placed), lambda key: placer.remove_pod(*key), noticed
        )
        self._reflectors: tuple[Reflector[WatchedNode], Reflector[WatchedPod]] = (
            Reflector(api, NODES, "/api/v1/nodes", nodes, clock, noticed=noticed),
            Reflector(api, PODS, "/api/v1/pods", pods, clock, noticed=noticed),
        )
        configured = set(options.workloads) - {row.group_kind for row in BUILT_IN}
        kinds = {kind for kind in ROOT_KINDS if kind in options.workloads}
        wanted: dict[str, list[Wanted]] = {}
        for group, kind in sorted(kinds | configured):
            wanted.setdefault(group, []).append(Wanted([kind], self._sink((group, kind)), _workload))
        workloads = [
            _Workloads(
                api,
                group,
                own,
                "workloads",
                clock,
                name=f"workloads of {group or 'the core group'}",
                seconds=LOOK_AGAIN_SECONDS,
            )
            for group, own in wanted.items()
        ]
        self.parts = [*self._reflectors, *workloads]

    async def list_anew(self) -> None:
        """List the Pods from the API server's storage: until they have arrived, `unsynced` says so.

        What is known of them may be from before the last writes of another process.
        """
        _, pods = self._reflectors
        await pods.stop()
        pods.synced.clear()
        await pods.start()

    def unsynced(self) -> list[str]:
        """What has not arrived yet, or is too old: before all of it is there nothing must be opened."""
        now = self._clock.monotonic()
        stale = [
            f"{one.resource.name}: not known to be up to date for {now - one.fresh:.0f} s: "
            f"{one.problem or 'its watch is silent'}"
            for one in self._reflectors
            if now - one.fresh >= STALE_SECONDS
        ]
        return [*super().unsynced(), *stale, *self._facts()]

    def refresh(self) -> None:
        """Take the topologies as they are now."""
        known = self._options.facts.topologies()
        if known is not self._topologies:
            self._topologies = known
            self.placer.put_catalog(self._catalog.joined(known))

    def _sink(self, kind: GroupKind) -> Entries[WholeObject, NamespacedName]:
        def put(item: WholeObject) -> None:
            if item.content:
                self.placer.put_root(item.content)
            else:
                remove(key_of(item))

        def remove(key: NamespacedName) -> None:
            self.placer.remove_root(*kind, *key)

        return Entries(key_of, put, remove, self.changed.set)
