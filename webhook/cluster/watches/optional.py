"""Follows kinds that the cluster may not serve: device claims, topologies of schedulers, node pools and workloads."""

from __future__ import annotations

import asyncio
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
from webhook.cluster.watches.reflector import Cache, Reflector, cancelled, started


class _Watch(NamedTuple):
    served: ServedResource
    reflector: Reflector[Any]
    task: asyncio.Task[NoReturn]


class FollowedGroup:
    """Base class: follows the kinds of an API group as far as the API server serves them.

    called: its objects in messages. kinds: each under its names, newest first. about: the group in messages.
    seconds: how soon a new or removed CustomResourceDefinition is noticed. Nothing is asked while all watches work.
    """

    def __init__(
        self,
        api: Connection,
        group: str,
        kinds: Iterable[Sequence[str]],
        called: str,
        clock: Clock,
        *,
        about: str,
        seconds: float,
    ) -> None:
        self.about = about
        self._api = api
        self._group = group
        self._kinds = tuple(kinds)
        self._called = called
        self._clock = clock
        self._seconds = seconds
        self._discovery = Discovery(about, clock)
        self._decided = False
        self._synced = False  # never reset: a kind that is installed later must not make the service unready
        self._watches: dict[str, _Watch] = {}
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Follow until cancelled. Check again what is served while a kind is not, or while a watch fails."""
        try:
            while True:
                if len(self._watches) < len(self._kinds) or any(one.problem for one in self.reflectors()):
                    await self._follow(await self._discovery.ask(self._find))
                await self._clock.sleep(self._seconds)
        finally:
            watches, self._watches, self._decided = self._watches, {}, False
            await cancelled(watch.task for watch in watches.values())

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return [watch.reflector for watch in self._watches.values()]

    def unsynced(self) -> list[str]:
        """Why not everything is known yet; empty for ever after it was for the first time."""
        if self._synced:
            return []
        if not self._decided:
            return [self._discovery.waiting]
        reasons = [reason + _right(watch) for watch in self._watches.values() for reason in watch.reflector.unsynced()]
        self._synced = not reasons
        return reasons

    def problems(self) -> list[str]:
        """Why not everything is up to date, with remedies."""
        failing = (watch for watch in self._watches.values() if watch.reflector.problem)
        return [
            *self._discovery.problems(),
            *(f"{one.reflector.resource.name}: {one.reflector.problem}{_right(one)}" for one in failing),
        ]

    def _versions(self, served: Sequence[str]) -> Iterable[str]:
        """The versions to follow, best first. served: those that there are, the API server's preferred one first."""
        return served

    def _reflector(self, kind: str, served: ServedResource) -> Reflector[Any]:
        raise NotImplementedError

    def _gone(self, kind: str) -> None:
        """Forget the objects of a kind, by its first name, that is not served."""

    async def _find(self) -> Mapping[str, ServedResource]:
        names = [name for kind in self._kinds for name in kind]
        served = await places(self._api, self._group, names, self._versions)
        chosen = (next((name for name in kind if name in served), "") for kind in self._kinds)
        return {name: served[name] for name in chosen if name}

    async def _follow(self, served: Mapping[str, ServedResource]) -> None:
        changed = [name for name, watch in self._watches.items() if served.get(name) != watch.served]
        await cancelled([self._watches.pop(name).task for name in changed])
        for kind in self._kinds:
            if not served.keys() & set(kind) and (not self._decided or set(changed) & set(kind)):
                self._gone(kind[0])
        new = [name for name in served if name not in self._watches]
        for name in new:
            reflector = self._reflector(name, served[name])
            self._watches[name] = _Watch(served[name], reflector, *started([reflector]))
        if not self._decided or changed or new:
            if served:
                self._log.info(f"{self._called} are followed", group=self._group, kinds=[*served])
            else:
                self._log.info(f"no {self._called}", group=self._group)
        self._decided, self._synced = True, self._synced or not served


