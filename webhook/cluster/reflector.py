"""Follows the objects of one kind: a list, then a watch from there, again and again, as client-go's reflector does.

The client's own Watch is not used: it parses every event twice into Python objects, meets an expired version with one
retry from the same version instead of a list, and stops at a line of 4 MiB.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, Protocol, TypeVar

import msgspec
import structlog

from webhook.cluster.cache import Change
from webhook.cluster.call import Call, Lines, fetch, opened, refused
from webhook.cluster.clock import Backoff, Clock
from webhook.cluster.errors import ApiError, ClusterError
from webhook.cluster.objects import METADATA, METADATA_LIST, Metadata, Object, Resource

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", contravariant=True)

# A watch is ended by the API server after 5 to 10 minutes, each at its own time, so that a fleet does not come back at
# once and new API servers get their share. As client-go.
WATCH_SECONDS = 300
# Bookmarks come about once a minute. Two and a half without a byte: the connection is taken for dead.
SILENCE_SECONDS = 150.0
# A watch that ends sooner than this without any event does not work; the next one waits. As client-go.
SHORT_SECONDS = 1.0
# The version to watch from has expired, is unknown, or lies in the future (the cluster was restored from a backup).
_LIST_AGAIN = frozenset({400, 410, 504})
# Not an error of decoding alone: bytes that are no UTF-8 are a ValueError, nesting without end a RecursionError.
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class Sink(Protocol[T_contra]):
    """Where the objects go."""

    def replace(self, objects: Sequence[T_contra]) -> None:
        """These are all there are."""
        ...

    def changed(self, change: Change, item: T_contra) -> None:
        """One was added, modified or deleted."""
        ...


class _ListMetadata(Metadata, rename="camel"):
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_PAGE = msgspec.json.Decoder(_Page)
_EVENT = msgspec.json.Decoder(_Event)


class Reflector(Generic[T]):
    """Keeps a sink up to date with the objects of one kind.

    path: where they are listed. synced: set once the first list has arrived. problem: why the sink is not up to date,
    None when it is.
    """

    def __init__(self, api: ApiClient, resource: Resource[T], path: str, sink: Sink[T], clock: Clock) -> None:
        self.resource = resource
        self.path = path
        self.synced = asyncio.Event()
        self.problem: str | None = None
        self._api = api
        self._sink = sink
        self._clock = clock
        self._backoff = Backoff(clock)
        self._decoder = msgspec.json.Decoder(resource.type)
        self._version = ""  # empty: a list is needed
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Follow until cancelled. Nothing that the API server does or sends ends it."""
        self._version = ""
        while True:
            pause = 0.0
            try:
                await self._follow()
            except ClusterError as error:
                pause = self._failed(error)
            except Exception as error:  # noqa: BLE001 - one bad answer must not leave the facts stale for ever
                self.problem = f"unexpected: {error!r}"
                self._log.exception("watch failed", resource=self.resource.name)
                self._version = ""
            await self._backoff.wait(pause)

    def unsynced(self) -> list[str]:
        """Why nothing is known yet; empty after the first list, however old that is."""
        if self.synced.is_set():
            return []
        return [f"{self.resource.name}: first list not done: {self.problem or 'waiting for the API server'}"]

    async def _follow(self) -> None:
        """Watch for as long as that works, after a list if need be. Returns where a watch ends at once."""
        if not self._version:
            await self._list()
        while await self._watch():
            self._backoff.reset()

    async def _list(self) -> None:
        objects: list[T] = []
        more = ""
        while True:
            query = (("limit", str(self.resource.page)), *((("continue", more),) if more else ()))
            body = await fetch(self._api, Call("GET", self.path, query, accept=self._accept(METADATA_LIST)))
            try:
                page = _PAGE.decode(body)
            except _UNREADABLE as error:
                raise ClusterError(f"the answer to GET {self.path} is not a list: {error}") from error
            objects += [item for raw in page.items or () if (item := self._read(raw)) is not None]
            more = page.metadata.continue_
            if not more:
                break
        self._sink.replace(objects)
        self._version = page.metadata.resource_version
        self._recovered()
        self._log.info("listed", resource=self.resource.name, objects=len(objects))
        self.synced.set()

    async def _watch(self) -> bool:
        """Take events until the API server ends the watch; whether that worked."""
        seconds = int(WATCH_SECONDS * (1 + self._clock.random()))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        call = Call(
            "GET", self.path, tuple(query.items()), accept=self._accept(METADATA), seconds=None, silence=SILENCE_SECONDS
        )
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
        """Take the event of one line; whether it was one. Raises ApiError for an event that ends the watch."""
        try:
            event = _EVENT.decode(line)
        except _UNREADABLE as error:
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
        self._version = item.metadata.resource_version or self._version
        return True

    def _read(self, raw: msgspec.Raw) -> T | None:
        """An object, or None for one that cannot be read: what is known of the others must not depend on it."""
        try:
            return self._decoder.decode(raw)
        except _UNREADABLE as error:
            self._skipped(error, len(bytes(raw)))
            return None

    def _accept(self, metadata: str) -> str:
        return metadata if self.resource.metadata_only else "application/json"

    def _failed(self, error: ClusterError) -> float:
        """Note a failure; the pause that the API server asks for."""
        status = error.status if isinstance(error, ApiError) else 0
        if status in _LIST_AGAIN:
            self._version = ""
        self.problem = str(error)
        # Versions expire in the ordinary course of things.
        (self._log.info if status == 410 else self._log.warning)(
            "watch failed", resource=self.resource.name, reason=self.problem, status=status
        )
        return error.retry_after if isinstance(error, ApiError) else 0.0

    def _recovered(self) -> None:
        if self.problem is not None:
            self._log.info("watch works again", resource=self.resource.name)
        self.problem = None

    def _skipped(self, error: Exception, size: int) -> None:
        # Neither the object nor a part of it goes into the log.
        self._log.error("object skipped", resource=self.resource.name, reason=str(error), bytes=size)
