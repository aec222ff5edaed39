"""What can go wrong between the service and the API server; time and randomness, and pauses between attempts.

    ClusterError            the one to catch
    ├── UnreachableError    no answer: no connection, no valid certificate, or nothing in time
    └── ApiError            an answer that refuses: an HTTP status and the API server's own words

Messages are for people: what was tried, where, what came of it, and what to do about it where that is known.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from msgspec import Struct


class ClusterError(Exception):
    """The cluster cannot be reached, or did not do what it was asked.

    status: the HTTP status of the API server's answer; 0 without an answer. retry_after: the seconds that the API
    server asks to wait, or 0.
    """

    status = 0
    retry_after = 0.0

    def lacking(self, who: str) -> str:
        """The text, with the right to grant if one is missing. who: such as `a Role must allow X to get pods`."""
        return f"{self}; {who}" if self.status == 403 else str(self)


class UnreachableError(ClusterError):
    """The API server did not answer, or the answer was incomplete."""


class ApiError(ClusterError):
    """The API server answered with an error.

    more: where a list goes on whose continue token has expired; empty if it must begin again.
    """

    def __init__(self, message: str, status: int, retry_after: float = 0.0, more: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.more = more

    @property
    def leaving(self) -> bool:
        """Whether what was asked for, or its Namespace, is gone, or the Namespace is going with all that is in it."""
        return self.status == 404 or (self.status == 403 and "being terminated" in str(self))


# As client-go's reflector: short at first, for an API server that restarts, later long, to spare one in trouble.
FIRST_PAUSE = 0.8
LONGEST_PAUSE = 30.0


class Clock(Struct, frozen=True):
    """The date, a monotonic clock, a way to wait, and a random number from 0 to 1."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random


class Backoff:
    """Pauses that double up to a limit, each shortened by up to a half, so that replicas do not retry simultaneously.

    The client's own mechanisms are not used, because they give up: aiohttp-retry after a number of attempts of one
    request, `kubernetes.aio.utils.retry` at the longest pause.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pause = FIRST_PAUSE

    def reset(self) -> None:
        """Start with the shortest pause again, after a success."""
        self._pause = FIRST_PAUSE

    async def wait(self, at_least: float = 0.0) -> None:
        """Wait for the next pause, but at least as long as the other side asked for."""
        pause = self._pause * (1 + self._clock.random()) / 2
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        await self._clock.sleep(max(pause, at_least))
