"""A look at the cluster once a minute, by the process that leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

import structlog

from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.configuration.settings import Settings, SettingsError

SECONDS: Final = 60.0
FIRST_SECONDS: Final = 5.0
"""The pause at the start, and until a look is due."""


class PeriodicCheck:
    """Base class: looks again and again while that is due. A failure is logged once, until there is another.

    failure: the log event. settings: returns the current ones. leading: whether this process leads.
    """

    failure = ""

    def __init__(self, settings: Callable[[], Settings], leading: Callable[[], bool], clock: Clock | None) -> None:
        self._settings = settings
        self._leading = leading
        self._clock = clock or Clock()
        self._problem = ""
        self._log = structlog.get_logger()

    async def look(self) -> None:
        """Look once. Raises ClusterError and SettingsError."""

    def _is_due(self) -> bool:
        return self._leading()

    def _rest(self) -> None:
        """Called in place of a look while none is due."""

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        pause = FIRST_SECONDS
        while True:
            await self._clock.sleep(pause)
            if self._is_due():
                await self._tried()
                pause = SECONDS
            else:
                self._rest()
                pause = FIRST_SECONDS

    async def _tried(self) -> None:
        try:
            await self.look()
        except (ClusterError, SettingsError) as error:
            if str(error) != self._problem:
                self._log.warning(self.failure, reason=str(error))
            self._problem = str(error)
        else:
            self._problem = ""
