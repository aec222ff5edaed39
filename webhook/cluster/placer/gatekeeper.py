"""Opens the gates of Pods as the placer decides, while this process holds the Lease, and writes Events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import quote

import msgspec
import structlog

from policies.topology.placer.placer import Look, Opening, Waiting
from policies.topology.placer.placer import Subject as Root
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.api.events import Events, Reason, Subject
from webhook.cluster.placer.follower import Follower
from webhook.measures.placing import Placing

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

PAUSE_SECONDS: Final = 0.01
"""After a change others follow, such as the other Pods of a gang. So much later all of them are looked at together."""

GRACE_SECONDS: Final = 5.0
"""A gang that waits for so long is told of; before, its Pods are just being created."""

MOST_AT_ONCE: Final = 8
"""Patches under way at a time."""

_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 60.0
_MOST_EVENTS: Final = 500
_GONE: Final = frozenset({404, 409})
"""The Pod is gone or has changed, which the watch will show."""

CHANGED: Final = "the server rejected our request due to an error in our request"
"""What the API server says, with 422, where a test in a patch fails: the Pod has changed, as the watch will show."""


class _Message(msgspec.Struct):
    message: str = ""


class _EventList(msgspec.Struct):
    items: list[_Message]


_EVENTS = msgspec.json.Decoder(_EventList)


class Gatekeeper:
    """Looks at the cluster after each change. leading: whether this process holds the Lease."""

    def __init__(
        self,
        api: Connection,
        follower: Follower,
        leading: Callable[[], bool],
        measures: Placing,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._follower = follower
        self._leading = leading
        self._measures = measures
        self._clock = clock or Clock()
        self._events = Events(api, self._clock)
        self._said: dict[tuple[str, str], tuple[str, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals: set[int] = set()
        self._led = False
        self._wake = 0.0
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Look until cancelled. No failure ends it."""
        while True:
            await self._changed()
            if self._follower.unsynced() or not self._leading():
                self._led = self._led and self._leading()
                self._measures.lead(leads=False)
                self._measures.queue(())
                continue
            if not self._led:
                # What another process opened meanwhile is known by the watches; what this one meant to open is not.
                self._follower.placer.forget_openings()
                self._led = True
            self._measures.lead(leads=True)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - whatever it is, gangs wait for the next look
                self._log.exception("could not place gangs")
                self._wake = self._now() + 1.0

    async def look(self) -> Look:
        """Look once, open gates, and begin to write Events."""
        self._follower.refresh()
        began = self._clock.monotonic()
        look = self._follower.placer.look(self._now())
        self._measures.look(look, self._clock.monotonic() - began, self._now())
        self._wake = look.wake
        limit = asyncio.Semaphore(MOST_AT_ONCE)
        await asyncio.gather(*(self._open(opening, limit) for opening in look.openings))
        self._say(look)
        return look

    async def _changed(self) -> None:
        """Wait for a change, or for the moment when something is due by itself."""
        seconds = max(0.0, min(self._wake - self._now(), _AGAIN_SECONDS)) if self._led else 1.0
        try:
            async with asyncio.timeout(seconds):
                await self._follower.changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(PAUSE_SECONDS)
        self._follower.changed.clear()

    async def _open(self, opening: Opening, limit: asyncio.Semaphore) -> None:
        path = f"/api/v1/namespaces/{quote(opening.namespace, safe='')}/pods/{quote(opening.name, safe='')}"
        call = Call(
            "PATCH", path, content_type="application/json-patch+json", body=list(opening.patch), seconds=_SECONDS
        )
        async with limit:
            if not self._leading():
                self._follower.placer.failed(opening)
                return
            try:
                await fetch(self._api, call)
            except ClusterError as error:
                self._failed(opening, error)
            else:
                self._measures.opened("opened")
                self._refusals.clear()

    def _failed(self, opening: Opening, error: ClusterError) -> None:
        """Count a Pod as gated again whose gate could not be opened. Each cause is logged once."""
        self._follower.placer.failed(opening)
        is_gone = error.status in _GONE or (error.status == 422 and CHANGED in str(error))
        self._measures.opened("gone" if is_gone else "refused")
        if not is_gone and error.status not in self._refusals:
            self._refusals.add(error.status)
            pod = f"{opening.namespace}/{opening.name}"
            self._log.error("could not open the gate of a Pod", pod=pod, reason=f"{error}{_remedy(str(error))}")
        self._wake = min(self._wake, self._now() + 1.0)

    def _say(self, look: Look) -> None:
        """Begin to write what is new as Events."""
        for placed in look.placed:
            self._log.info(
                "placed",
                kind=placed.about.kind,
                namespace=placed.about.namespace,
                name=placed.about.name,
                where=placed.message,
            )
            self._said.pop((placed.about.uid, "Waiting"), None)
            self._tell(placed.about, "Placed", placed.message, warning=False)
        for waiting in look.queue:
            if self._now() < waiting.since + GRACE_SECONDS:
                self._wake = min(self._wake, waiting.since + GRACE_SECONDS)
            elif self._is_due(waiting.about, "Waiting", waiting.reason):
                self._spawn(self._wait(waiting))
        for notice in look.notices:
            if self._is_due(notice.about, notice.reason, notice.message):
                self._tell(notice.about, notice.reason, notice.message)
        if len(self._said) > 10 * _MOST_EVENTS:
            now = self._now()
            self._said = {key: entry for key, entry in self._said.items() if now - entry[1] < _AGAIN_SECONDS}

    def _is_due(self, about: Root, reason: str, message: str) -> bool:
        """Whether an Event is to be written: it says something else than the last one, a minute ago or more."""
        last, at = self._said.get((about.uid, reason), ("", 0.0))
        now = self._now()
        if len(self._tasks) >= _MOST_EVENTS or message == last or (last and now - at < _AGAIN_SECONDS):
            return False
        self._said[about.uid, reason] = (message, now)
        return True

    async def _wait(self, waiting: Waiting) -> None:
        """Write why a gang waits; if Pods are missing, with what the controller last said about that."""
        message = waiting.reason
        if waiting.kept:
            message += f" {waiting.kept} is kept free for it."
        if waiting.existing < waiting.pods:
            message += await self._failure(waiting.about)
        await self._write(waiting.about, "Waiting", message, warning=True)

    async def _failure(self, about: Root) -> str:
        selector = f"involvedObject.uid={about.uid},reason=FailedCreate"
        path = f"/api/v1/namespaces/{quote(about.namespace, safe='')}/events"
        try:
            call = Call("GET", path, (("fieldSelector", selector),), seconds=_SECONDS)
            items = _EVENTS.decode(await fetch(self._api, call)).items
        except (ClusterError, msgspec.MsgspecError):
            return ""
        return f" FailedCreate: {items[-1].message}" if items else ""

    def _tell(self, about: Root, reason: Reason, message: str, *, warning: bool = True) -> None:
        self._spawn(self._write(about, reason, message, warning=warning))

    async def _write(self, about: Root, reason: Reason, message: str, *, warning: bool) -> None:
        subject = Subject(about.api_version, about.kind, about.namespace, about.name, about.uid)
        try:
            await self._events.write(
                subject, reason, message, occasion=f"{reason}\n{self._now():.0f}\n{message}", warning=warning
            )
        except ClusterError as error:
            if error.status != 404:
                self._log.warning("could not write an Event", reason=str(error))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Write an Event beside what else is to be done: openings do not wait for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _remedy(refusal: str) -> str:
    """What to do about a refusal, after what the API server said."""
    if "The placer may" in refusal:
        return "; a webhook or policy that changes Pods when they are updated must leave out the placer's account"
    if "cannot patch resource" in refusal:
        return "; a ClusterRole must allow the placer's account to patch pods"
    return ""
