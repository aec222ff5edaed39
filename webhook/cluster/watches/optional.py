"""Follows kinds that the cluster may not serve: device claims, topologies of schedulers, node pools and workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import structlog

from policies import nodepool
from policies.engine.request import JsonObject
from policies.topology.objects import GROVE, KAI, KINDS, KUEUE, TopologyError, read, source_of
from policies.topology.topology import Topology
from webhook.cluster.api.call import Connection
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import Discovery, ServedResource, places
from webhook.cluster.api.objects import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    DEVICE_GROUP,
    DEVICE_VERSIONS,
    ClaimObject,
    ClaimTemplateObject,
    DeviceClassObject,
    FollowedResource,
    WholeObject,
    key_of,
    name_of,
    whole,
)
from webhook.cluster.watches.reflector import Cache, Following, Reflector, Sink, cancelled


class Wanted(NamedTuple):
    """A kind to follow. names: newest first. resource: returns how it is followed, by the name and place it has now."""

    names: Sequence[str]
    sink: Sink[Any]
    resource: Callable[[str, ServedResource], FollowedResource[Any]]


class FollowedGroup(Following):
    """Follows the kinds of an API group as far as the API server serves them.

    called: its objects in messages. name: the group in messages. seconds: how soon a new or removed
    CustomResourceDefinition is noticed. Nothing is asked while all watches work. order: the versions to follow, best
    first, of those that there are, the API server's preferred one first.
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
        self.name = name
        self._api = api
        self._group = group
        self._kinds = kinds
        self._called = called
        self._clock = clock
        self._seconds = seconds
        self._order = order
        self._discovery = Discovery(name, clock)
        self._decided = False
        self._synced = False  # never reset: a kind that is installed later must not make the service unready
        self._watches: dict[str, tuple[ServedResource, Reflector[Any]]] = {}
        self.parts: list[Reflector[Any]] = []
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Follow until cancelled. Check again what is served while a kind is not, or while a watch fails."""
        try:
            while True:
                if len(self._watches) < len(self._kinds) or any(one.problem for one in self.parts):
                    await self._follow(await self._discovery.ask(self._find))
                await self._clock.sleep(self._seconds)
        finally:
            parts, self.parts, self._watches, self._decided = self.parts, [], {}, False
            await cancelled(part.task for part in parts)

    def unsynced(self) -> list[str]:
        """Why not everything is known yet; empty for ever after it was for the first time."""
        if self._synced:
            return []
        if not self._decided:
            return [self._discovery.waiting]
        reasons = super().unsynced()
        self._synced = not reasons
        return reasons

    def problems(self) -> list[str]:
        """Why not everything is up to date, with remedies."""
        return [*self._discovery.problems(), *super().problems()]

    async def _find(self) -> Mapping[str, ServedResource]:
        names = [name for kind in self._kinds for name in kind.names]
        served = await places(self._api, self._group, names, self._order)
        chosen = (next((name for name in kind.names if name in served), "") for kind in self._kinds)
        return {name: served[name] for name in chosen if name}

    async def _follow(self, served: Mapping[str, ServedResource]) -> None:
        changed = [name for name, (place, _) in self._watches.items() if served.get(name) != place]
        ended = [self._watches.pop(name)[1] for name in changed]
        self.parts = [part for part in self.parts if part not in ended]
        await cancelled(part.task for part in ended)
        new = [name for name in served if name not in self._watches]
        for kind in self._kinds:
            names = set(kind.names)
            if not served.keys() & names and (not self._decided or set(changed) & names):
                kind.sink.begin()  # nothing is left of a kind that is not served
                kind.sink.complete()
            for name in names & set(new):
                place = served[name]
                resource, path = kind.resource(name, place), place.path("")
                reflector = Reflector(self._api, resource, path, kind.sink, self._clock, right=_right(place))
                self._watches[name] = place, reflector
                self.parts.append(reflector)
                await reflector.start()
        if not self._decided or changed or new:
            if served:
                self._log.info(f"{self._called} are followed", group=self._group, kinds=[*served])
            else:
                self._log.info(f"no {self._called}", group=self._group)
        self._decided, self._synced = True, self._synced or not served


def _right(served: ServedResource) -> str:
    target = served.resource
    resource = f"{target.resource} of {target.group}" if target.group else target.resource
    return f"a ClusterRole must allow the service's account to list and watch {resource}"


# The group may appear, disappear or change its version when the cluster is upgraded.
DEVICES_SECONDS = 600.0


class Devices(FollowedGroup):
    """The device classes of claims; none if the cluster does not serve the group."""

    def __init__(self, api: Connection, clock: Clock) -> None:
        self.claims = Cache[ClaimObject, tuple[str, str], frozenset[str]](key_of, lambda item: item.spec.classes())
        self.templates = Cache[ClaimTemplateObject, tuple[str, str], frozenset[str]](
            key_of, lambda item: item.spec.spec.classes()
        )
        self.extended = Cache[DeviceClassObject, str, str](name_of, lambda item: item.spec.extended_resource_name)
        kinds = [
            Wanted(["ResourceClaim"], self.claims, lambda *_: CLAIMS),
            Wanted(["ResourceClaimTemplate"], self.templates, lambda *_: CLAIM_TEMPLATES),
            Wanted(["DeviceClass"], self.extended, lambda *_: DEVICE_CLASSES),
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
