"""Turns at what only one may use at a time. Tenants take turns, so that each waits mostly for itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

# How long a turn may take while other tenants wait.
SHARE = 2.0
WAITING = 128
WAITING_OF_ONE = 32


class NoTurnError(Exception):
    """There was no turn: too many wait, or the time was over."""


class Turn:
    """A turn of one tenant. end: called when the turn has to end; set by whoever has it."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.end: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._hurried: asyncio.TimerHandle | None = None

    def hurry(self) -> None:
        """Let the turn end after its share of time."""
        if self._hurried is None:
            self._hurried = self._loop.call_at(self._began + SHARE, self._end)

    def _end(self) -> None:
        self.end()

    def over(self) -> None:
        """Forget the turn's end."""
        if self._hurried is not None:
            self._hurried.cancel()


class Turns:
    """Gives turns to tenants, one after another, and within a tenant in the order of arrival."""

    def __init__(self) -> None:
        self._current: Turn | None = None
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def turn(self, tenant: str, deadline: float) -> AsyncIterator[Turn]:
        """A turn. deadline: a time of the event loop's clock. Raises NoTurnError."""
        if self._current is not None:
            await self._wait(tenant, deadline)
        turn = self._current = Turn(tenant)
        if any(other != tenant for other in self._queues):
            turn.hurry()
        try:
            yield turn
        finally:
            turn.over()
            self._current = None
            self._next()

    async def _wait(self, tenant: str, deadline: float) -> None:
        queue = self._queues.get(tenant, ())
        if len(queue) >= WAITING_OF_ONE or self.waiting >= WAITING:
            raise NoTurnError("too many reviews that take long wait already")
        if self._current is not None and self._current.tenant != tenant:
            self._current.hurry()
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(place)
        try:
            async with asyncio.timeout_at(deadline):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():  # the turn came at the last moment
                self._current = None
                self._next()
            else:
                self._leave(tenant, place)
            if isinstance(error, TimeoutError):
                raise NoTurnError("other reviews that take long came first, and then no time was left") from None
            raise

    def _leave(self, tenant: str, place: asyncio.Future[None]) -> None:
        queue = self._queues.get(tenant, deque())
        if place in queue:
            queue.remove(place)
        if not queue:
            self._queues.pop(tenant, None)

    def _next(self) -> None:
        """Give the turn to the tenant that has waited longest since its last one."""
        while self._queues:
            tenant, queue = next(iter(self._queues.items()))
            place = queue.popleft()
            del self._queues[tenant]
            if queue:
                self._queues[tenant] = queue
            if not place.done():
                self._current = Turn(tenant)  # nobody else may begin before the one who waits is run
                place.set_result(None)
                return
