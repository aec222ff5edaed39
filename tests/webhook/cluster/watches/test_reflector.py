"""A list and then a watch keep a sink up to date, whatever the API server and the network do."""

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

Spaces = Reflector[NamespaceObject]


class _Recorder:
    """Notes what arrives; each may be awaited."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, list[str]]] = asyncio.Queue()
        self.broken = 0

    def begin(self) -> None:
        self._listed: list[str] = []

    def page(self, objects: Sequence[Object]) -> None:
        self._listed += [item.metadata.name for item in objects]

    def complete(self) -> None:
        self._note("LIST", self._listed)

    def changed(self, change: Change, item: Object) -> None:
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
def recorder() -> _Recorder:
    """Make a sink that notes."""
    return _Recorder()


@pytest.fixture
def reflector(server: FakeApi, api: Connection, recorder: _Recorder, times: Times) -> Spaces:
    """Make a reflector of Namespaces, of which there is one."""
    server.put(NAMESPACES, named("one"))
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


@pytest.fixture
async def watch(server: FakeApi, reflector: Spaces, recorder: _Recorder) -> AsyncIterator[Spaces]:
    """The reflector, whose list has arrived and whose watch is open."""
    async with running(reflector):
        assert await recorder.next() == ("LIST", ["one"])
        await server.watched(NAMESPACES)
        yield reflector


BOOKMARK = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "777"}}}


async def test_lists_in_pages_and_watches_from_there(
    server: FakeApi, api: Connection, recorder: _Recorder, times: Times
) -> None:
    """Objects that may be large come in pages, and the watch starts at the version of the list."""
    for number in range(201):
        server.put(NODES, named(f"node-{number}"))

    async with running(Reflector(api, NODE_RESOURCE, NODES, recorder, times.clock)):
        _, names = await recorder.next()
        await server.watched(NODES)

    assert len(names) == 201
    more = [{"limit": "100", "continue": start} for start in ("100", "200")]
    assert server.lists(NODES) == [{"limit": "100"}, *more]
    assert server.watches(NODES) == [
        {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "301", "timeoutSeconds": "600"}
    ]


async def test_small_objects_come_from_the_watch_cache(server: FakeApi, watch: Spaces, recorder: _Recorder) -> None:
    """The first list may have any age; one after an expired version (a refusal, an event) is as new as the last."""
    server.put(NAMESPACES, named("two"))
    await recorder.next()
    for server.version in (102, 50):
        server.expired = "status" if server.version == 102 else "event"
        server.end(NAMESPACES)
        assert await recorder.next() == ("LIST", ["one", "two"])
        await server.watched(NAMESPACES)
        assert watch.problem is None

    # After a restore of etcd no cache is as new as what was known: the list then comes from the storage.
    cached = {"resourceVersion": "102", "resourceVersionMatch": "NotOlderThan"}
    assert server.lists(NAMESPACES) == [{"resourceVersion": "0"}, cached, cached, {"limit": "500"}]


@pytest.mark.usefixtures("watch")
async def test_lists_after_an_expired_version_are_spread(server: FakeApi, recorder: _Recorder, times: Times) -> None:
    """Processes whose versions expire simultaneously, as when the API server restarts, do not list simultaneously."""
    times.chance = 0.5
    server.expired = "status"
    times.pass_by(300)
    server.end(NAMESPACES)
    await recorder.next()

    assert times.pauses == [1.5]


async def test_proofs_of_life(server: FakeApi, watch: Spaces, times: Times) -> None:
    """A list, an accepted watch, an event and a bookmark show that facts are up to date; a refusal only an answer."""
    began = times.seconds
    assert (watch.fresh, watch.heard) == (began, began)
    times.pass_by(10)
    server.put(NAMESPACES, named("two"))
    await until(lambda: watch.fresh == began + 10)
    times.pass_by(10)
    server.send(NAMESPACES, BOOKMARK)
    await until(lambda: watch.fresh == began + 20)
    times.patience = 0
    times.pass_by(10)
    server.fail(NAMESPACES, 403, status(403, "no"))
    server.end(NAMESPACES)
    await until(lambda: watch.heard == began + 30)
    assert watch.fresh == began + 20
    times.pass_by(10)
    server.fail(NAMESPACES, 503, "not now")
    times.wake()
    await until(lambda: watch.status == 503)
    assert (watch.fresh, watch.heard) == (began + 20, began + 30)


@pytest.mark.usefixtures("watch")
async def test_a_bookmark_moves_the_version(server: FakeApi, recorder: _Recorder) -> None:
    """A bookmark is no change, but the next watch starts from it, and at once."""
    server.send(NAMESPACES, BOOKMARK)
    server.end(NAMESPACES)
    await server.watched(NAMESPACES)

    assert [query["resourceVersion"] for query in server.watches(NAMESPACES)] == ["101", "777"]
    assert recorder.calls.empty()


@pytest.mark.usefixtures("watch")
async def test_an_error_in_a_watch_means_a_new_list(server: FakeApi, recorder: _Recorder) -> None:
    """A watch that the API server ends with an error of any kind may have missed something, so it lists again."""
    with capture_logs() as logs:
        server.send(NAMESPACES, {"type": "ERROR", "object": status(500, "lost my way")})
        assert await recorder.next() == ("LIST", ["one"])

    assert [entry["reason"] for entry in logs if entry["event"] == "watch failed"] == [
        f"the API server refused to go on with the watch of {NAMESPACES} (500: lost my way)"
    ]


async def test_a_silent_watch_is_replaced(server: FakeApi, api: Connection, recorder: _Recorder, times: Times) -> None:
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


async def test_running_again_starts_from_a_list(server: FakeApi, reflector: Spaces, recorder: _Recorder) -> None:
    """After it was cancelled it may run again, at another path: what it knew of versions is of no use there."""
    server.put("/new", named("two"))
    for reflector.path in (NAMESPACES, "/new"):
        async with running(reflector):
            await server.watched(reflector.path)

    assert [await recorder.next() for _ in range(2)] == [("LIST", ["one"]), ("LIST", ["two"])]


@pytest.mark.usefixtures("watch")
async def test_a_dropped_connection_costs_nothing(server: FakeApi, recorder: _Recorder, times: Times) -> None:
    """When the connection breaks, the watch goes on from the last event after a pause, without a new list."""
    with capture_logs() as logs:
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


@pytest.mark.usefixtures("watch")
async def test_a_huge_event_arrives(server: FakeApi, recorder: _Recorder) -> None:
    """A line of 9 MB, over twice the limit of the response's own readline, is an event like any other."""
    images = [{"names": [f"registry.example.com/image-{number:0100}"], "sizeBytes": 1} for number in range(60_000)]
    server.put(NAMESPACES, named("huge", status={"images": images}))
    assert await recorder.next() == ("ADDED", ["huge"])
    server.put(NAMESPACES, named("after"))
    assert await recorder.next() == ("ADDED", ["after"])

    assert len(json.dumps(images)) > 9_000_000
    assert len(server.watches(NAMESPACES)) == 1


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
@pytest.mark.usefixtures("watch")
async def test_a_bad_event_is_skipped(server: FakeApi, recorder: _Recorder, line: bytes) -> None:
    """A line that is no event is logged without its content, and the same watch goes on."""
    with capture_logs() as logs:
        server.send(NAMESPACES, line)
        server.put(NAMESPACES, named("two"))
        assert await recorder.next() == ("ADDED", ["two"])

    assert len(server.watches(NAMESPACES)) == 1
    skipped = [entry for entry in logs if entry["event"] == "object skipped"]
    assert [(entry["resource"], entry["log_level"]) for entry in skipped] == [("namespaces", "error")]


