from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named, status
from support.api.times import Times
from support.patience import PATIENCE, until

from webhook.cluster.api.client import Connection
from webhook.cluster.api.objects import NAMESPACES as NAMESPACE_RESOURCE
from webhook.cluster.api.objects import NODES as NODE_RESOURCE
from webhook.cluster.api.objects import NamespaceObject, Object
from webhook.cluster.watches.reflector import Change, Reflector


class Recorder:
    """Notes what arrives; each may be awaited."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, list[str]]] = asyncio.Queue()
        self.broken = 0

    def begin(self) -> None:
        """Begin a list."""
        self._listed: list[str] = []

    def page(self, objects: Sequence[Object]) -> None:
        """Take a part of a list."""
        self._listed += [item.metadata.name for item in objects]

    def complete(self) -> None:
        """Note a list."""
        self._note("LIST", self._listed)

    def changed(self, change: Change, item: Object) -> None:
        """Note an event."""
        self._note(change, [item.metadata.name])

    async def next(self) -> tuple[str, list[str]]:
        """Return what arrives next: LIST or the type of event, and names."""
        async with asyncio.timeout(PATIENCE):
            return await self.calls.get()

    def _note(self, what: str, names: list[str]) -> None:
        if self.broken:
            self.broken -= 1
            raise ZeroDivisionError
        self.calls.put_nowait((what, names))


@pytest.fixture
def recorder() -> Recorder:
    """Make a sink that notes."""
    return Recorder()


@pytest.fixture
def reflector(api: Connection, recorder: Recorder, times: Times) -> Reflector[NamespaceObject]:
    """Make a reflector of Namespaces."""
    return Reflector(api, NAMESPACE_RESOURCE, NAMESPACES, recorder, times.clock)


@asynccontextmanager
async def running(reflector: Reflector[Any]) -> AsyncIterator[None]:
    """Follow during the block; at its end, be cancelled."""
    task = asyncio.create_task(reflector.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


async def test_lists_in_pages_and_watches_from_there(
    server: FakeApi, api: Connection, recorder: Recorder, times: Times
) -> None:
    """Objects that may be large come in pages, and the watch starts at the version of the list."""
    for number in range(201):
        server.put(NODES, named(f"node-{number}"))

    async with running(Reflector(api, NODE_RESOURCE, NODES, recorder, times.clock)):
        _, names = await recorder.next()
        await server.watched(NODES)

    assert len(names) == 201
    assert server.lists(NODES) == [
        {"limit": "100"},
        {"limit": "100", "continue": "100"},
        {"limit": "100", "continue": "200"},
    ]
    assert server.watches(NODES) == [
        {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "301", "timeoutSeconds": "600"}
    ]


async def test_small_objects_come_from_the_watch_cache(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder
) -> None:
    """The first list of small objects may have any age; one after an expired version is at least as new as the last."""
    server.put(NAMESPACES, named("one"))

    async with running(reflector):
        await recorder.next()
        await server.watched(NAMESPACES)
        server.put(NAMESPACES, named("two"))
        await recorder.next()
        server.expired = "status"
        server.end(NAMESPACES)
        assert await recorder.next() == ("LIST", ["one", "two"])

    assert server.lists(NAMESPACES) == [
        {"resourceVersion": "0"},
        {"resourceVersion": "102", "resourceVersionMatch": "NotOlderThan"},
    ]


async def test_a_version_that_the_watch_cache_does_not_reach(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder
) -> None:
    """After a restore of etcd no cache is as new as what was known: the list then comes from the storage."""
    server.put(NAMESPACES, named("one"))

    async with running(reflector):
        await recorder.next()
        await server.watched(NAMESPACES)
        server.version = 50
        server.expired = "status"
        server.end(NAMESPACES)
        assert await recorder.next() == ("LIST", ["one"])

    assert server.lists(NAMESPACES)[1:] == [
        {"resourceVersion": "101", "resourceVersionMatch": "NotOlderThan"},
        {"limit": "500"},
    ]


async def test_lists_after_an_expired_version_are_spread(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder, times: Times
) -> None:
    """Processes whose versions expire simultaneously, as when the API server restarts, do not list simultaneously."""
    server.put(NAMESPACES, named("one"))
    times.chance = 0.5

    async with running(reflector):
        await recorder.next()
        await server.watched(NAMESPACES)
        server.expired = "status"
        times.pass_by(300)
        server.end(NAMESPACES)
        await recorder.next()

    assert times.pauses == [1.5]


async def test_proofs_of_life(server: FakeApi, reflector: Reflector[NamespaceObject], times: Times) -> None:
    """A list, an accepted watch, an event and a bookmark show that facts are up to date; a refusal only an answer."""
    server.put(NAMESPACES, named("one"))
    times.pass_by(10)

    async with running(reflector):
        await server.watched(NAMESPACES)
        began = times.seconds
        assert (reflector.fresh, reflector.heard) == (began, began)
        times.pass_by(10)
        server.put(NAMESPACES, named("two"))
        await until(lambda: reflector.fresh == began + 10)
        times.pass_by(10)
        server.send(NAMESPACES, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "777"}}})
        await until(lambda: reflector.fresh == began + 20)
        times.patience = 0
        times.pass_by(10)
        server.fail(NAMESPACES, 403, status(403, "no"))
        server.end(NAMESPACES)
        await until(lambda: reflector.heard == began + 30)
        assert reflector.fresh == began + 20
        times.pass_by(10)
        server.fail(NAMESPACES, 503, "not now")
        times.wake()
        await until(lambda: reflector.status == 503)
        assert (reflector.fresh, reflector.heard) == (began + 20, began + 30)


async def test_a_bookmark_moves_the_version(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder
) -> None:
    """A bookmark is no change, but the next watch starts from it, and at once."""
    server.put(NAMESPACES, named("one"))

    async with running(reflector):
        await recorder.next()
        await server.watched(NAMESPACES)
        server.send(NAMESPACES, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "777"}}})
        server.end(NAMESPACES)
        await server.watched(NAMESPACES)

    assert [query["resourceVersion"] for query in server.watches(NAMESPACES)] == ["101", "777"]
    assert recorder.calls.empty()


@pytest.mark.parametrize("how", ["status", "event"])
async def test_an_expired_version_means_a_new_list(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder, how: Any
) -> None:
    """Told that its version is gone, by HTTP status or in an event, it lists again: what was missed is not lost."""
    server.put(NAMESPACES, named("one"))

    async with running(reflector):
        assert await recorder.next() == ("LIST", ["one"])
        await server.watched(NAMESPACES)
        server.expired = how
        server.end(NAMESPACES)
        server.put(NAMESPACES, named("two"))
        assert await recorder.next() == ("LIST", ["one", "two"])
        await server.watched(NAMESPACES)
        assert reflector.problem is None


async def test_an_error_in_a_watch_means_a_new_list(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder
) -> None:
    """A watch that the API server ends with an error of any kind may have missed something, so it lists again."""
    server.put(NAMESPACES, named("one"))

    with capture_logs() as logs:
        async with running(reflector):
            await recorder.next()
            await server.watched(NAMESPACES)
            server.send(NAMESPACES, {"type": "ERROR", "object": status(500, "lost my way")})
            assert await recorder.next() == ("LIST", ["one"])

    assert [entry["reason"] for entry in logs if entry["event"] == "watch failed"] == [
        f"the API server refused to go on with the watch of {NAMESPACES} (500: lost my way)"
    ]


async def test_a_silent_watch_is_replaced(server: FakeApi, api: Connection, recorder: Recorder, times: Times) -> None:
    """A connection without a byte for too long is taken for dead: the next watch goes on, and it is no problem."""
    server.put(NAMESPACES, named("one"))
    reflector = Reflector(api, NAMESPACE_RESOURCE, NAMESPACES, recorder, times.clock, silence=0.5)

    with capture_logs() as logs:
        async with running(reflector):
            # A problem would be told between the two. Only an answer that does not even begin in time is one.
            silent = "watch was silent"

            def is_told_twice() -> bool:
                times.wake()  # after several such, the pause is a long one
                return (silent, silent) in pairwise(entry["event"] for entry in logs)

            await until(is_told_twice)

    assert len(server.lists(NAMESPACES)) == 1


async def test_running_again_starts_from_a_list(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder
) -> None:
    """After it was cancelled it may run again, at another path: what it knew of versions is of no use there."""
    server.put(NAMESPACES, named("one"))
    async with running(reflector):
        await server.watched(NAMESPACES)

    server.put("/new", named("two"))
    reflector.path = "/new"
    async with running(reflector):
        await server.watched("/new")

    assert [await recorder.next() for _ in range(2)] == [("LIST", ["one"]), ("LIST", ["two"])]


async def test_a_dropped_connection_costs_nothing(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder, times: Times
) -> None:
    """When the connection breaks, the watch goes on from the last event after a pause, without a new list."""
    server.put(NAMESPACES, named("one"))

    with capture_logs() as logs:
        async with running(reflector):
            await recorder.next()
            await server.watched(NAMESPACES)
            server.put(NAMESPACES, named("two"))
            assert await recorder.next() == ("ADDED", ["two"])
            server.cut(NAMESPACES)
            server.put(NAMESPACES, named("three"))
            assert await recorder.next() == ("ADDED", ["three"])

    assert [entry["reason"] for entry in logs if entry["event"] == "watch failed"] == [
        f"the API server's answer to GET {NAMESPACES} at {server.url} broke off"
    ]
    assert [query["resourceVersion"] for query in server.watches(NAMESPACES)] == ["101", "102"]
    assert len(server.lists(NAMESPACES)) == 1
    assert times.pauses == [0.8]


async def test_a_huge_event_arrives(server: FakeApi, api: Connection, recorder: Recorder, times: Times) -> None:
    """A line of 9 MB, over twice the limit of the response's own readline, is an event like any other."""
    server.put(NODES, named("small"))
    images = [{"names": [f"registry.example.com/image-{number:0100}"], "sizeBytes": 1} for number in range(60_000)]

    async with running(Reflector(api, NODE_RESOURCE, NODES, recorder, times.clock)):
        await recorder.next()
        await server.watched(NODES)
        server.put(NODES, named("huge", status={"images": images}))
        assert await recorder.next() == ("ADDED", ["huge"])
        server.put(NODES, named("after"))
        assert await recorder.next() == ("ADDED", ["after"])

    assert len(json.dumps(images)) > 9_000_000
    assert len(server.watches(NODES)) == 1


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"<html>", id="not JSON"),
        pytest.param(b"", id="an empty line"),
        pytest.param(b'{"type": "ADDED", "object": {"metadata"', id="cut off"),
        pytest.param(b'{"type": "ADDED", "object": {"metadata": {"name": "\xff"}}}', id="not UTF-8"),
        pytest.param(b'{"type": "ADDED", "object": {"metadata": {"labels": []}}}', id="labels of a wrong type"),
        pytest.param(b'{"type": "ADDED", "object": {}}', id="no metadata"),
        pytest.param(b'{"type": "INVENTED", "object": {"metadata": {}}}', id="an unknown type"),
        pytest.param(b'{"type": "ADDED", "object": ' + b"[" * 100_000, id="nesting without end"),
        pytest.param(b"[]", id="a list"),
    ],
)
async def test_a_bad_event_is_skipped(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder, line: bytes
) -> None:
    """A line that is no event is logged without its content, and the same watch goes on."""
    server.put(NAMESPACES, named("one"))

    with capture_logs() as logs:
        async with running(reflector):
            await recorder.next()
            await server.watched(NAMESPACES)
            server.send(NAMESPACES, line)
            server.put(NAMESPACES, named("two"))
            assert await recorder.next() == ("ADDED", ["two"])

    assert len(server.watches(NAMESPACES)) == 1
    skipped = [entry for entry in logs if entry["event"] == "object skipped"]
    assert [(entry["resource"], entry["log_level"]) for entry in skipped] == [("namespaces", "error")]


