"""Follows the objects of one kind with a list and then watches, as client-go's reflector does.

The client's own Watch is not used: it parses every event twice into Python objects, retries once from an expired
version instead of listing again, and fails at lines over 4 MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NoReturn, Protocol, TypeVar

import msgspec
import structlog

from webhook.cluster.api.call import EVENT, UNREADABLE, Call, Connection, Lines, opened, pages, refused
from webhook.cluster.api.errors import Backoff, Clock, ClusterError
from webhook.cluster.api.objects import FollowedResource, Object

T = TypeVar("T")
ObjectT = TypeVar("ObjectT", bound=Object)
K = TypeVar("K")
V = TypeVar("V")
T_contra = TypeVar("T_contra", contravariant=True)

Change = Literal["ADDED", "MODIFIED", "DELETED"]


class Sink(Protocol[T_contra]):
    """Receives the objects of a reflector, lists page by page, so that not all objects are held at a time."""

    def begin(self) -> None:
        """Begin a list. The one before it may not have come to its end."""

    def page(self, objects: Sequence[T_contra]) -> None:
        """Take a part of the list."""

    def complete(self) -> None:
        """Forget the objects that were not in the list."""

    def changed(self, change: Change, item: T_contra) -> None:
        """Handle an object that was added, modified or deleted."""


class Cache(Generic[T, K, V]):
    """Keeps a value for each object.

    key: returns the key of an object. value: returns the value of an object; None if it is not kept. notice: called
    after each change of a value, and after each list.
    """

    def __init__(
        self, key: Callable[[T], K], value: Callable[[T], V | None], notice: Callable[[], None] = lambda: None
    ) -> None:
        self._key = key
        self._value = value
        self._notice = notice
        self._values: dict[K, V] = {}
        self._listed: dict[K, V] = {}
        self._sequence: tuple[V, ...] | None = None

    @property
    def by_key(self) -> Mapping[K, V]:
        """The current values by key. A later change may or may not show in this mapping."""
        return self._values

    @property
    def values(self) -> Sequence[V]:
        """The current values, as an immutable sequence, which is the same until something changes."""
        if self._sequence is None:
            self._sequence = tuple(self._values.values())
        return self._sequence

    def begin(self) -> None:
        """Begin a list."""
        self._listed = {}

    def page(self, objects: Sequence[T]) -> None:
        """Take the values of a part of a list."""
        entries = ((self._key(item), self._value(item)) for item in objects)
        self._listed |= {key: value for key, value in entries if value is not None}

    def complete(self) -> None:
        """Replace all values with those of the list."""
        self._values, self._listed, self._sequence = self._listed, {}, None
        self._notice()

    def changed(self, change: Change, item: T) -> None:
        """Handle one event. Most change no value: a Node, for example, writes its status every few minutes."""
        key = self._key(item)
        value = None if change == "DELETED" else self._value(item)
        if self._values.get(key) == value:
            return
        if value is None:
            del self._values[key]
        else:
            self._values[key] = value
        self._sequence = None
        self._notice()


# The API server ends a watch after a random time of 5 to 10 minutes, so that clients do not reconnect all at once and
# new API servers get their share. As in client-go.
WATCH_SECONDS = 300
# Bookmarks arrive about once a minute, the first one after up to two. After three minutes without a byte, the
# connection is considered dead; if it was not, a new one costs little.
SILENCE_SECONDS = 180.0
# If a watch ends sooner than this without an event, it failed, and the next one is delayed. As in client-go.
SHORT_SECONDS = 1.0
# The resourceVersion to watch from has expired, or this server cannot use it.
_LIST_AGAIN = frozenset({400, 410})
# The watch cache has no version as new (504), or the version cannot be used.
_NOT_IN_CACHE = frozenset({400, 410, 504})
# After a restart of the API server, all versions of all processes have expired at once. So the lists that follow are
# spread over some seconds, of which facts are older meanwhile.
SPREAD_SECONDS = 3.0


async def cancelled(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel tasks and wait until they have ended."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


class Following:
    """Follows objects of the cluster from `start` to `stop`. name: that of its task. parts: what it consists of."""

    name = ""
    parts: Sequence[Following] = ()
    task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Do the work that is not that of the parts, until cancelled."""

    async def start(self) -> None:
        """Begin to follow; `unsynced` tells what has not arrived yet."""
        self.task = asyncio.create_task(self.run(), name=self.name)
        for part in self.parts:
            await part.start()

    async def stop(self) -> None:
        """Stop following. What is known stays so, but is not updated any more."""
        await cancelled([self.task])  # first, because it may start parts
        await asyncio.gather(*(part.stop() for part in self.parts))

    def reflectors(self) -> list[Reflector[Any]]:
        """What is followed now."""
        return [reflector for part in self.parts for reflector in part.reflectors()]

    def unsynced(self) -> list[str]:
        """What is not known yet, with reasons and remedies. Always empty after the first lists have arrived."""
        return [reason for part in self.parts for reason in part.unsynced()]

    def problems(self) -> list[str]:
        """What is not up to date, with reasons and remedies."""
        return [problem for part in self.parts for problem in part.problems()]