async def test_a_bad_object_does_not_cost_the_list(server: FakeApi, reflector: Spaces, recorder: _Recorder) -> None:
    """An object that cannot be read is left out of a list; all the others are there."""
    server.put(NAMESPACES, {"metadata": {"name": "odd", "labels": {"a": 1}}})
    server.put(NAMESPACES, named("two"))

    async with running(reflector):
        assert await recorder.next() == ("LIST", ["one", "two"])


async def test_pauses_grow_and_shrink(server: FakeApi, reflector: Spaces, times: Times) -> None:
    """Pauses double from 0.8 to 30 s, and begin anew once a watch has worked."""
    server.fail(NAMESPACES, 503, "no", times=8)

    async with running(reflector):
        await server.watched(NAMESPACES)
        server.put(NAMESPACES, named("two"))
        server.end(NAMESPACES)
        server.fail(NAMESPACES, 503, "no")
        await until(lambda: len(server.watches(NAMESPACES)) == 3)

    assert times.pauses == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 0.8]


@pytest.mark.parametrize(
    ("code", "headers", "details", "chance", "pause"),
    [
        pytest.param(503, {}, {}, 0.0, 0.4, id="replicas do not come back at the same time"),
        pytest.param(429, {"Retry-After": "7"}, {}, 1.0, 7.0, id="asked for in a header"),
        pytest.param(429, {}, {"retryAfterSeconds": 7}, 1.0, 7.0, id="asked for in the Status"),
    ],
)
async def test_how_long_a_pause_is(
    server: FakeApi,
    reflector: Spaces,
    times: Times,
    code: int,
    headers: dict[str, str],
    details: dict[str, int],
    chance: float,
    pause: float,
) -> None:
    """Chance shortens a pause by half at most; an API server that has too much to do says when to come again."""
    server.fail(NAMESPACES, code, status(code, "busy", details=details), headers=headers)
    times.chance = chance

    async with running(reflector):
        await server.watched(NAMESPACES)

    assert times.pauses == [pause]


@pytest.mark.usefixtures("watch")
async def test_a_watch_that_ends_at_once_is_not_repeated_at_once(server: FakeApi, times: Times) -> None:
    """A watch that ends without an event is followed by a pause, unless it lasted a while."""
    for seconds in (0, 300):
        times.pass_by(seconds)
        server.end(NAMESPACES)
        await server.watched(NAMESPACES)
        assert times.pauses == [0.8]


@pytest.mark.usefixtures("watch")
async def test_a_failing_sink_does_not_end_it(server: FakeApi, recorder: _Recorder) -> None:
    """An error that nobody thought of is logged, and everything is listed again."""
    with capture_logs() as logs:
        recorder.broken = 1
        server.put(NAMESPACES, named("two"))
        assert await recorder.next() == ("LIST", ["one", "two"])

    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["watch failed"]


@pytest.mark.parametrize("body", ["<html>", {"kind": "NamespaceList"}], ids=["HTML", "no metadata"])
async def test_a_list_that_is_none(server: FakeApi, reflector: Spaces, times: Times, body: Any) -> None:
    """An answer of something that is no API server is a problem in words, not an empty cluster."""
    server.fail(NAMESPACES, 200, body)
    times.patience = 0

    async with running(reflector):
        await until(lambda: reflector.problem)

    assert f"the answer to GET {NAMESPACES} is not a list" in (reflector.problem or "")
    assert not reflector.synced.is_set()
