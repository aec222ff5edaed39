"""The release of the API server, and how old what is known of a cluster is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named, status
from support.api.times import Times
from support.patience import until

from policies.kubernetes.release import NEWEST, RELEASES
from webhook.cluster.api.client import Connection
from webhook.cluster.api.objects import NAMESPACES as NAMESPACE_RESOURCE
from webhook.cluster.api.objects import NODES as NODE_RESOURCE
from webhook.cluster.api.objects import name_of
from webhook.cluster.watches.cluster import ServedRelease, WatchAges
from webhook.cluster.watches.reflector import Cache, Following, Reflector, cancelled

_OLD, _NEW = RELEASES[:2]


def _serve(server: FakeApi, version: str) -> None:
    server.groups["/version"] = {"gitVersion": version}


async def _looked(server: FakeApi, served: ServedRelease, *versions: str) -> list[tuple[str, str]]:
    """The release and the version after each answer."""
    found = []
    for version in versions:
        _serve(server, version)
        await served.look()
        found.append((served.current.name, served.version))
    return found


async def test_an_upgrade_is_followed(server: FakeApi, api: Connection) -> None:
    """The first answer counts at once, another release once two answers in a row name it, another patch at once."""
    served = ServedRelease(api)
    versions = ("v1.36.3", "v1.36.4", "v1.37.2", "v1.36.4", "v1.37.2", "v1.37.2", "v1.36.4", "v1.36.4")

    with capture_logs() as logs:
        found = await _looked(server, served, *versions)

    early, old, new = ("1.36", "v1.36.3"), ("1.36", "v1.36.4"), ("1.37", "v1.37.2")
    assert found == [early, old, old, old, old, new, new, old]
    assert [(event["log_level"], event["release"], event["version"]) for event in logs] == [
        ("info", *each) for each in (early, old, new, old)
    ]
    assert (served.is_proven, served.problems()) == (True, [])


async def test_a_version_that_nothing_is_proven_for(server: FakeApi, api: Connection) -> None:
    """The nearest release counts; the log, the note and the metric say that it is not the same."""
    served = ServedRelease(api)

    with capture_logs() as logs:
        found = await _looked(server, served, "v1.35.9", "v1.38.0", "v1.38.0")

    doubt = "not proven, policies are judged as by 1.38.0-beta.0, the nearest release"
    assert found == [("1.36", "v1.35.9"), ("1.36", "v1.35.9"), ("1.38", "v1.38.0")]
    assert logs[-1] == {
        "event": "release of the API server",
        "log_level": "warning",
        "version": "v1.38.0",
        "release": "1.38",
        "reason": doubt,
    }
    assert (served.is_proven, served.problems()) == (False, [f"v1.38.0: {doubt}"])


async def test_a_release_that_the_settings_name(server: FakeApi, api: Connection) -> None:
    """It counts whatever the API server is, and is a doubt only where the two differ."""
    served = ServedRelease(api, _OLD)
    problems = []
    for version in ("v1.36.3", "v1.37.2", "v1.37.2"):
        await _looked(server, served, version)
        problems.append((served.current, served.is_proven, served.problems()))

    doubt = "v1.37.2: policies are judged as by 1.36, which policies.kubernetes names"
    assert problems == [(_OLD, True, []), (_OLD, False, [doubt]), (_OLD, False, [doubt])]


async def test_without_an_answer_the_newest_counts(server: FakeApi, api: Connection) -> None:
    """Whoever may not ask, or gets no version, judges as the newest release, says so, and waits for nothing."""
    served = ServedRelease(api)
    waiting = served.unsynced()
    server.fail("/version", 403, status(403, "no"))
    problems = []
    for answer in ("", "main"):
        _serve(server, answer)
        await served.look()
        problems += served.problems()

    assert (waiting, served.unsynced()) == (["version: the API server has not answered yet"], [])
    assert (served.current, served.version, served.is_proven) == (NEWEST, "", False)
    assert [problem.partition("; ")[2] for problem in problems] == ["policies are judged as by 1.37"] * 2
    assert ["(403: no)" in problems[0], "'main' is no version" in problems[1]] == [True, True]


HOUR = 3600.0
PATIENCE = 1800.0


class _Two(Following):
    def __init__(self, api: Connection, times: Times) -> None:
        self.namespaces = Reflector(api, NAMESPACE_RESOURCE, NAMESPACES, Cache(name_of, name_of), times.clock)
        self.nodes = Reflector(api, NODE_RESOURCE, NODES, Cache(name_of, name_of), times.clock)
        self.parts = self.namespaces, self.nodes
        self.ages = WatchAges([self], PATIENCE, times.clock)


@pytest.fixture
async def two(server: FakeApi, api: Connection, times: Times) -> AsyncIterator[_Two]:
    """Two watches that are open; whoever pauses waits until it is woken."""
    for path in (NAMESPACES, NODES):
        server.put(path, named("one"))
    times.patience = 0
    source = _Two(api, times)
    await source.start()
    for path in (NAMESPACES, NODES):
        await server.watched(path)
    await until(lambda: all(reflector.synced.is_set() for reflector in source.reflectors()))
    yield source
    await source.stop()


async def test_an_age_counts_from_the_last_word(server: FakeApi, two: _Two, times: Times) -> None:
    """Each kind has an age of its own, which ends with a bookmark; the API server is as silent as the youngest."""
    times.pass_by(100)
    server.send(NODES, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "777"}}})
    await until(lambda: two.nodes.fresh == times.seconds)
    times.pass_by(20)

    assert (dict(two.ages.ages()), two.ages.silence()) == ({"namespaces": 120.0, "nodes": 20.0}, 20.0)
    assert (two.ages.problems(), two.ages.unready()) == ([], [])


async def test_one_stale_watch_is_told(server: FakeApi, two: _Two, times: Times) -> None:
    """A watch that is refused for long is a note with its reason, and makes nothing unready: the API server answers."""
    server.fail(NAMESPACES, 403, status(403, "you may not"), times=99)
    times.pass_by(HOUR)
    server.put(NODES, named("two"))
    server.cut(NAMESPACES)
    await until(lambda: two.namespaces.problem and two.nodes.fresh == times.seconds)  # the connection broke
    times.wake()
    await until(lambda: two.namespaces.status == 403)

    refusal = f"the API server refused GET {NAMESPACES} at {server.url} (403: you may not)"
    assert two.ages.problems() == [f"namespaces: not known to be up to date for 3600 s: {refusal}"]
    assert two.ages.unready() == []


async def test_what_is_stale_is_logged_once_a_minute(two: _Two, times: Times) -> None:
    """A stale watch is a line of the log at each look, a minute apart, and its end is one."""
    times.patience = 3
    times.pauses.clear()
    times.pass_by(HOUR)
    with capture_logs() as logs:
        task = asyncio.create_task(two.ages.run())
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
