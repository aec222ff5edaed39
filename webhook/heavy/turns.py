"""Turns at what only one may use at a time. Tenants take them fairly, so that each waits mostly for itself."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from webhook.heavy import fairness
from webhook.heavy.fairness import Claim, Use

WAITING = 128
WAITING_OF_ONE = 32


class NoTurnError(Exception):
    """There was no turn: too many wait, or the time was over."""


class Turn:
    """A turn, which begins now. end: called when the turn has to end; set by whoever has it."""

    def __init__(self, tenant: str, deadline: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.claim = Claim(tenant, self._loop.time(), deadline)
        self.end: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def end_at(self, moment: float) -> None:
        """End at a moment, instead of at an earlier choice of one. Infinite: for nobody."""
        if self._timer is not None:
            self._timer.cancel()
        if moment < math.inf and not self._ended:
            self._timer = self._loop.call_at(moment, self._end)

    def _end(self) -> None:
        self._ended = True
        self.end()


class Turns:
    """Gives turns to tenants, and within a tenant in the order of arrival."""

    def __init__(self) -> None:
        self._turn: Turn | None = None
        self._waiting: dict[Claim, asyncio.Future[Turn]] = {}
        self._use = Use()

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, tenant: str, deadline: float) -> AsyncIterator[Turn]:
        """A turn. deadline: a time of the event loop's clock. Raises NoTurnError."""
        if self._turn is None:
            turn = self._turn = Turn(tenant, deadline)
        else:
            turn = await self._place(tenant, deadline)
        try:
            yield turn
        finally:
            now = asyncio.get_running_loop().time()
            turn.end_at(math.inf)
            self._use.add(tenant, now - turn.claim.since, now)
            self._next()

    async def _place(self, tenant: str, deadline: float) -> Turn:
        """The turn that comes after a while."""
        of_one = sum(claim.tenant == tenant for claim in self._waiting)
        if self.waiting >= WAITING or of_one >= WAITING_OF_ONE:
            raise NoTurnError("too many reviews that take long wait already")
        loop = asyncio.get_running_loop()
        claim = Claim(tenant, loop.time(), deadline)
        place: asyncio.Future[Turn] = loop.create_future()
        self._waiting[claim] = place
        self._hurry()
        try:
            async with asyncio.timeout_at(deadline):
                return await place
        except BaseException as error:
            if place.done() and not place.cancelled():  # the turn came at the last moment
                place.result().end_at(math.inf)
                self._next()
            elif self._waiting.pop(claim, None) is not None:
                self._hurry()
            if isinstance(error, TimeoutError):
                raise NoTurnError("other reviews that take long came first, and then no time was left") from None
            raise

    def _queue(self) -> list[Claim]:
        return fairness.queue(self._waiting, self._use, asyncio.get_running_loop().time())

    def _hurry(self) -> None:
        """Let the turn end in time for those that wait."""
        if self._turn is not None:
            claim = self._turn.claim
            others = [other for other in self._queue() if other.tenant != claim.tenant]
            self._turn.end_at(fairness.end(claim, others, self._use, asyncio.get_running_loop().time()))

    def _next(self) -> None:
        """Give the turn to who comes first."""
        self._turn = None
        while self._waiting:
            claim = self._queue()[0]
            place = self._waiting.pop(claim)
            if not place.done():
                self._turn = Turn(claim.tenant, claim.deadline)
                place.set_result(self._turn)
                self._hurry()
                return
