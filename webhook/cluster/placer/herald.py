"""Says what the placer has decided as Events on workloads and Pods, without delaying what else is to be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
import structlog

from policies.topology.placer.placer import Notice, Placed, Waiting
from policies.topology.placer.placer import Subject as About
from webhook.cluster.api.call import UNREADABLE, Call, fetch
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.api.events import Events, Reason, Subject
from webhook.cluster.watches.reflector import cancelled

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

GRACE_SECONDS: Final = 5.0
"""A gang that waits for so long is told of; before, its Pods are just being created."""

_AGAIN_SECONDS: Final = 60.0
"""The time between two Events of one reason about an object, which say different things."""

_REPEAT_SECONDS: Final = 2700.0
"""The time between two that say the same: by default, Kubernetes keeps Events for an hour."""

# Openings and the Lease share the connections, and the API server's patience, with Events.
_MOST_AT_ONCE: Final = 2
_MOST: Final = 500
_SECONDS: Final = 10.0


class _Failure(msgspec.Struct, rename="camel"):
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def at(self) -> str:
        """When it was said last, in a form that sorts."""
        return self.last_timestamp or self.event_time or ""


class _Failures(msgspec.Struct):
    items: list[_Failure]


_FAILURES = msgspec.json.Decoder(_Failures)


class Herald:
    """Writes Events, few at a time. What finds no room is said after the next look, or never if it was `Placed`."""

    def __init__(self, api: ApiClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = Events(api, clock)
        self._said: dict[tuple[str, str], tuple[str, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)
        self._problem = 0
        self._log = structlog.get_logger()

    def placed(self, placed: Placed) -> None:
        """Say where a gang starts."""
        about = placed.about
        named = {"kind": about.kind, "namespace": about.namespace, "name": about.name}
        self._log.info("placed", **named, where=placed.message)
        self._said.pop((about.uid, "Waiting"), None)
        if len(self._tasks) < _MOST:
            self._begin(partial(self._write, about, "Placed", placed.message, warning=False))

    def waits(self, waiting: Waiting) -> float:
        """Say why a gang waits. Return when that is due, in seconds since the epoch."""
        due = waiting.since + GRACE_SECONDS
        if self._now() >= due and self._is_due(waiting.about, "Waiting", waiting.reason):
            self._begin(partial(self._explain, waiting))
        return due

    def refused(self, about: About, reason: str) -> None:
        """Say that a gang waits because the API server refuses to open its gates."""
        if self._is_due(about, "Waiting", "refused"):
            self._begin(partial(self._write, about, "Waiting", reason))

    def notice(self, notice: Notice) -> None:
        """Say something else."""
        if self._is_due(notice.about, notice.reason, notice.message):
            self._begin(partial(self._write, notice.about, notice.reason, notice.message))

    def forget(self) -> None:
        """Forget what was said so long ago that it is to be said again."""
        now = self._now()
        self._said = {key: entry for key, entry in self._said.items() if now - entry[1] < _REPEAT_SECONDS}

    async def stop(self) -> None:
        """Leave unsaid what is not written yet."""
        await cancelled([*self._tasks])

    def _is_due(self, about: About, reason: str, message: str) -> bool:
        """Whether an Event is to be written now, which counts as said then."""
        last, at = self._said.get((about.uid, reason), ("", 0.0))
        now = self._now()
        pause = _REPEAT_SECONDS if message == last else _AGAIN_SECONDS
        if len(self._tasks) >= _MOST or (last and now - at < pause):
            return False
        self._said[about.uid, reason] = (message, now)
        return True

    async def _explain(self, waiting: Waiting) -> None:
        """Write why a gang waits; if Pods are missing, with what their controller last said about that."""
        message = waiting.reason
        if waiting.kept:
            message += f" {waiting.kept} is kept free for it."
        if waiting.existing < waiting.pods:
            message += await self._failure(waiting.about)
        await self._write(waiting.about, "Waiting", message)

    async def _failure(self, about: About) -> str:
        selector = f"involvedObject.uid={about.uid},reason=FailedCreate"
        path = f"/api/v1/namespaces/{quote(about.namespace, safe='')}/events"
        call = Call("GET", path, (("fieldSelector", selector),), seconds=_SECONDS)
        try:
            failures = _FAILURES.decode(await fetch(self._api, call)).items
        except (ClusterError, *UNREADABLE):
            return ""
        last = max(failures, key=lambda failure: failure.at, default=None)
        return f" FailedCreate: {last.message}" if last else ""

    async def _write(self, about: About, reason: Reason, message: str, *, warning: bool = True) -> None:
        subject = Subject(about.api_version, about.kind, about.namespace, about.name, about.uid)
        occasion = f"{reason}\n{self._now():.0f}\n{message}"
        try:
            await self._events.write(subject, reason, message, occasion=occasion, warning=warning)
        except ClusterError as error:
            if error.status not in (404, self._problem):
                right = "; a ClusterRole must allow the placer's account to create events" * (error.status == 403)
                self._log.warning("could not write an Event", reason=f"{error}{right}")
                self._problem = error.status
        else:
            self._problem = 0

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Write when it is its turn."""

        async def write() -> None:
            async with self._turns:
                await work()

        task = asyncio.create_task(write(), name="Event")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _now(self) -> float:
        return self._clock.now().timestamp()
