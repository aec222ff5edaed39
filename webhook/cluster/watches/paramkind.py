"""Follows the parameter objects of one kind as long as the cluster serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from policies.admissionpolicy.evaluation.parameters import NOT_SERVED, KindScope, KnownParameters, ParametersKey
from policies.admissionpolicy.model import ParamKind
from policies.engine.interruption import FactUnavailable, Missing
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import Discovery, ServedKind, find
from webhook.cluster.watches.paramplan import plan
from webhook.cluster.watches.paramwatch import ParamWatch
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.tasks import cancelled

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

# How soon a new or removed CustomResourceDefinition is noticed. No requests are made while the watches work.
LOOK_AGAIN_SECONDS = 5.0
# How soon a right to watch more at once is noticed, after it was missing. Each attempt is a refusal in the audit log.
ASK_AGAIN_SECONDS = 600.0
# How old a watch that worked must be before a refusal divides it. An API server that starts refuses everything for some
# moments, until it knows its roles, and must not be asked for a thousand watches then.
LOST_SECONDS = 300.0
# How long refusals are gathered before watches are divided. Each division looks at all references.
DIVIDE_SECONDS = 0.1
# If there is a known problem, the longest wait. As in kube-apiserver (CollectParams).
PATIENCE_SECONDS = 1.0


class FollowedKind:
    """The scope of one kind, and those of its objects that policies name.

    When watches change, the old ones stay until the first lists of the new ones have arrived.
    """

    def __init__(self, api: Connection, kind: ParamKind, clock: Clock) -> None:
        self.kind = kind
        self._api = api
        self._clock = clock
        self._keys: frozenset[ParametersKey] = frozenset()
        self._served: ServedKind | None = None
        self._decided = asyncio.Event()
        self._moved = asyncio.Event()  # set, and replaced, when more may be known than before
        self._discovery = Discovery(self._name, clock)
        self._watches: list[ParamWatch] = []  # all that run
        self._planned: dict[ParametersKey, ParamWatch] = {}  # by reference, the watch that should have it
        self._serving: dict[ParametersKey, ParamWatch] = {}  # by reference, the watch that has it
        self._refused: dict[ParametersKey, float] = {}  # reaches, and when they were refused
        self._division: asyncio.TimerHandle | None = None
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
        self._divide_later(None)
        await cancelled([*(watch.task for watch in self._watches), *self._ending])

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return [watch.reflector for watch in self._current()]

    def unsynced(self) -> list[str]:
        """What is not known yet, with reasons."""
        if not self._decided.is_set():
            return [self._discovery.waiting]
        waiting = [watch for watch in self._current() if not watch.keys & self._keys <= self._serving.keys()]
        return [reason for watch in waiting for reason in watch.reflector.unsynced()]

    def problems(self) -> list[str]:
        """What is not up to date, with reasons."""
        problems = self._discovery.problems()
        if self._decided.is_set() and self._served is None:
            problems.append(f"{self._name}: not served; install its CustomResourceDefinition, or correct the paramKind")
        return [*problems, *(f"{watch.reach}: {watch.problem}" for watch in self._current() if watch.problem)]

    def known(self, key: ParametersKey) -> KnownParameters:
        """The parameters for a key. Raises Missing if they are not known."""
        if not self._decided.is_set():
            raise Missing(key)
        if self._served is None:
            return NOT_SERVED
        if not key.has_objects:
            return KnownParameters(self._served.scope)
        watch = self._of(key, self._serving)
        if watch is None:
            raise Missing(key)
        return KnownParameters(self._served.scope, watch.selected(key))

    async def read(self, key: ParametersKey, seconds: float) -> None:
        """Wait until the parameters are known. Raises FactUnavailable, sooner if there is a known problem."""
        if not await self._settled(key, min(seconds, PATIENCE_SECONDS)) and (
            self._reason(key) or not await self._settled(key, seconds - PATIENCE_SECONDS)
        ):
            slow = f"the API server at {self._api.configuration.host} took over {seconds:.1f} s"
            raise FactUnavailable(f"{key} could not be read: {self._reason(key) or slow}")
        if self._served and _is_watched(key, self._served.scope) and self._of(key, self._planned) is None:
            raise not_followed(key)

    @property
    def _name(self) -> str:
        return str(ParametersKey(kind=self.kind))

    async def _run(self) -> NoReturn:
        while True:
            if self._served is None or any(watch.problem for watch in self._current()):
                self._found(await self._discovery.ask(lambda: find(self._api, self.kind)))
            since = self._clock.monotonic() - ASK_AGAIN_SECONDS
            if any(refused <= since for refused in self._refused.values()):
                self._refused = {reach: refused for reach, refused in self._refused.items() if refused > since}
                self._adjust()
            await self._clock.sleep(LOOK_AGAIN_SECONDS)

    def _found(self, served: ServedKind | None) -> None:
        if served == self._served and self._decided.is_set():
            return
        self._log.info("param kind is served" if served else "param kind is not served", param_kind=self._name)
        self._end(self._watches)
        self._watches, self._planned, self._serving, self._refused = [], {}, {}, {}
        self._served = served
        self._decided.set()
        self._adjust()

    def _adjust(self) -> None:
        """Start and end watches to match the keys. It must not wait, so that `known` is consistent."""
        self._divide_later(None)
        served = self._served
        keys = frozenset(key for key in self._keys if served and _is_watched(key, served.scope))
        self._planned = {}
        for reach, part in plan(keys, self._refused).items():
            if served is not None:
                self._planned |= dict.fromkeys(part, self._watch(reach, part, served))
        self._serving = {key: self._server(key) or watch for key, watch in self._serving.items() if key in keys}
        for key in keys - self._serving.keys():
            if watch := self._server(key):
                self._serving[key] = watch
        self._clear()

    def _watch(self, reach: ParametersKey, keys: frozenset[ParametersKey], served: ServedKind) -> ParamWatch:
        """The watch of a reach that keeps these references: one that runs, or a new one."""
        for watch in self._watches:
            if watch.reach == reach and keys <= watch.keys:
                return watch
        watch = ParamWatch(self._api, reach, keys, served, self._clock, self._noticed)
        self._watches.append(watch)
        return watch

    def _server(self, key: ParametersKey) -> ParamWatch | None:
        """The watch that has a reference: the planned one or, until its first list has arrived, an older one."""
        planned = self._planned[key]
        if planned.synced:
            return planned
        return next((watch for watch in self._watches if watch.synced and key in watch.keys), None)

    def _noticed(self, watch: ParamWatch) -> None:
        """Take over what a watch has listed, or split it if it was refused and has several references."""
        if watch.synced:
            self._serving |= dict.fromkeys((key for key in watch.keys if self._planned.get(key) is watch), watch)
        if self._is_lost(watch) and any(watch is planned for planned in self._planned.values()):
            self._log.info("parameters are watched in parts", parameters=str(watch.reach), reason=watch.problem)
            self._refused[watch.reach] = self._clock.monotonic()
            if self._division is None:
                self._divide_later(DIVIDE_SECONDS)
        else:
            self._clear()

    def _is_lost(self, watch: ParamWatch) -> bool:
        """Whether a watch should be divided, because the service may not watch so much."""
        if not watch.refused or len(watch.keys) == 1:
            return False
        return not watch.synced or self._clock.monotonic() - watch.reflector.fresh >= LOST_SECONDS

    def _divide_later(self, seconds: float | None) -> None:
        """Divide refused watches after some seconds; None to forget it."""
        if self._division is not None:
            self._division.cancel()
        self._division = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self._adjust)

    def _clear(self) -> None:
        """End the watches that nobody needs any more, and wake those that wait for parameters."""
        needed = {id(watch) for watch in (*self._planned.values(), *self._serving.values())}
        self._end(watch for watch in self._watches if id(watch) not in needed)
        self._watches = [watch for watch in self._watches if id(watch) in needed]
        self._moved.set()
        self._moved = asyncio.Event()

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
                while self._of(key, self._planned) is not None and self._of(key, self._serving) is None:
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def _reason(self, key: ParametersKey) -> str | None:
        watch = self._of(key, self._planned)
        return self._discovery.problem if watch is None else watch.problem

    def _of(self, key: ParametersKey, watches: dict[ParametersKey, ParamWatch]) -> ParamWatch | None:
        """The watch that has these parameters, for their namespace or for all namespaces."""
        watch = watches.get(key)
        if watch is None and key.namespace:
            watch = watches.get(ParametersKey(kind=self.kind, name=key.name, selector=key.selector))
        return watch

    def _current(self) -> list[ParamWatch]:
        """The planned watches, in the order of their reaches."""
        return sorted(
            {id(watch): watch for watch in self._planned.values()}.values(), key=lambda watch: str(watch.reach)
        )


def not_followed(key: ParametersKey) -> FactUnavailable:
    """The error for parameters that are not followed."""
    return FactUnavailable(f"{key} could not be read: no policy in force names such parameters")


def _is_watched(key: ParametersKey, scope: KindScope) -> bool:
    """Whether a key needs a watch. It does not if its paramRef is wrong or only the scope is needed."""
    return key.has_objects and not (key.namespace and scope == "Cluster")