class Reflector(Following, Generic[ObjectT]):
    """Keeps a sink up to date with the objects of one kind.

    path: the path of their list. right: to grant where it is missing. silence: the longest wait for the next byte of a
    watch. noticed: called after a list has arrived, and after a failure. synced: set once the first list has arrived.
    problem: why the sink is not up to date; None if it is. status: the HTTP status of the problem; 0 if it was not an
    answer. fresh: when the API server last proved that the sink is up to date, by a list, an event, a bookmark or the
    start of a watch. heard: when it last answered at all, with an error of the request perhaps. Both are monotonic, and
    the start at first.
    """

    def __init__(
        self,
        api: Connection,
        resource: FollowedResource[ObjectT],
        path: str,
        sink: Sink[ObjectT],
        clock: Clock,
        *,
        right: str = "",
        silence: float = SILENCE_SECONDS,
        noticed: Callable[[], None] = lambda: None,
    ) -> None:
        self.resource = resource
        self.path = path
        self.synced = asyncio.Event()
        self.problem: str | None = None
        self.status = 0
        self.fresh = self.heard = clock.monotonic()
        self.name = resource.name
        self._api = api.watches
        self._right = right
        self._sink = sink
        self._clock = clock
        self._silence = silence
        self._noticed = noticed
        self._backoff = Backoff(clock)
        self._version = ""  # empty: a list is needed
        self._newest = ""  # the newest version that was seen; empty for none
        self._from_cache = True
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Follow until cancelled. No answer or failure of the API server ends it."""
        self._version = self._newest = ""
        self.fresh = self.heard = self._clock.monotonic()
        while True:
            pause = 0.0
            try:
                if not self._version:
                    await self._list()
                while await self._watch():
                    self._backoff.reset()
            except ClusterError as error:
                pause = error.retry_after
                if error.status in _LIST_AGAIN:
                    self._version = ""
                    pause = max(pause, SPREAD_SECONDS * self._clock.random())
                if 0 < error.status < 500:  # other errors may come from a proxy that cannot reach the API server either
                    self.heard = self._clock.monotonic()
                self.problem, self.status = str(error), error.status
                # Expired versions are normal.
                (self._log.info if error.status == 410 else self._log.warning)(
                    "watch failed", resource=self.resource.name, reason=self.problem, status=error.status
                )
                self._noticed()
            except Exception as error:  # noqa: BLE001 - one bad answer must not leave the facts stale for ever
                self.problem, self.status = f"unexpected: {error!r}", 0
                self._log.exception("watch failed", resource=self.resource.name)
                self._version = ""
            await self._backoff.wait(pause)

    @property
    def reason(self) -> str | None:
        """The problem with its remedy; None if there is none."""
        return f"{self.problem}; {self._right}" if self._right and self.status == 403 else self.problem

    def reflectors(self) -> list[Reflector[Any]]:
        """The reflector itself, unless the API server does not serve the kind."""
        return [self] if self.status != 404 else []

    def unsynced(self) -> list[str]:
        """Why nothing is known yet; empty after the first list, however old."""
        reason = self.reason or "waiting for the API server"
        return [] if self.synced.is_set() else [f"{self.resource.name}: first list not done: {reason}"]

    def problems(self) -> list[str]:
        """Why the sink is not up to date."""
        return [f"{self.resource.name}: {self.reason}"] if self.problem else []

    async def _list(self) -> None:
        objects, version = 0, ""
        # A list from the API server's watch cache may have any age at first. Later ones must not be older than what is
        # known, or facts would go back in time. If the cache has nothing as new, as after a restore of etcd, the
        # storage is asked. https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
        cached: tuple[tuple[str, str], ...] = ()
        if self.resource.cached and self._from_cache:
            newer = (("resourceVersion", self._newest), ("resourceVersionMatch", "NotOlderThan"))
            cached = newer if self._newest else (("resourceVersion", "0"),)
        query, size = (*self.resource.query, *cached), 0 if cached else self.resource.page
        self._sink.begin()
        try:
            async for page in pages(self._api, self.path, query, size):
                items = [item for raw in page.items or () if (item := self._read(raw)) is not None]
                self._sink.page(items)
                objects += len(items)
                version = page.metadata.resource_version
        except ClusterError as error:
            self._from_cache = error.status not in _NOT_IN_CACHE
            raise
        self._sink.complete()
        self._version = self._newest = version
        self._from_cache = True
        self._recovered()
        self._log.info("listed", resource=self.resource.name, objects=objects)
        self.synced.set()
        self._noticed()

    async def _watch(self) -> bool:
        """Handle events until the API server ends the watch. Return whether the watch worked."""
        query = (
            *self.resource.query,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(int(WATCH_SECONDS * (1 + self._clock.random())))),
        )
        call = Call("GET", self.path, query, seconds=None, silence=self._silence)
        lines = Lines()
        began = self._clock.monotonic()
        worked = False
        async with opened(self._api, call) as response:
            self._recovered()
            try:
                async for part in response.content.iter_any():
                    for line in lines.feed(part):
                        worked = self._take(line) or worked
            except TimeoutError:
                self._log.debug("watch was silent", resource=self.resource.name)
        return worked or self._clock.monotonic() - began >= SHORT_SECONDS

    def _take(self, line: bytes) -> bool:
        """Handle the event in a line. Return whether it was one. Raises ApiError for an event that ends the watch."""
        try:
            event = EVENT.decode(line)
        except UNREADABLE as error:
            self._skipped(error, len(line))
            return False
        if event.type == "ERROR":
            self._version = ""
            raise refused(f"to go on with the watch of {self.path}", 0, bytes(event.object))
        item = self._read(event.object)
        if item is None:
            return False
        if event.type != "BOOKMARK":
            self._sink.changed(event.type, item)
        self._version = self._newest = item.metadata.resource_version or self._version
        self._proved()
        return True

    def _read(self, raw: msgspec.Raw) -> ObjectT | None:
        """The decoded object; None if it cannot be decoded, so that it does not affect other objects."""
        try:
            return self.resource.decode(raw)
        except UNREADABLE as error:
            self._skipped(error, len(bytes(raw)))
            return None

    def _proved(self) -> None:
        self.fresh = self.heard = self._clock.monotonic()

    def _recovered(self) -> None:
        self._proved()
        if self.problem is not None:
            self._log.info("watch works again", resource=self.resource.name)
        self.problem, self.status = None, 0

    def _skipped(self, error: Exception, size: int) -> None:
        # No part of the object may appear in the log.
        self._log.error("object skipped", resource=self.resource.name, reason=str(error), bytes=size)


class Discovered(Following):
    """Base class: follows kinds as far as the API server serves them.

    called: what is asked about, in messages. seconds: how soon a new or removed CustomResourceDefinition is noticed.
    Nothing is asked while all watches work. decided: set once the API server has answered. undecided: why the last
    question failed; None if it was answered.
    """

    parts: Sequence[Reflector[Any]] = ()

    def __init__(self, called: str, clock: Clock, seconds: float) -> None:
        self.decided = asyncio.Event()
        self.undecided: str | None = None
        self._called = called
        self._clock = clock
        self._seconds = seconds
        self._backoff = Backoff(clock)
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Follow until cancelled. Check again what is served while a kind is not, or while a watch fails."""
        while True:
            if self._is_partial() or any(part.problem for part in self.parts):
                await self._look()
            await self._clock.sleep(self._seconds)

    def unsynced(self) -> list[str]:
        """Why not everything is known yet."""
        if self.decided.is_set():
            return super().unsynced()
        reason = self.undecided or "waiting for the API server"
        return [f"{self._called}: not known yet whether it is served: {reason}"]

    def problems(self) -> list[str]:
        """Why not everything is up to date, with remedies."""
        return [*([f"{self._called}: {self.undecided}"] if self.undecided else []), *super().problems()]

    def _is_partial(self) -> bool:
        """Whether a kind is not followed."""
        raise NotImplementedError

    async def _look(self) -> None:
        """Ask what is served, and follow that."""
        raise NotImplementedError

    async def _answer(self, question: Callable[[], Awaitable[T]]) -> T:
        """The answer to a question, which raises ClusterError if it has none; it is repeated until it has."""
        while True:
            try:
                answer = await question()
            except ClusterError as error:
                self.undecided = str(error)
                self._log.warning("discovery failed", about=self._called, reason=self.undecided)
                await self._backoff.wait(error.retry_after)
            else:
                self.undecided = None
                self._backoff.reset()
                return answer
