"""Follows kinds that the cluster may not serve: device claims, topologies of schedulers and node pools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar

import structlog

from policies.admissionpolicy.model import ParamKind
from policies.engine.request import JsonObject
from policies.objects.workload import plural
from policies.selectors import pool
from policies.topology.objects import GROVE, KAI, KINDS, KUEUE, TopologyError, read, source_of
from policies.topology.topology import Topology
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import Discovery, ServedKind, find, versions
from webhook.cluster.api.objects import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    ClaimObject,
    ClaimTemplateObject,
    DeviceClassObject,
    FollowedResource,
    WholeObject,
    key_of,
    name_of,
    whole,
)
from webhook.cluster.watches.reflector import Cache, Reflector, cancelled, started

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


GROUP = "resource.k8s.io"
# The versions with the structure that is read here, newest first. Older ones were never on by default.
DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1")
# The group may appear, disappear or change its version when the cluster is upgraded.
DEVICES_SECONDS = 600.0


class Devices:
    """The device classes of claims; none if the cluster does not serve the group."""

    def __init__(self, api: Connection, clock: Clock) -> None:
        self.claims = Cache[ClaimObject, tuple[str, str], frozenset[str]](key_of, lambda item: item.spec.classes())
        self.templates = Cache[ClaimTemplateObject, tuple[str, str], frozenset[str]](
            key_of, lambda item: item.spec.spec.classes()
        )
        self.extended = Cache[DeviceClassObject, str, str](name_of, lambda item: item.spec.extended_resource_name)
        self._api = api
        self._clock = clock
        self._reflectors: tuple[Reflector[Any], ...] = (
            Reflector(api, CLAIMS, "", self.claims, clock),
            Reflector(api, CLAIM_TEMPLATES, "", self.templates, clock),
            Reflector(api, DEVICE_CLASSES, "", self.extended, clock),
        )
        self._version: str | None = None
        self._decided = False
        self._discovery = Discovery(GROUP, clock)
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Follow until cancelled, and check from time to time which version to use."""
        followers: list[asyncio.Task[NoReturn]] = []
        try:
            while True:
                version = await self._discovery.ask(self._choose)
                if version != self._version or not self._decided:
                    await cancelled(followers)
                    followers = self._follow(version)
                await self._clock.sleep(DEVICES_SECONDS)
        finally:
            self._version, self._decided = None, False
            await cancelled(followers)

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return self._reflectors if self._version is not None else ()

    def unsynced(self) -> list[str]:
        """Why not everything is known yet."""
        if not self._decided:
            return [self._discovery.waiting]
        if self._version is None:
            return []
        return [reason for reflector in self._reflectors for reason in reflector.unsynced()]

    def problems(self) -> list[str]:
        """Why not everything is up to date."""
        problems = [
            f"{reflector.resource.name}: {reflector.problem}" for reflector in self.reflectors() if reflector.problem
        ]
        return [*self._discovery.problems(), *problems]

    def _follow(self, version: str | None) -> list[asyncio.Task[NoReturn]]:
        """Start to follow a version, or nothing if it is None."""
        self._version, self._decided = version, True
        if version is None:
            self._log.info("no device claims", reason=f"{GROUP} is not served in {', '.join(DEVICE_VERSIONS)}")
            for cache in (self.claims, self.templates, self.extended):
                cache.replace([])
            return []
        self._log.info("device claims are followed", api_version=f"{GROUP}/{version}")
        for reflector in self._reflectors:
            reflector.path = f"/apis/{GROUP}/{version}/{reflector.resource.name}"
        return started(self._reflectors)

    async def _choose(self) -> str | None:
        """The version to use: the API server's preferred one if possible; None if no served version is usable."""
        served = await versions(self._api, GROUP)
        return next(
            (
                version
                for version in (*served[:1], *DEVICE_VERSIONS)
                if version in DEVICE_VERSIONS and version in served
            ),
            None,
        )


VERSIONS: Mapping[str, Sequence[str]] = {
    KAI: ("v1alpha1",),
    KUEUE: ("v1beta2", "v1beta1", "v1alpha1"),
    GROVE: ("v1alpha1",),
}
"""The groups with topologies, in order of precedence, each with the supported versions, newest first."""

T = TypeVar("T")

# How soon a new or removed CustomResourceDefinition is noticed. No requests are made while the watches work.
LOOK_AGAIN_SECONDS = 5.0


class _Kept(NamedTuple, Generic[T]):
    value: T


_Read = _Kept[T] | str


class Followed(NamedTuple, Generic[T]):
    """A kind to follow. called: its objects in messages. read: returns what is kept of an object with its kind.

    It raises TopologyError for an invalid one. kinds: under its names, newest first.
    """

    kinds: Sequence[str]
    called: str
    read: Callable[[JsonObject], T]


def _topology(document: JsonObject) -> Topology:
    return read(document, source_of(document), in_cluster=True)


_POOLS = Followed((pool.KIND,), "node pools", pool.labels)


class _Groups(Generic[T]):
    """The followed groups of one kind, by name."""

    groups: Mapping[str, FollowedGroup[T]]

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return [group.reflector for group in self.groups.values() if group.reflector is not None]

    def problems(self) -> list[str]:
        """Why not everything is up to date, and which objects cannot be used."""
        return [problem for group in self.groups.values() for problem in group.problems()]