async def test_a_bad_object_does_not_cost_the_list(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder
) -> None:
    """An object that cannot be read is left out of a list; all the others are there."""
    server.put(NAMESPACES, named("one"))
    server.put(NAMESPACES, {"metadata": {"name": "odd", "labels": {"a": 1}}})
    server.put(NAMESPACES, named("two"))

    async with running(reflector):
        assert await recorder.next() == ("LIST", ["one", "two"])


async def test_an_error_is_told_and_forgotten(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder, times: Times
) -> None:
    """A refusal is the problem, in the API server's own words, until the list works."""
    server.put(NAMESPACES, named("one"))
    server.fail(NAMESPACES, 403, status(403, 'User "x" cannot list resource "namespaces"'))
    times.patience = 0

    async with running(reflector):
        await until(lambda: reflector.problem)
        refusal = f"the API server refused GET {NAMESPACES} at {server.url}"
        words = f'{refusal} (403: User "x" cannot list resource "namespaces")'
        assert (reflector.problem, reflector.unsynced()) == (words, [f"namespaces: first list not done: {words}"])
        times.wake()
        assert await recorder.next() == ("LIST", ["one"])
        assert reflector.problem is None


async def test_pauses_grow_and_shrink(server: FakeApi, reflector: Reflector[NamespaceObject], times: Times) -> None:
    """Pauses double from 0.8 to 30 s, and begin anew once a watch has worked."""
    server.put(NAMESPACES, named("one"))
    server.fail(NAMESPACES, 503, "no", times=8)

    async with running(reflector):
        await server.watched(NAMESPACES)
        server.put(NAMESPACES, named("two"))
        server.end(NAMESPACES)
        server.fail(NAMESPACES, 503, "no")
        await until(lambda: len(server.watches(NAMESPACES)) == 3)

    assert times.pauses == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 0.8]


