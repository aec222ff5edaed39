"""A look at the cluster once a minute, by the process that leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import structlog

from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.configuration.settings import SettingsError

SECONDS: Final = 60.0
FIRST_SECONDS: Final = 5.0
"""The pause at the start, and until a look is due."""


class Patrol:
    """Looks again and again while that is due. A failure is logged once, until there is another.

    look: may raise ClusterError and SettingsError. due: whether this process should look now. failure: the log event.
    rest: called in place of a look while none is due.
    """

    def __init__(
        self,
        look: Callable[[], Awaitable[None]],
        due: Callable[[], bool],
        failure: str,
        clock: Clock,
        rest: Callable[[], object] = lambda: None,
    ) -> None:
        self._look = look
        self._due = due
        self._failure = failure
        self._clock = clock
        self._rest = rest
        self._problem = ""
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        pause = FIRST_SECONDS
        while True:
            await self._clock.sleep(pause)
            if self._due():
                await self._tried()
                pause = SECONDS
            else:
                self._rest()
                pause = FIRST_SECONDS

    async def _tried(self) -> None:
        try:
            await self._look()
        except (ClusterError, SettingsError) as error:
            if str(error) != self._problem:
                self._log.warning(self._failure, reason=str(error))
            self._problem = str(error)
        else:
            self._problem = ""