class Topologies(_Groups[Topology]):
    """The topologies of several API groups. groups: the followed groups by name."""

    def __init__(self, api: Connection, groups: Mapping[str, Sequence[str]], clock: Clock) -> None:
        called = "topologies of a scheduler"
        self.groups = {
            group: FollowedGroup(api, group, own, Followed(KINDS[group], called, _topology), clock, self._gather)
            for group, own in groups.items()
        }
        self._known: tuple[Topology, ...] = ()

    @property
    def known(self) -> tuple[Topology, ...]:
        """The topologies, sorted by name and then by the order of groups. The tuple is the same until one changes."""
        return self._known

    def unsynced(self) -> list[str]:
        """Why not everything is known yet."""
        return [reason for group in self.groups.values() for reason in group.unsynced()]

    def _gather(self) -> None:
        gathered = [topology for group in self.groups.values() for topology in group.values()]
        gathered.sort(key=lambda topology: topology.name)
        # Rules cache results by this tuple, so a list without changes must not replace it.
        if (now := tuple(gathered)) != self._known:
            self._known = now


class NodePools(_Groups[tuple[Mapping[str, str], ...]]):
    """The labels of Nodes that the pools of the cluster would add. groups: the followed groups by name."""

    def __init__(self, api: Connection, clock: Clock, *, watch: bool) -> None:
        groups = pool.VERSIONS if watch else {}
        self.groups = {group: FollowedGroup(api, group, own, _POOLS, clock) for group, own in groups.items()}

    @property
    def known(self) -> list[Mapping[str, str]]:
        """The labels, of all pools."""
        return [labels for group in self.groups.values() for of_pool in group.values() for labels in of_pool]


class FollowedGroup(Generic[T]):
    """The objects of a kind in one API group. reflector: None if not served.

    notice: called when something may have changed.
    """

    def __init__(
        self,
        api: Connection,
        group: str,
        known_versions: Sequence[str],
        followed: Followed[T],
        clock: Clock,
        notice: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._group = group
        self._followed = followed
        self._versions = known_versions
        self._clock = clock
        self._notice = notice
        self._objects = Cache[WholeObject, str, _Read[T]](name_of, self._read, self._filled)
        self._synced = False  # never reset: a kind that is installed later must not make the service unready
        self._discovery = Discovery(f"{followed.kinds[0]} of {group}", clock)
        self._decided = False
        self._served: ServedKind | None = None
        self._kind = followed.kinds[0]
        self.reflector: Reflector[WholeObject] | None = None
        self._watch: asyncio.Task[NoReturn] | None = None
        self._log = structlog.get_logger()

    def values(self) -> list[T]:
        """What is kept of the objects that can be used."""
        return [item.value for item in self._objects.values if not isinstance(item, str)]

    async def run(self) -> NoReturn:
        """Follow until cancelled. Check again whether the kind is served if it is not, or if its watch fails."""
        try:
            while True:
                if self.reflector is None or self.reflector.problem:
                    await self._found(await self._discovery.ask(self._find))
                await self._clock.sleep(LOOK_AGAIN_SECONDS)
        finally:
            self._decided = False
            await self._end()

    def unsynced(self) -> list[str]:
        """Why the topologies are not known yet; empty after the first answer."""
        if self._synced:
            return []
        if self.reflector is None:
            return [self._discovery.waiting]
        return [reason + self._right() for reason in self.reflector.unsynced()]

    def problems(self) -> list[str]:
        """Why not everything is up to date, and which objects cannot be used."""
        unserved = self._discovery.problems()
        if self.reflector is not None and self.reflector.problem:
            unserved.append(f"{self.reflector.resource.name}: {self.reflector.problem}{self._right()}")
        return [*unserved, *sorted(problem for problem in self._objects.values if isinstance(problem, str))]

    async def _find(self) -> ServedKind | None:
        """The kind in the newest version that serves it; None if no version does. Raises ClusterError."""
        served = await versions(self._api, self._group)
        for version in self._versions:
            for name in self._followed.kinds if version in served else ():
                # The group has other kinds, too, so a version may be served without this one.
                if kind_served := await find(self._api, ParamKind(api_version=f"{self._group}/{version}", kind=name)):
                    self._kind = name
                    return kind_served
        return None

    async def _found(self, served: ServedKind | None) -> None:
        if served == self._served and self._decided:
            return
        await self._end()
        self._served, self._decided = served, True
        if served is None:
            self._log.info(f"no {self._followed.called}", group=self._group)
            self._objects.replace([])
            return
        self._log.info(f"{self._followed.called} are followed", path=served.path(""))
        resource = FollowedResource(f"{served.resource}.{self._group}", whole, cached=True)
        self.reflector = Reflector(self._api, resource, served.path(""), self._objects, self._clock)
        self._watch = asyncio.create_task(self.reflector.run(), name=resource.name)

    async def _end(self) -> None:
        await cancelled([self._watch] if self._watch else [])
        self.reflector = self._watch = None

    def _filled(self) -> None:
        self._synced = True
        self._notice()

    def _read(self, item: WholeObject) -> _Read[T]:
        """What is kept of the object, or why it is invalid. An invalid object does not affect the others."""
        document = {"apiVersion": self._group, "kind": self._kind, **item.content}
        try:
            return _Kept(self._followed.read(document))
        except TopologyError as error:
            source = source_of(document)
            self._log.warning("topology cannot be read", topology=source, reason=str(error))
            return f"{source}: {error}"

    def _right(self) -> str:
        """The right that has to be granted."""
        if self.reflector is None or self.reflector.status != 403:
            return ""
        names = plural(self._kind)
        return f"; a ClusterRole must allow the service's account to list and watch {names} of {self._group}"
