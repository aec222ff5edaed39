"""Follows the objects of one kind with a list and then watches, as client-go's reflector does.

The client's own Watch is not used: it parses every event twice into Python objects, retries once from an expired
version instead of listing again, and fails at lines over 4 MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

import msgspec
import structlog

from webhook.cluster.api.call import Call, opened, refused
from webhook.cluster.api.clock import Backoff, Clock
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.api.objects import FollowedResource, Object
from webhook.cluster.api.pages import pages
from webhook.cluster.api.wire import EVENT, UNREADABLE, Lines
from webhook.cluster.watches.cache import Pages, PageSink, Sink

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

T = TypeVar("T", bound=Object)

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


class Reflector(Generic[T]):
    """Keeps a sink up to date with the objects of one kind.

    path: the path of their list. silence: the longest wait for the next byte of a watch. noticed: called after a list
    has arrived, and after a failure. synced: set once the first list has arrived. problem: why the sink is not up to
    date; None if it is. status: the HTTP status of the problem; 0 if it was not an answer. fresh: when the API server
    last proved that the sink is up to date, by a list, an event, a bookmark or the start of a watch. heard: when it
    last answered at all, with an error of the request perhaps. Both are monotonic, and the start at first.
    """

    def __init__(
        self,
        api: Connection,
        resource: FollowedResource[T],
        path: str,
        sink: Sink[T] | PageSink[T],
        clock: Clock,
        *,
        silence: float = SILENCE_SECONDS,
        noticed: Callable[[], None] = lambda: None,
    ) -> None:
        self.resource = resource
        self.path = path
        self.synced = asyncio.Event()
        self.problem: str | None = None
        self.status = 0
        self.fresh = self.heard = clock.monotonic()
        self._api = api.watches
        self._sink = sink if isinstance(sink, PageSink) else Pages(sink)
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
                await self._follow()
            except ClusterError as error:
                pause = self._failed(error)
                self._noticed()
            except Exception as error:  # noqa: BLE001 - one bad answer must not leave the facts stale for ever
                self.problem, self.status = f"unexpected: {error!r}", 0
                self._log.exception("watch failed", resource=self.resource.name)
                self._version = ""
            await self._backoff.wait(pause)

    def unsynced(self) -> list[str]:
        """Why nothing is known yet; empty after the first list, however old it is."""
        if self.synced.is_set():
            return []
        return [f"{self.resource.name}: first list not done: {self.problem or 'waiting for the API server'}"]

    async def _follow(self) -> None:
        """List if necessary, then watch as long as that works. Returns when a watch ends at once."""
        if not self._version:
            await self._list()
        while await self._watch():
            self._backoff.reset()

    async def _list(self) -> None:
        objects, version = 0, ""
        cached = self._cached()
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

    def _cached(self) -> tuple[tuple[str, str], ...]:
        """The parameters of a list from the API server's watch cache; none for one from its storage.

        The first may have any age. Later ones must not be older than what is known, or facts would go back in time. If
        the cache has nothing as new, as after a restore of etcd, the storage is asked.
        https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
        """
        if not self.resource.cached or not self._from_cache:
            return ()
        if not self._newest:
            return (("resourceVersion", "0"),)
        return (("resourceVersion", self._newest), ("resourceVersionMatch", "NotOlderThan"))

    async def _watch(self) -> bool:
        """Handle events until the API server ends the watch. Return whether the watch worked."""
        seconds = int(WATCH_SECONDS * (1 + self._clock.random()))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        whole_query = (*self.resource.query, *query.items())
        call = Call("GET", self.path, whole_query, seconds=None, silence=self._silence)
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

    def _read(self, raw: msgspec.Raw) -> T | None:
        """The decoded object; None if it cannot be decoded, so that it does not affect other objects."""
        try:
            return self.resource.decode(raw)
        except UNREADABLE as error:
            self._skipped(error, len(bytes(raw)))
            return None

    def _failed(self, error: ClusterError) -> float:
        """Note a failure. Return the shortest pause: what the API server asks for, and a random one before a list."""
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
        return pause

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
