"""A clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from support.patience import until

from webhook.cluster.api.errors import Clock

A_MINUTE = 60.0


class Times:
    """Clocks that stand still until they are moved, and pauses that are recorded and take no time.

    Pauses of over a minute last until `wake` is called; so do all once `patience` of them were taken.
    """

    def __init__(self) -> None:
        self.date = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
        self.seconds = 1000.0
        self.chance = 1.0
        self.pauses: list[float] = []
        self.patience = 1000
        self._morning = asyncio.Event()

    @property
    def clock(self) -> Clock:
        """These times as an argument."""
        return Clock(lambda: self.date, lambda: self.seconds, self._sleep, lambda: self.chance)

    def pass_by(self, seconds: float) -> None:
        """Move the clocks forward."""
        self.seconds += seconds
        self.date += timedelta(seconds=seconds)

    def wake(self) -> None:
        """End the pauses that are under way."""
        self._morning.set()
        self._morning = asyncio.Event()

    async def awake(self, probe: Callable[[], object]) -> None:
        """Wait until something holds, and end all pauses meanwhile."""

        def woken() -> object:
            self.wake()
            return probe()

        await until(woken)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.patience -= 1
        if seconds > A_MINUTE or self.patience < 0:
            await self._morning.wait()
        await asyncio.sleep(0)
