"""The parameter objects of one kind: followed where the cluster serves it, as long as it does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

import structlog

from policies.admissionpolicy.inputs import Json
from policies.admissionpolicy.model import ParamKind
from policies.admissionpolicy.params import KindScope, UnknownParameters
from policies.admissionpolicy.wanted import WantedParameters
from policies.engine.facts import FactUnavailable
from policies.engine.match import LabelSelector
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import Discovery, ServedKind, find
from webhook.cluster.watches.devices import cancelled
from webhook.cluster.watches.paramwatch import ParamWatch

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

# How soon a CustomResourceDefinition that was installed or removed is noticed. Nothing is asked while watches work.
LOOK_AGAIN_SECONDS = 5.0
# Where there is a problem already, it is not waited for longer than this. As kube-apiserver (CollectParams).
PATIENCE_SECONDS = 1.0


class FollowedKind:
    """What is known of one kind: its scope, and those of its objects that are wanted."""

    def __init__(self, api: ApiClient, kind: ParamKind, clock: Clock) -> None:
        self.kind = kind
        self._api = api
        self._clock = clock
        self._wanted: frozenset[WantedParameters] = frozenset()
        self._served: ServedKind | None = None
        self._decided = asyncio.Event()
        self._discovery = Discovery(self._name, clock)
        self._watches: dict[WantedParameters, ParamWatch] = {}
        self._ending: set[asyncio.Task[NoReturn]] = set()
        self._task: asyncio.Task[NoReturn] | None = None
        self._log = structlog.get_logger()

    def follow(self, wanted: frozenset[WantedParameters]) -> None:
        """Follow just these from now on; what is known of those that were followed before stays."""
        self._wanted = wanted
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
        found = self._discovery.problems()
        if self._decided.is_set() and self._served is None:
            found.append(f"{self._name}: not served; install its CustomResourceDefinition, or correct the paramKind")
        return [*found, *(f"{each}: {watch.problem}" for each, watch in self._watches.items() if watch.problem)]

    def scope(self) -> KindScope | None:
        """The scope; None if the kind is not served. Raises UnknownParameters."""
        if not self._decided.is_set():
            raise UnknownParameters(self.kind)
        return self._served.scope if self._served else None

    def known(
        self, namespace: str, *, name: str = "", selector: LabelSelector | None = None
    ) -> Mapping[tuple[str, str], Json]:
        """What is followed of these, by namespace and name. Raises UnknownParameters."""
        if self._decided.is_set() and self._served is None:
            return {}
        watch = self._watch(WantedParameters(kind=self.kind, namespace=namespace, name=name, selector=selector))
        if watch is None or not watch.reflector.synced.is_set():
            raise UnknownParameters(self.kind, namespace=namespace, name=name, selector=selector)
        return watch.objects.by_key

    async def read(self, needed: WantedParameters, seconds: float) -> None:
        """Wait until something is known. Raises FactUnavailable, sooner where it is known what is wrong."""
        if not await self._settled(needed, min(seconds, PATIENCE_SECONDS)) and (
            self._reason(needed) or not await self._settled(needed, seconds - PATIENCE_SECONDS)
        ):
            slow = f"the API server at {self._api.configuration.host} took over {seconds:.1f} s"
            raise FactUnavailable(f"{needed} could not be read: {self._reason(needed) or slow}")
        if self._served and _is_watched(needed, self._served.scope) and self._watch(needed) is None:
            raise not_wanted(needed)

    @property
    def _name(self) -> str:
        return str(WantedParameters(kind=self.kind))

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
        """Make the watches be those that are wanted, before anything is waited for."""
        served = self._served
        wanted = {each for each in self._wanted if served and _is_watched(each, served.scope)}
        self._end([self._watches.pop(each) for each in self._watches.keys() - wanted])
        if served:
            for each in sorted(wanted - self._watches.keys(), key=str):
                self._watches[each] = ParamWatch(self._api, each, served, self._clock)

    def _end(self, watches: Iterable[ParamWatch]) -> None:
        """Let watches end; whoever stops all waits for these, too."""
        for watch in watches:
            watch.task.cancel()
            self._ending.add(watch.task)
            watch.task.add_done_callback(self._ending.discard)

    async def _settled(self, needed: WantedParameters, seconds: float) -> bool:
        """Whether something is known within some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._decided.wait()
                if watch := self._watch(needed):
                    await watch.reflector.synced.wait()
        except TimeoutError:
            return False
        return True

    def _reason(self, needed: WantedParameters) -> str | None:
        watch = self._watch(needed)
        return self._discovery.problem if watch is None else watch.problem

    def _watch(self, needed: WantedParameters) -> ParamWatch | None:
        """The watch that has these: one of their namespace alone, or of all."""
        found = self._watches.get(needed)
        if found is None:
            everywhere = WantedParameters(kind=self.kind, name=needed.name, selector=needed.selector)
            found = self._watches.get(everywhere)
        return found


def not_wanted(needed: WantedParameters) -> FactUnavailable:
    """What is said of parameters that are not followed."""
    return FactUnavailable(f"{needed} could not be read: no policy in force names such parameters")


def _is_watched(wanted: WantedParameters, scope: KindScope) -> bool:
    """Whether there are objects to watch: not for a paramRef that is wrong, and not where only the scope is wanted."""
    has_objects = wanted.name or wanted.selector is not None
    return bool(has_objects and not (wanted.namespace and scope == "Cluster"))
