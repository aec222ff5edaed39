"""How old what is known of the cluster is, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named, status
from support.api.times import Times
from support.patience import until

from webhook.cluster.api.client import Connection
from webhook.cluster.api.objects import NAMESPACES as NAMESPACE_RESOURCE
from webhook.cluster.api.objects import NODES as NODE_RESOURCE
from webhook.cluster.api.objects import name_of
from webhook.cluster.watches.cluster import WatchAges
from webhook.cluster.watches.reflector import Cache, Reflector, cancelled, started

HOUR = 3600.0
PATIENCE = 1800.0


class Two:
    """A source that follows Namespaces and Nodes."""

    def __init__(self, api: Connection, times: Times) -> None:
        self.namespaces = Reflector(api, NAMESPACE_RESOURCE, NAMESPACES, Cache(name_of, name_of), times.clock)
        self.nodes = Reflector(api, NODE_RESOURCE, NODES, Cache(name_of, name_of), times.clock)

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """Both."""
        return self.namespaces, self.nodes


@pytest.fixture
async def two(server: FakeApi, api: Connection, times: Times) -> AsyncIterator[Two]:
    """Two watches that are open; whoever pauses waits until it is woken."""
    for path in (NAMESPACES, NODES):
        server.put(path, named("one"))
    times.patience = 0
    source = Two(api, times)
    tasks = started(source.reflectors())
    for path in (NAMESPACES, NODES):
        await server.watched(path)
    await until(lambda: all(reflector.synced.is_set() for reflector in source.reflectors()))
    yield source
    await cancelled(tasks)


@pytest.fixture
def ages(two: Two, times: Times) -> WatchAges:
    """The ages of the two."""
    return WatchAges([two], PATIENCE, times.clock)


async def test_an_age_counts_from_the_last_word(server: FakeApi, ages: WatchAges, two: Two, times: Times) -> None:
    """Each kind has an age of its own, which ends with a bookmark; the API server is as silent as the youngest."""
    times.pass_by(100)
    server.send(NODES, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "777"}}})
    await until(lambda: two.nodes.fresh == times.seconds)
    times.pass_by(20)

    assert (dict(ages.ages()), ages.silence()) == ({"namespaces": 120.0, "nodes": 20.0}, 20.0)
    assert (ages.problems(), ages.unready()) == ([], [])


async def test_one_stale_watch_is_told(server: FakeApi, ages: WatchAges, two: Two, times: Times) -> None:
    """A watch that is refused for long is a note with its reason, and makes nothing unready: the API server answers."""
    server.fail(NAMESPACES, 403, status(403, "you may not"), times=99)
    times.pass_by(HOUR)
    server.put(NODES, named("two"))
    server.cut(NAMESPACES)
    await until(lambda: two.namespaces.problem and two.nodes.fresh == times.seconds)  # the connection broke
    times.wake()
    await until(lambda: two.namespaces.status == 403)

    refusal = f"the API server refused GET {NAMESPACES} at {server.url} (403: you may not)"
    assert ages.problems() == [f"namespaces: not known to be up to date for 3600 s: {refusal}"]
    assert ages.unready() == []


async def test_what_is_stale_is_logged_once_a_minute(two: Two, ages: WatchAges, times: Times) -> None:
    """A stale watch is a line of the log at each look, a minute apart, and its end is one."""
    times.patience = 3
    times.pauses.clear()
    times.pass_by(HOUR)
    with capture_logs() as logs:
        task = asyncio.create_task(ages.run())
        await until(lambda: len(times.pauses) == 4)
        two.nodes._proved()
        two.namespaces._proved()
        await times.awake(lambda: len(logs) == 5)
        await cancelled([task])

    assert {*times.pauses} == {60.0}
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        *[("watches are stale", "warning")] * 4,
        ("watches are up to date again", "info"),
    ]
