"""Brings Nodes, Pods, workloads and topologies of a cluster into a placer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar

import msgspec
import structlog

from policies.objects.workload import BUILT_IN
from policies.topology.placer.placer import Placer
from policies.topology.placer.state import Options
from policies.topology.podcount import ROOT_KINDS
from policies.topology.topology import Catalog, Topology
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import Discovery, ServedKind, kinds, versions
from webhook.cluster.api.objects import FollowedResource, Object, WholeObject, key_of, name_of, whole
from webhook.cluster.placer.objects import MENTION, NODES, PODS, WatchedNode, WatchedPod
from webhook.cluster.watches.cluster import STALE_SECONDS
from webhook.cluster.watches.reflector import Change, Followers, Reflector, cancelled, started

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


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
Sink = Entries[WholeObject, NamespacedName]
"""The sink for the objects of a kind, which have their apiVersion and kind."""

# How soon a new or removed CustomResourceDefinition is noticed. Most clusters lack most of the kinds, and nothing but
# what is promised depends on it.
LOOK_AGAIN_SECONDS = 30.0
_OBJECT = msgspec.json.Decoder(Object)


class _Watch(NamedTuple):
    """A kind that is followed."""

    served: ServedKind
    reflector: Reflector[WholeObject]
    task: asyncio.Task[NoReturn]


class _Group:
    """The workloads of one API group. sinks: by kind."""

    def __init__(self, api: Connection, name: str, sinks: Mapping[str, Sink], clock: Clock) -> None:
        self.name = name or "the core group"
        self._group = name
        self._api = api
        self._sinks = sinks
        self._clock = clock
        self._discovery = Discovery(f"workloads of {self.name}", clock)
        self._decided = False
        self._watches: dict[str, _Watch] = {}
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Follow until cancelled. Check again what is served while a kind is not, or while its watch fails."""
        try:
            while True:
                if len(self._watches) < len(self._sinks) or any(self._failing()):
                    await self._follow(await self._discovery.ask(self._served))
                    self._decided = True
                await self._clock.sleep(LOOK_AGAIN_SECONDS)
        finally:
            await cancelled(watch.task for watch in self._watches.values())

    def unsynced(self) -> list[str]:
        """What has not arrived yet, though nothing is known to be in its way."""
        if not self._decided:
            return [] if self._discovery.problem else [self._discovery.waiting]
        return [reason for reflector in self.reflectors() if not reflector.problem for reason in reflector.unsynced()]

    def problems(self) -> list[str]:
        """What is not followed, with reasons and remedies."""
        return [*self._discovery.problems(), *map(_problem, self._failing())]

    def reflectors(self) -> list[Reflector[WholeObject]]:
        """What is followed now."""
        return [watch.reflector for watch in self._watches.values()]

    def _failing(self) -> Sequence[Reflector[WholeObject]]:
        return [reflector for reflector in self.reflectors() if reflector.problem]

    async def _served(self) -> Mapping[str, ServedKind]:
        """The kinds that are served, each in the version that the API server prefers for it. Raises ClusterError."""
        served: dict[str, ServedKind] = {}
        for version in await versions(self._api, self._group):
            for kind, place in (await kinds(self._api, f"{self._group}/{version}".lstrip("/"))).items():
                served.setdefault(kind, place)
        return {kind: served[kind] for kind in self._sinks if kind in served}

    async def _follow(self, served: Mapping[str, ServedKind]) -> None:
        gone = [kind for kind, watch in self._watches.items() if served.get(kind) != watch.served]
        for kind in gone:
            await cancelled([self._watches.pop(kind).task])
            self._sinks[kind].begin()
            self._sinks[kind].complete()
            self._log.info("stopped watching workloads", kind=kind, group=self._group)
        for kind in served.keys() - self._watches.keys():
            self._watches[kind] = self._watch(kind, served[kind])

    def _watch(self, kind: str, served: ServedKind) -> _Watch:
        name = f"{served.resource}.{self._group}".rstrip(".")
        version = served.root.removeprefix("/apis/").removeprefix("/api/")
        resource = FollowedResource(name, _decoder(version, kind))
        reflector = Reflector(self._api, resource, served.path(""), self._sinks[kind], self._clock)
        return _Watch(served, reflector, asyncio.create_task(reflector.run(), name=name))


def _decoder(version: str, kind: str) -> Callable[[msgspec.Raw], WholeObject]:
    """Decodes an object with its type, which items of a list lack; without content if no placement is in it."""
    typed = {"apiVersion": version, "kind": kind}

    def decode(raw: msgspec.Raw) -> WholeObject:
        if MENTION not in bytes(raw):
            return WholeObject(_OBJECT.decode(raw).metadata, {})
        item = whole(raw)
        item.content = {**typed, **item.content}
        item.content["metadata"].pop("managedFields", None)
        return item

    return decode


def _problem(reflector: Reflector[WholeObject]) -> str:
    name = reflector.resource.name
    right = f"; a ClusterRole must allow the service's account to list and watch {name}"
    return f"{name}: {reflector.problem}{right if reflector.status == 403 else ''}"


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
        placer, noticed = self.placer, self.changed.set
        nodes: Entries[WatchedNode, str] = Entries(
            name_of, lambda node: placer.put_node(node.manifest), placer.remove_node, noticed
        )
        pods: Entries[WatchedPod, NamespacedName] = Entries(
            key_of, lambda pod: placer.put_pod(pod.manifest, pod.placed), lambda key: placer.remove_pod(*key), noticed
        )
        self._reflectors: tuple[Reflector[Any], ...] = (
            Reflector(api, NODES, "/api/v1/nodes", nodes, clock, noticed=noticed),
            Reflector(api, PODS, "/api/v1/pods", pods, clock, noticed=noticed),
        )
        configured = set(options.workloads) - {row.group_kind for row in BUILT_IN}
        kinds = {kind for kind in ROOT_KINDS if kind in options.workloads}
        sinks: dict[str, dict[str, Sink]] = {}
        for group, kind in sorted(kinds | configured):
            sinks.setdefault(group, {})[kind] = self._sink((group, kind))
        self._groups = [_Group(api, group, own, clock) for group, own in sinks.items()]
        self._discovering: list[asyncio.Task[NoReturn]] = []

    async def start(self) -> None:
        """Begin to follow; `unsynced` tells what has not arrived yet."""
        await super().start()
        self._discovering = [
            asyncio.create_task(group.run(), name=f"workloads of {group.name}") for group in self._groups
        ]

    async def stop(self) -> None:
        """Stop following."""
        await super().stop()
        await cancelled(self._discovering)

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
        return [*listed, *stale, *(reason for group in self._groups for reason in group.unsynced()), *self._facts()]

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return [*super().reflectors(), *(one for group in self._groups for one in group.reflectors())]

    def problems(self) -> list[str]:
        """What is not followed, with reasons and remedies."""
        own = [f"{one.resource.name}: {one.problem}" for one in self._reflectors if one.problem]
        return [*own, *(problem for group in self._groups for problem in group.problems())]

    def refresh(self) -> None:
        """Take the topologies as they are now."""
        known = self._options.facts.topologies()
        if known is not self._topologies:
            self._topologies = known
            self.placer.put_catalog(self._catalog.joined(known))

    def _sink(self, kind: GroupKind) -> Sink:
        def put(item: WholeObject) -> None:
            if item.content:
                self.placer.put_root(item.content)
            else:
                remove(key_of(item))

        def remove(key: NamespacedName) -> None:
            self.placer.remove_root(*kind, *key)

        return Entries(key_of, put, remove, self.changed.set)