def _right(watch: _Watch) -> str:
    if watch.reflector.status != 403:
        return ""
    target = watch.served.resource
    resource = f"{target.resource} of {target.group}" if target.group else target.resource
    return f"; a ClusterRole must allow the service's account to list and watch {resource}"


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
        self._sinks: Mapping[str, tuple[FollowedResource[Any], Cache[Any, Any, Any]]] = {
            "ResourceClaim": (CLAIMS, self.claims),
            "ResourceClaimTemplate": (CLAIM_TEMPLATES, self.templates),
            "DeviceClass": (DEVICE_CLASSES, self.extended),
        }
        kinds = [(kind,) for kind in self._sinks]
        super().__init__(api, DEVICE_GROUP, kinds, "device claims", clock, about=DEVICE_GROUP, seconds=DEVICES_SECONDS)

    def _versions(self, served: Sequence[str]) -> Iterable[str]:
        return [
            version for version in (*served[:1], *DEVICE_VERSIONS) if version in DEVICE_VERSIONS and version in served
        ]

    def _reflector(self, kind: str, served: ServedResource) -> Reflector[Any]:
        resource, sink = self._sinks[kind]
        return Reflector(self._api, resource, served.path(""), sink, self._clock)

    def _gone(self, kind: str) -> None:
        self._sinks[kind][1].clear()


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
        about = f"{kinds[0]} of {group}"
        super().__init__(api, group, [kinds], called, clock, about=about, seconds=LOOK_AGAIN_SECONDS)
        self._known_versions = versions
        self._read_object = read
        self._kind = kinds[0]
        self._objects = Cache[WholeObject, str, T | str](name_of, self._read, notice)

    def values(self) -> list[T]:
        """What is kept of the objects that can be used."""
        return [item for item in self._objects.values if not isinstance(item, str)]

    def problems(self) -> list[str]:
        """Why not everything is up to date, and which objects cannot be used."""
        return [*super().problems(), *sorted(problem for problem in self._objects.values if isinstance(problem, str))]

    def _versions(self, served: Sequence[str]) -> Iterable[str]:
        return [version for version in self._known_versions if version in served]

    def _reflector(self, kind: str, served: ServedResource) -> Reflector[Any]:
        self._kind = kind
        resource = FollowedResource(f"{served.resource.resource}.{self._group}", whole, cached=True)
        return Reflector(self._api, resource, served.path(""), self._objects, self._clock)

    def _gone(self, kind: str) -> None:  # noqa: ARG002 - there is one kind
        self._objects.clear()

    def _read(self, item: WholeObject) -> T | str:
        """What is kept of the object, or why it is invalid. An invalid object does not affect the others."""
        document = {"apiVersion": self._group, "kind": self._kind, **item.content}
        try:
            return self._read_object(document)
        except TopologyError as error:
            source = source_of(document)
            self._log.warning("could not read a topology", topology=source, reason=str(error))
            return f"{source}: {error}"


class _Groups(Generic[T]):
    """The followed groups of one kind, by name."""

    groups: Mapping[str, FollowedObjects[T]]

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return [reflector for group in self.groups.values() for reflector in group.reflectors()]

    def problems(self) -> list[str]:
        """Why not everything is up to date, and which objects cannot be used."""
        return [problem for group in self.groups.values() for problem in group.problems()]


class Topologies(_Groups[Topology]):
    """The topologies of several API groups. groups: the known versions by name."""

    def __init__(self, api: Connection, groups: Mapping[str, Sequence[str]], clock: Clock) -> None:
        called = "topologies of a scheduler"
        self.groups = {
            group: FollowedObjects(api, group, own, KINDS[group], called, _topology, clock, self._gather)
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


def _topology(document: JsonObject) -> Topology:
    return read(document, source_of(document), in_cluster=True)


class NodePools(_Groups[tuple[Mapping[str, str], ...]]):
    """The labels of Nodes that the pools of the cluster would add."""

    def __init__(self, api: Connection, clock: Clock, *, watch: bool) -> None:
        groups = nodepool.VERSIONS if watch else {}
        self.groups = {
            group: FollowedObjects(api, group, own, (nodepool.KIND,), "node pools", nodepool.labels, clock)
            for group, own in groups.items()
        }

    @property
    def known(self) -> list[Mapping[str, str]]:
        """The labels, of all pools."""
        return [labels for group in self.groups.values() for of_pool in group.values() for labels in of_pool]
