"""The release of the API server: asked, followed through an upgrade, and what is said where nothing is proven."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs
from support.api.fakeapi import FakeApi, status
from support.api.times import Times
from support.patience import until

from policies.kubernetes.release import NEWEST, Release, named
from webhook.cluster.api.client import Connection
from webhook.cluster.watches.cluster import ServedRelease

_OLD, _NEW = named("1.36"), named("1.37")


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


async def test_who_follows_is_told_of_each_release(server: FakeApi, api: Connection, times: Times) -> None:
    """A change wakes whoever follows, once, and each question comes some seconds after the last."""
    _serve(server, "v1.36.3")
    served = ServedRelease(api, clock=times.clock)
    seen: list[Release] = []

    async def follow() -> None:
        async for _ in served.changes():
            seen[len(seen) :] = [served.current]

    following = asyncio.create_task(follow())
    await served.start()
    await until(lambda: seen == [_OLD])
    _serve(server, "v1.37.2")
    await until(lambda: seen == [_OLD, _NEW])
    await served.stop()
    following.cancel()

    assert (served.current, served.version, {*times.pauses}) == (_NEW, "v1.37.2", {10.0})
