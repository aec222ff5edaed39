from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
from support.api.fakeapi import NAMESPACES, FakeApi, named, status
from support.api.times import Times
from support.patience import PATIENCE, until

from policies.engine.facts import Namespace
from policies.engine.interruption import FactUnavailable
from webhook.cluster.api.client import Connection
from webhook.cluster.facts.facts import NAMESPACE_SECONDS, NamespaceReads


@pytest.fixture
async def reads(api: Connection, times: Times) -> AsyncIterator[NamespaceReads]:
    """Reads from the small API server."""
    made = NamespaceReads(api, times.clock)
    yield made
    await made.stop()


def known(name: str, labels: dict[str, str], **more: Any) -> Namespace:
    """A Namespace that is its name and labels, with more of its metadata or parts."""
    metadata = {"name": name, **more.pop("metadata", {}), "labels": labels}
    return Namespace(labels, msgspec.json.encode({"metadata": metadata, **more}))


def labels(reads: NamespaceReads) -> Mapping[str, str] | None:
    """The labels of the Namespace, if it was read."""
    found = reads.get("team")
    return None if found is None else found.labels


async def test_reads_a_namespace(server: FakeApi, reads: NamespaceReads) -> None:
    """A Namespace is there after a read, with its labels."""
    server.put(NAMESPACES, named("team", {"a": "b"}, spec={"finalizers": ["kubernetes"]}))

    assert reads.get("team") is None
    await reads.read("team", PATIENCE)

    spec, metadata = {"finalizers": ["kubernetes"]}, {"resourceVersion": str(server.version)}
    assert reads.get("team") == known("team", {"a": "b"}, metadata=metadata, spec=spec, status={})


async def test_one_that_does_not_exist(server: FakeApi, reads: NamespaceReads, times: Times) -> None:
    """A Namespace that does not exist has name and name label for some seconds, and is seen when it is made later."""
    await reads.read("team", PATIENCE)
    server.put(NAMESPACES, named("team", {"a": "b"}))
    times.pass_by(NAMESPACE_SECONDS - 0.1)
    assert reads.get("team") == known("team", {"kubernetes.io/metadata.name": "team"})
    times.pass_by(0.1)
    assert reads.get("team") is None

    await reads.read("team", PATIENCE)
    assert labels(reads) == {"a": "b"}


async def test_old_answers_are_forgotten(reads: NamespaceReads, times: Times) -> None:
    """Asking for many Namespaces does not fill the memory: what has expired goes with the next read."""
    for number in range(10):
        await reads.read(f"none-{number}", PATIENCE)
        times.pass_by(1)

    assert list(reads._answers) == [f"none-{number}" for number in range(5, 10)]


async def test_reads_at_the_same_time_are_one(server: FakeApi, reads: NamespaceReads) -> None:
    """However many requests wait for a Namespace, the API server is asked once."""
    server.put(NAMESPACES, named("team", {"a": "b"}))

    await asyncio.gather(*(reads.read("team", PATIENCE) for _ in range(20)))

    assert len(server.seen) == 1


async def test_one_deadline_is_not_another_s(server: FakeApi, reads: NamespaceReads) -> None:
    """A caller whose time is up, or who is gone, does not take the answer from the others."""
    server.put(NAMESPACES, named("team", {"a": "b"}))
    server.held = asyncio.Event()
    gone, patient = (asyncio.create_task(reads.read("team", PATIENCE)) for _ in range(2))
    await until(lambda: server.seen)

    gone.cancel()
    with pytest.raises(FactUnavailable) as caught:
        await reads.read("team", 0.01)
    server.held.set()
    await patient

    assert str(caught.value) == (f"namespace team could not be read: the API server at {server.url} took over 0.0 s")
    assert (labels(reads), len(server.seen)) == ({"a": "b"}, 1)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../nodes", "a/b", "A", "a?x=1", "a" * 64, "team\n", "-a", "ä"],
)
async def test_names_that_are_none(server: FakeApi, reads: NamespaceReads, name: str) -> None:
    """What cannot be a Namespace's name does not exist, and the API server is not asked for another path."""
    await reads.read(name, PATIENCE)

    assert (reads.get(name), server.seen) == (known(name, {"kubernetes.io/metadata.name": name}), [])


@pytest.mark.parametrize(
    ("code", "body", "reason"),
    [
        pytest.param(403, status(403, "you may not"), "refused GET {where} (403: you may not)", id="refused"),
        pytest.param(500, "oops", "refused GET {where} (500: oops)", id="broken"),
        pytest.param(200, "<html>", "answer to GET {path} is not a Namespace: JSON is malformed", id="not JSON"),
    ],
)
async def test_a_failure_is_a_fact_unavailable(
    server: FakeApi, reads: NamespaceReads, code: int, body: Any, reason: str
) -> None:
    """Where the API server fails, the text says which fact is missing and why, and the next read asks again."""
    path = f"{NAMESPACES}/team"
    server.put(NAMESPACES, named("team", {"a": "b"}))
    server.fail(path, code, body)

    with pytest.raises(FactUnavailable) as caught:
        await reads.read("team", PATIENCE)

    assert str(caught.value).startswith("namespace team could not be read: the ")
    assert reason.format(path=path, where=f"{path} at {server.url}") in str(caught.value)
    await reads.read("team", PATIENCE)
    assert labels(reads) == {"a": "b"}


async def test_a_failure_that_nobody_waits_for(server: FakeApi, reads: NamespaceReads) -> None:
    """A read that fails after its callers have gone is not reported as an error of the program."""
    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reports.append(context))
    server.fail(f"{NAMESPACES}/team", 500, "oops")

    with pytest.raises(FactUnavailable, match="took over"):
        await reads.read("team", 0)
    await until(lambda: not reads._running)
    gc.collect()

    assert (len(server.seen), reports) == (1, [])


async def test_stopping_ends_reads(server: FakeApi, reads: NamespaceReads) -> None:
    """Reads that are under way when the service stops fail in words; their callers are not cancelled."""
    server.put(NAMESPACES, named("team"))
    server.held = asyncio.Event()
    waiting = asyncio.create_task(reads.read("team", PATIENCE))
    await until(lambda: server.seen)

    await reads.stop()

    with pytest.raises(FactUnavailable, match="the service is shutting down"):
        await waiting
    server.held.set()
