"""The look once a minute."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from structlog.testing import capture_logs
from support.api.times import Times
from support.patience import until

from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.patrol import FIRST_SECONDS, SECONDS, Patrol
from webhook.configuration.settings import SettingsError


class _Post:
    """What a patrol calls: looks that end in one outcome after the other, and whether they are due."""

    def __init__(self, due: list[bool], *outcomes: Exception | None) -> None:
        self.due = due
        self.outcomes = list(outcomes)
        self.rests = 0

    async def look(self) -> None:
        """Raise the next outcome, if it is an error."""
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome

    def is_due(self) -> bool:
        """The next answer."""
        return self.due.pop(0)

    def rest(self) -> None:
        """Count it."""
        self.rests += 1


async def _walk(post: _Post, times: Times) -> None:
    """Let a patrol ask as often as there are answers."""
    times.patience = len(post.due)
    patrol = Patrol(post.look, post.is_due, "not looked", times.clock, post.rest)
    task = asyncio.create_task(patrol.run())
    await until(lambda: times.patience < 0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_it_looks_each_minute_while_it_is_due(times: Times) -> None:
    """Until a look is due it asks every few seconds, and rests; after a look it waits for a minute."""
    post = _Post([False, False, True, True, False], None, None)

    await _walk(post, times)

    assert times.pauses == [*[FIRST_SECONDS] * 3, SECONDS, SECONDS, FIRST_SECONDS]
    assert (post.outcomes, post.rests) == ([], 3)


async def test_a_failure_is_logged_once(times: Times) -> None:
    """The same failure again is no news; another one is, and so is the same one after a success."""
    failures = [ClusterError("a"), ClusterError("a"), SettingsError("b"), None, SettingsError("b")]
    post = _Post([True] * 5, *failures)

    with capture_logs() as logs:
        await _walk(post, times)

    assert [(event["event"], event["reason"]) for event in logs] == [
        ("not looked", "a"),
        ("not looked", "b"),
        ("not looked", "b"),
    ]
