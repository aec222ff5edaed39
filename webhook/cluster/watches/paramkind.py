"""Follows the parameter objects of one kind as long as the cluster serves it."""

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

# How soon a new or removed CustomResourceDefinition is noticed. No requests are made while the watches work.
LOOK_AGAIN_SECONDS = 5.0
# If there is a known problem, the longest wait. As in kube-apiserver (CollectParams).
PATIENCE_SECONDS = 1.0


class FollowedKind:
    """The scope of one kind, and those of its objects that policies name."""

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
        """Follow exactly these keys from now on. Keys that were already followed keep their objects."""
        self._keys = keys
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"paramKind {self.kind.kind}")
        self._adjust()

    async def stop(self) -> None:
        """Stop following. Known parameters stay available, but are not updated any more."""
        await cancelled([self._task] if self._task else [])  # first, because it may start new watches
        await cancelled([*(watch.task for watch in self._watches.values()), *self._ending])

    def unsynced(self) -> list[str]:
        """What is not known yet, with reasons."""
        if not self._decided.is_set():
            return [self._discovery.waiting]
        return [reason for watch in self._watches.values() for reason in watch.reflector.unsynced()]

    def problems(self) -> list[str]:
        """What is not up to date, with reasons."""
        problems = self._discovery.problems()
        if self._decided.is_set() and self._served is None:
            problems.append(f"{self._name}: not served; install its CustomResourceDefinition, or correct the paramKind")
        return [*problems, *(f"{key}: {watch.problem}" for key, watch in self._watches.items() if watch.problem)]

    def known(self, key: ParametersKey) -> KnownParameters:
        """The parameters for a key. Raises Missing if they are not known."""
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
        """Wait until the parameters are known. Raises FactUnavailable, sooner if there is a known problem."""
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
        """Start and end watches to match the keys. It must not wait, so that `known` is consistent."""
        served = self._served
        keys = {key for key in self._keys if served and _is_watched(key, served.scope)}
        self._end([self._watches.pop(key) for key in self._watches.keys() - keys])
        if served:
            for key in sorted(keys - self._watches.keys(), key=str):
                self._watches[key] = ParamWatch(self._api, key, served, self._clock)

    def _end(self, watches: Iterable[ParamWatch]) -> None:
        """Cancel watches. `stop` waits for their end."""
        for watch in watches:
            watch.task.cancel()
            self._ending.add(watch.task)
            watch.task.add_done_callback(self._ending.discard)

    async def _settled(self, key: ParametersKey, seconds: float) -> bool:
        """Whether the parameters become known within some seconds."""
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
        """The watch that has these parameters, for their namespace or for all namespaces."""
        watch = self._watches.get(key)
        if watch is None:
            everywhere = ParametersKey(kind=self.kind, name=key.name, selector=key.selector)
            watch = self._watches.get(everywhere)
        return watch


def not_followed(key: ParametersKey) -> FactUnavailable:
    """The error for parameters that are not followed."""
    return FactUnavailable(f"{key} could not be read: no policy in force names such parameters")


def _is_watched(key: ParametersKey, scope: KindScope) -> bool:
    """Whether a key needs a watch. It does not if its paramRef is wrong or only the scope is needed."""
    return key.has_objects and not (key.namespace and scope == "Cluster")
