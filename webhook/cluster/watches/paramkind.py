"""The parameter objects of one kind: followed where the cluster serves it, as long as it does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import structlog

from policies.admissionpolicy.evaluation.parameters import NOT_SERVED, KindScope, KnownParameters, ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.engine.lookup import FactUnavailable, Missing
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import Discovery, ServedKind, find
from webhook.cluster.watches.paramwatch import ParamWatch
from webhook.cluster.watches.tasks import cancelled

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

# How soon a CustomResourceDefinition that was installed or removed is noticed. Nothing is asked while watches work.
LOOK_AGAIN_SECONDS = 5.0
# Where there is a problem already, it is not waited for longer than this. As kube-apiserver (CollectParams).
PATIENCE_SECONDS = 1.0


class FollowedKind:
    """What is known of one kind: its scope, and those of its objects that policies name."""

    def __init__(self, api: ApiClient, kind: ParamKind, clock: Clock) -> None:
        self.kind = kind
        self._api = api
        self._clock = clock
        self._keys: frozenset[ParametersKey] = frozenset()
        self._served: ServedKind | None = None
        self._decided = asyncio.Event()
        self._discovery = Discovery(self._name, clock)
        self._watches: dict[ParametersKey, ParamWatch] = {}
        self._ending: set[asyncio.Task[NoReturn]] = set()
        self._task: asyncio.Task[NoReturn] | None = None
        self._log = structlog.get_logger()

    def follow(self, keys: frozenset[ParametersKey]) -> None:
        """Follow just these from now on; what is known of those that were followed before stays."""
        self._keys = keys
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"paramKind {self.kind.kind}")
        self._adjust()

    async def stop(self) -> None:
        """End all that is under way. What is known stays known, and grows old."""
        await cancelled([self._task] if self._task else [])  # first, for it may begin new watches
        await cancelled([*(watch.task for watch in self._watches.values()), *self._ending])

    def unsynced(self) -> list[str]:
        """What is not known yet and why."""
        if not self._decided.is_set():
            return [self._discovery.waiting]
        return [reason for watch in self._watches.values() for reason in watch.reflector.unsynced()]

    def problems(self) -> list[str]:
        """What is not up to date and why."""
        problems = self._discovery.problems()
        if self._decided.is_set() and self._served is None:
            problems.append(f"{self._name}: not served; install its CustomResourceDefinition, or correct the paramKind")
        return [*problems, *(f"{key}: {watch.problem}" for key, watch in self._watches.items() if watch.problem)]

    def known(self, key: ParametersKey) -> KnownParameters:
        """What is known of these. Raises Missing."""
        if not self._decided.is_set():
            raise Missing(key)
        if self._served is None:
            return NOT_SERVED
        if not key.has_objects:
            return KnownParameters(self._served.scope)
        watch = self._watch(key)
        if watch is None or not watch.reflector.synced.is_set():
            raise Missing(key)
        return KnownParameters(self._served.scope, watch.selected(key))

    async def read(self, key: ParametersKey, seconds: float) -> None:
        """Wait until these are known. Raises FactUnavailable, sooner where it is known what is wrong."""
        if not await self._settled(key, min(seconds, PATIENCE_SECONDS)) and (
            self._reason(key) or not await self._settled(key, seconds - PATIENCE_SECONDS)
        ):
            slow = f"the API server at {self._api.configuration.host} took over {seconds:.1f} s"
            raise FactUnavailable(f"{key} could not be read: {self._reason(key) or slow}")
        if self._served and _is_watched(key, self._served.scope) and self._watch(key) is None:
            raise not_followed(key)

    @property
    def _name(self) -> str:
        return str(ParametersKey(kind=self.kind))

    async def _run(self) -> NoReturn:
        while True:
            if self._served is None or any(watch.problem for watch in self._watches.values()):
                self._found(await self._discovery.ask(lambda: find(self._api, self.kind)))
            await self._clock.sleep(LOOK_AGAIN_SECONDS)

    def _found(self, served: ServedKind | None) -> None:
        if served == self._served and self._decided.is_set():
            return
        self._log.info("param kind is served" if served else "param kind is not served", param_kind=self._name)
        self._end(self._watches.values())
        self._watches = {}
        self._served = served
        self._decided.set()
        self._adjust()

    def _adjust(self) -> None:
        """Make the watches be those of the keys, before anything is waited for."""
        served = self._served
        keys = {key for key in self._keys if served and _is_watched(key, served.scope)}
        self._end([self._watches.pop(key) for key in self._watches.keys() - keys])
        if served:
            for key in sorted(keys - self._watches.keys(), key=str):
                self._watches[key] = ParamWatch(self._api, key, served, self._clock)

    def _end(self, watches: Iterable[ParamWatch]) -> None:
        """Let watches end; whoever stops all waits for these, too."""
        for watch in watches:
            watch.task.cancel()
            self._ending.add(watch.task)
            watch.task.add_done_callback(self._ending.discard)

    async def _settled(self, key: ParametersKey, seconds: float) -> bool:
        """Whether these are known within some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._decided.wait()
                if watch := self._watch(key):
                    await watch.reflector.synced.wait()
        except TimeoutError:
            return False
        return True

    def _reason(self, key: ParametersKey) -> str | None:
        watch = self._watch(key)
        return self._discovery.problem if watch is None else watch.problem

    def _watch(self, key: ParametersKey) -> ParamWatch | None:
        """The watch that has these: one of their namespace alone, or of all."""
        watch = self._watches.get(key)
        if watch is None:
            everywhere = ParametersKey(kind=self.kind, name=key.name, selector=key.selector)
            watch = self._watches.get(everywhere)
        return watch


def not_followed(key: ParametersKey) -> FactUnavailable:
    """What is said of parameters that are not followed."""
    return FactUnavailable(f"{key} could not be read: no policy in force names such parameters")


def _is_watched(key: ParametersKey, scope: KindScope) -> bool:
    """Whether there are objects to watch: not for a paramRef that is wrong, and not where only the scope is needed."""
    return key.has_objects and not (key.namespace and scope == "Cluster")
