"""Time and randomness as arguments, and the pauses between attempts."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from msgspec import Struct

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
