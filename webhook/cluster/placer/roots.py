"""Follows the workloads with a placement, of all kinds that the cluster serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import msgspec
import structlog

from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import Discovery, ServedKind, kinds, versions
from webhook.cluster.api.objects import FollowedResource, Object, WholeObject, whole
from webhook.cluster.placer.entries import Entries
from webhook.cluster.placer.objects import MENTION
from webhook.cluster.watches.reflector import Reflector, cancelled

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

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


class Roots:
    """The workloads of several API groups. kinds: those to follow. sink: makes the sink of a kind."""

    def __init__(
        self, api: Connection, kinds: Iterable[GroupKind], sink: Callable[[GroupKind], Sink], clock: Clock
    ) -> None:
        sinks: dict[str, dict[str, Sink]] = {}
        for group, kind in kinds:
            sinks.setdefault(group, {})[kind] = sink((group, kind))
        self._groups = [_Group(api, group, own, clock) for group, own in sinks.items()]
        self._tasks: list[asyncio.Task[NoReturn]] = []

    async def start(self) -> None:
        """Begin to follow; `unsynced` tells what has not arrived yet."""
        self._tasks = [asyncio.create_task(group.run(), name=f"workloads of {group.name}") for group in self._groups]

    async def stop(self) -> None:
        """Stop following."""
        await cancelled(self._tasks)

    def unsynced(self) -> list[str]:
        """What has not arrived yet, though nothing is known to be in its way."""
        return [reason for group in self._groups for reason in group.unsynced()]

    def problems(self) -> list[str]:
        """What is not followed, with reasons and remedies."""
        return [problem for group in self._groups for problem in group.problems()]

    def reflectors(self) -> list[Reflector[WholeObject]]:
        """What is followed now."""
        return [reflector for group in self._groups for reflector in group.reflectors()]


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