async def test_chance_shortens_a_pause_by_half_at_most(
    server: FakeApi, reflector: Reflector[NamespaceObject], times: Times
) -> None:
    """Replicas do not come back at the same time."""
    server.put(NAMESPACES, named("one"))
    server.fail(NAMESPACES, 503, "no")
    times.chance = 0.0

    async with running(reflector):
        await server.watched(NAMESPACES)

    assert times.pauses == [0.4]


@pytest.mark.parametrize(
    ("headers", "details"),
    [
        pytest.param({"Retry-After": "7"}, {}, id="as a header"),
        pytest.param({}, {"retryAfterSeconds": 7}, id="in the Status"),
    ],
)
async def test_waits_as_long_as_asked_to(
    server: FakeApi,
    reflector: Reflector[NamespaceObject],
    times: Times,
    headers: dict[str, str],
    details: dict[str, int],
) -> None:
    """An API server that has too much to do says when to come again."""
    server.put(NAMESPACES, named("one"))
    server.fail(NAMESPACES, 429, status(429, "busy", details=details), headers=headers)

    async with running(reflector):
        await server.watched(NAMESPACES)

    assert times.pauses == [7.0]


async def test_a_watch_that_ends_at_once_is_not_repeated_at_once(
    server: FakeApi, reflector: Reflector[NamespaceObject], times: Times
) -> None:
    """A watch that ends without an event is followed by a pause, unless it lasted a while."""
    server.put(NAMESPACES, named("one"))

    async with running(reflector):
        await server.watched(NAMESPACES)
        server.end(NAMESPACES)
        await server.watched(NAMESPACES)
        assert times.pauses == [0.8]
        times.pass_by(300)
        server.end(NAMESPACES)
        await server.watched(NAMESPACES)

    assert times.pauses == [0.8]


async def test_a_failing_sink_does_not_end_it(
    server: FakeApi, reflector: Reflector[NamespaceObject], recorder: Recorder
) -> None:
    """An error that nobody thought of is logged, and everything is listed again."""
    server.put(NAMESPACES, named("one"))

    with capture_logs() as logs:
        async with running(reflector):
            await recorder.next()
            await server.watched(NAMESPACES)
            recorder.broken = 1
            server.put(NAMESPACES, named("two"))
            assert await recorder.next() == ("LIST", ["one", "two"])

    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["watch failed"]


@pytest.mark.parametrize(
    "body", [pytest.param("<html>", id="HTML"), pytest.param({"kind": "NamespaceList"}, id="no metadata")]
)
async def test_a_list_that_is_none(
    server: FakeApi, reflector: Reflector[NamespaceObject], times: Times, body: Any
) -> None:
    """An answer of something that is no API server is a problem in words, not an empty cluster."""
    server.fail(NAMESPACES, 200, body)
    times.patience = 0

    async with running(reflector):
        await until(lambda: reflector.problem)

    assert f"the answer to GET {NAMESPACES} is not a list" in (reflector.problem or "")
    assert not reflector.synced.is_set()
