"""The look once a minute."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from structlog.testing import capture_logs
from support.api.times import Times
from support.patience import until
from support.service.servers import leader

from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.checks import FIRST_SECONDS, SECONDS, PeriodicCheck
from webhook.configuration.settings import SettingsError


class _Walk(PeriodicCheck):
    """Looks that end in one outcome after the other, while they are due."""

    failure = "not looked"

    def __init__(self, api: Connection, times: Times, due: list[bool], *outcomes: Exception | None) -> None:
        super().__init__(leader(api, clock=times.clock))
        self.due = due
        self.outcomes = list(outcomes)
        self.rests = 0
        self._times = times

    async def look(self) -> None:
        """Raise the next outcome, if it is an error."""
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome

    def _is_due(self) -> bool:
        return self.due.pop(0)

    def _rest(self) -> None:
        self.rests += 1

    async def end(self) -> None:
        """Ask as often as there are answers."""
        self._times.patience = len(self.due)
        task = asyncio.create_task(self.run())
        await until(lambda: self._times.patience < 0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_it_looks_each_minute_while_it_is_due(api: Connection, times: Times) -> None:
    """Until a look is due it asks every few seconds, and rests; after a look it waits for a minute."""
    walk = _Walk(api, times, [False, False, True, True, False], None, None)

    await walk.end()

    assert times.pauses == [*[FIRST_SECONDS] * 3, SECONDS, SECONDS, FIRST_SECONDS]
    assert (walk.outcomes, walk.rests) == ([], 3)


async def test_a_failure_is_logged_once(api: Connection, times: Times) -> None:
    """The same failure again is no news; another one is, and so is the same one after a success."""
    failures = [ClusterError("a"), ClusterError("a"), SettingsError("b"), None, SettingsError("b")]
    walk = _Walk(api, times, [True] * 5, *failures)

    with capture_logs() as logs:
        await walk.end()

    assert [(event["event"], event["reason"]) for event in logs] == [
        ("not looked", "a"),
        ("not looked", "b"),
        ("not looked", "b"),
    ]
