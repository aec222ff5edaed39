"""Follows kinds that the cluster may not serve: device claims, topologies of schedulers, node pools and workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from policies import nodepool
from policies.engine.request import JsonObject, mapping, mappings
from policies.topology.objects import GROVE, KAI, KINDS, KUEUE, TopologyError, read, source_of
from policies.topology.topology import Topology
from webhook.cluster.api.call import Connection
from webhook.cluster.api.discovery import ServedResource, places
from webhook.cluster.api.errors import Clock
from webhook.cluster.api.objects import FollowedResource, WholeObject, key_of, name_of, whole
from webhook.cluster.watches.reflector import Cache, Discovered, Following, Reflector, Sink, cancelled


class Wanted(NamedTuple):
    """A kind to follow. names: newest first. resource: returns how it is followed, by the name and place it has now."""

    names: Sequence[str]
    sink: Sink[Any]
    resource: Callable[[str, ServedResource], FollowedResource[Any]]


class FollowedGroup(Discovered):
    """Follows the kinds of an API group. called: its objects in messages. name: the group in messages.

    order: the versions to follow, best first, of those that there are, the API server's preferred one first.
    """

    def __init__(
        self,
        api: Connection,
        group: str,
        kinds: Sequence[Wanted],
        called: str,
        clock: Clock,
        *,
        name: str,
        seconds: float,
        order: Callable[[Sequence[str]], Iterable[str]] = tuple,
    ) -> None:
        super().__init__(name, clock, seconds)
        self.name = name
        self._api = api
        self._group = group
        self._kinds = kinds
        self._objects_called = called
        self._order = order
        self._synced = False  # never reset: a kind that is installed later must not make the service unready
        self._watches: dict[str, tuple[ServedResource, Reflector[Any]]] = {}

    async def run(self) -> NoReturn:
        """Follow until cancelled. Check again what is served while a kind is not, or while a watch fails."""
        try:
            await super().run()
        finally:
            parts, self.parts, self._watches = self.parts, (), {}
            self.decided.clear()
            await cancelled(part.task for part in parts)

    def unsynced(self) -> list[str]:
        """Why not everything is known yet; empty for ever after it was for the first time."""
        reasons = [] if self._synced else super().unsynced()
        self._synced = not reasons
        return reasons

    def _is_partial(self) -> bool:
        return len(self._watches) < len(self._kinds)

    async def _find(self) -> Mapping[str, ServedResource]:
        names = [name for kind in self._kinds for name in kind.names]
        served = await places(self._api, self._group, names, self._order)
        chosen = (next((name for name in kind.names if name in served), "") for kind in self._kinds)
        return {name: served[name] for name in chosen if name}

    async def _look(self) -> None:
        served = await self._answer(self._find)
        changed = [name for name, (place, _) in self._watches.items() if served.get(name) != place]
        ended = [self._watches.pop(name)[1] for name in changed]
        self.parts = [part for part in self.parts if part not in ended]
        await cancelled(part.task for part in ended)
        new = [name for name in served if name not in self._watches]
        for kind in self._kinds:
            names = set(kind.names)
            if not served.keys() & names and (not self.decided.is_set() or set(changed) & names):
                kind.sink.begin()  # nothing is left of a kind that is not served
                kind.sink.complete()
            for name in names & set(new):
                place = served[name]
                resource, target = kind.resource(name, place), place.resource
                about = f"{target.resource} of {target.group}" if target.group else target.resource
                right = f"a ClusterRole must allow the service's account to list and watch {about}"
                reflector = Reflector(self._api, resource, place.path(""), kind.sink, self._clock, right=right)
                self._watches[name] = place, reflector
                self.parts = [*self.parts, reflector]
                await reflector.start()
        if not self.decided.is_set() or changed or new:
            if served:
                self._log.info(f"{self._objects_called} are followed", group=self._group, kinds=[*served])
            else:
                self._log.info(f"no {self._objects_called}", group=self._group)
        self._synced = self._synced or not served
        self.decided.set()


DEVICE_GROUP = "resource.k8s.io"
# The versions with the structure that is read here, newest first. Older ones were never on by default.
DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1")
# The group may appear, disappear or change its version when the cluster is upgraded.
DEVICES_SECONDS = 600.0


class Devices(FollowedGroup):
    """The device classes of claims, of templates and the names of extended resources by class, as the group has them.

    Of v1beta1 a request for devices has its class itself if there is one alternative, later versions have `exactly`.
    """

    def __init__(self, api: Connection, clock: Clock) -> None:
        def classes(spec: JsonObject) -> frozenset[str] | None:
            """The device classes that the spec of a claim requests; None if there are none."""
            requests = mappings(mapping(spec, "devices"), "requests")
            places = [
                place
                for request in requests
                for place in (request, mapping(request, "exactly"), *mappings(request, "firstAvailable"))
            ]
            return frozenset(str(place["deviceClassName"]) for place in places if place.get("deviceClassName")) or None

        def spec(item: WholeObject) -> JsonObject:
            return mapping(item.content, "spec")

        self.claims = Cache[WholeObject, tuple[str, str], frozenset[str]](key_of, lambda item: classes(spec(item)))
        self.templates = Cache[WholeObject, tuple[str, str], frozenset[str]](
            key_of, lambda item: classes(mapping(spec(item), "spec"))
        )
        self.extended = Cache[WholeObject, str, str](name_of, lambda item: spec(item).get("extendedResourceName"))
        kinds = [
            Wanted(["ResourceClaim"], self.claims, lambda *_: FollowedResource("resourceclaims", whole)),
            Wanted(
                ["ResourceClaimTemplate"], self.templates, lambda *_: FollowedResource("resourceclaimtemplates", whole)
            ),
            Wanted(["DeviceClass"], self.extended, lambda *_: FollowedResource("deviceclasses", whole, cached=True)),
        ]

        def known(served: Sequence[str]) -> Iterable[str]:
            return [one for one in (*served[:1], *DEVICE_VERSIONS) if one in DEVICE_VERSIONS and one in served]

        super().__init__(
            api, DEVICE_GROUP, kinds, "device claims", clock, name=DEVICE_GROUP, seconds=DEVICES_SECONDS, order=known
        )


VERSIONS: Mapping[str, Sequence[str]] = {
    KAI: ("v1alpha1",),
    KUEUE: ("v1beta2", "v1beta1", "v1alpha1"),
    GROVE: ("v1alpha1",),
}
"""The groups with topologies, in order of precedence, each with the supported versions, newest first."""
T = TypeVar("T")
LOOK_AGAIN_SECONDS = 5.0


class FollowedObjects(FollowedGroup, Generic[T]):
    """The objects of a kind in one API group. versions: those that are known, newest first.

    read: returns what is kept of an object with its kind, and raises TopologyError for an invalid one. notice: called
    when something may have changed.
    """

    def __init__(
        self,
        api: Connection,
        group: str,
        versions: Sequence[str],
        kinds: Sequence[str],
        called: str,
        read: Callable[[JsonObject], T],
        clock: Clock,
        notice: Callable[[], None] = lambda: None,
    ) -> None:
        head = {"apiVersion": group, "kind": kinds[0]}

        def resource(kind: str, served: ServedResource) -> FollowedResource[WholeObject]:
            head["kind"] = kind
            return FollowedResource(f"{served.resource.resource}.{group}", whole, cached=True)

        def value(item: WholeObject) -> T | str:
            """What is kept of the object, or why it is invalid. An invalid object does not affect the others."""
            document = {**head, **item.content}
            try:
                return read(document)
            except TopologyError as error:
                source = source_of(document)
                self._log.warning("could not read a topology", topology=source, reason=str(error))
                return f"{source}: {error}"

        self._objects = Cache[WholeObject, str, T | str](name_of, value, notice)
        super().__init__(
            api,
            group,
            [Wanted(kinds, self._objects, resource)],
            called,
            clock,
            name=f"{kinds[0]} of {group}",
            seconds=LOOK_AGAIN_SECONDS,
            order=lambda served: [version for version in versions if version in served],
        )

    def values(self) -> list[T]:
        """What is kept of the objects that can be used."""
        return [item for item in self._objects.values if not isinstance(item, str)]

    def problems(self) -> list[str]:
        """Why not everything is up to date, and which objects cannot be used."""
        return [*super().problems(), *sorted(problem for problem in self._objects.values if isinstance(problem, str))]


class Topologies(Following):
    """The topologies of several API groups. groups: the known versions by name.

    known: the topologies, sorted by name and then by the order of groups. The tuple is the same until one changes.
    """

    def __init__(self, api: Connection, groups: Mapping[str, Sequence[str]], clock: Clock) -> None:
        self.known: tuple[Topology, ...] = ()

        def gather() -> None:
            gathered = [topology for group in parts for topology in group.values()]
            gathered.sort(key=lambda topology: topology.name)
            # Rules cache results by this tuple, so a list without changes must not replace it.
            if (now := tuple(gathered)) != self.known:
                self.known = now

        def topology(document: JsonObject) -> Topology:
            return read(document, source_of(document), in_cluster=True)

        called = "topologies of a scheduler"
        self.parts = parts = [
            FollowedObjects(api, group, own, KINDS[group], called, topology, clock, gather)
            for group, own in groups.items()
        ]


class NodePools(Following):
    """The labels of Nodes that the pools of the cluster would add."""

    def __init__(self, api: Connection, clock: Clock, *, watch: bool) -> None:
        self.parts: Sequence[FollowedObjects[tuple[Mapping[str, str], ...]]] = [
            FollowedObjects(api, group, own, (nodepool.KIND,), "node pools", nodepool.labels, clock)
            for group, own in (nodepool.VERSIONS if watch else {}).items()
        ]

    @property
    def known(self) -> list[Mapping[str, str]]:
        """The labels, of all pools."""
        return [labels for group in self.parts for of_pool in group.values() for labels in of_pool]

    def unsynced(self) -> list[str]:
        """Nothing: rules do without them."""
        return []
