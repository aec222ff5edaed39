"""What facts read of a cluster: Namespaces, and the answers of its authorizers."""

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

from policies.cel.library.authorizer import Check, CheckAnswer, User
from policies.engine.facts import Namespace
from policies.engine.interruption import FactUnavailable
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.client import Connection
from webhook.cluster.facts.facts import (
    AT_ONCE,
    LONGEST_KEPT,
    MOST_KEPT,
    NAMESPACE_SECONDS,
    REVIEW_SECONDS,
    REVIEWS_PATH,
    AccessReviews,
    NamespaceReads,
    review,
)


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

    assert list(reads._kept) == [f"none-{number}" for number in range(5, 10)]


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


CHECK = Check(user=User("alice", groups=("dev",)), verb="get", resource="pods", namespace="team")


async def test_a_check_that_cannot_be_asked_is_errored(server: FakeApi, api: Connection) -> None:
    """A failure is an answer with an error, which the expression sees by errored(), and never an allowance."""
    server.groups[REVIEWS_PATH] = {"kind": "Status"}
    server.fail(REVIEWS_PATH, 403, status(403, "no"))
    answers = [await review(api, CHECK, PATIENCE) for _ in range(2)]
    server.groups.clear()
    server.held = asyncio.Event()
    answers.append(await review(api, CHECK, 0.05))

    refused, other, late = (answer.error or "" for answer in answers)
    assert not any(answer.allowed for answer in answers)
    assert refused == f"the API server refused POST {REVIEWS_PATH} at {server.url} (403: no)"
    assert other.startswith(f"the answer to POST {REVIEWS_PATH} is not a SubjectAccessReview: ")
    assert late == "the API server did not answer within 0.1 s"


@pytest.fixture
def reviews(server: FakeApi, api: Connection, times: Times) -> AccessReviews:
    """Reviews that are kept, of an API server that allows everything."""
    server.groups[REVIEWS_PATH] = {"status": {"allowed": True}}
    return AccessReviews(api, times.clock)


def of(name: str, verb: str = "get") -> Check:
    """A check of a user."""
    return Check(user=User(name), verb=verb, resource="pods", namespace="team")


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_answer_is_kept_for_seconds(
    server: FakeApi, reviews: AccessReviews, times: Times, *, allowed: bool
) -> None:
    """The same check is asked once in ten seconds; afterwards a right that was taken or given counts."""
    server.groups[REVIEWS_PATH] = {"status": {"allowed": allowed}}
    first = await reviews.review(of("alice"), PATIENCE)
    server.groups[REVIEWS_PATH] = {"status": {"allowed": not allowed}}
    times.pass_by(REVIEW_SECONDS - 0.1)
    kept = await reviews.review(of("alice"), PATIENCE)
    times.pass_by(0.1)
    anew = await reviews.review(of("alice"), PATIENCE)

    assert [answer.allowed for answer in (first, kept, anew)] == [allowed, allowed, not allowed]
    assert len(server.seen) == 2


async def test_other_attributes_are_another_check(server: FakeApi, reviews: AccessReviews) -> None:
    """An answer is for exactly the same user with the same groups and extra fields, verb and object."""
    users = [User("alice"), User("bob"), User("alice", groups=("dev",)), User("alice", uid="1")]
    users += [User("alice", extra=(("a", ("b",)),))]
    checks = [Check(user=user, verb="get", resource="pods", namespace="team") for user in users]
    checks += [of("alice", "list"), Check(user=users[0], verb="get", resource="pods", namespace="other")]
    for check in checks * 2:
        await reviews.review(check, PATIENCE)

    assert len(server.seen) == len(checks)


async def test_an_error_is_not_kept(server: FakeApi, reviews: AccessReviews) -> None:
    """After a failure the next check is asked again."""
    server.fail(REVIEWS_PATH, 500, "oops")
    failed = await reviews.review(of("alice"), PATIENCE)
    answer = await reviews.review(of("alice"), PATIENCE)

    assert (failed.error is None, answer) == (False, CheckAnswer(allowed=True))


async def test_memory_is_bounded(server: FakeApi, reviews: AccessReviews) -> None:
    """Of too many answers those go that were used least recently, and an endless attribute is never kept."""
    endless = of("e" * LONGEST_KEPT)
    for check in (endless, endless, of("first"), of("second")):
        await reviews.review(check, PATIENCE)
    asked = len(server.seen)
    for number in range(MOST_KEPT - 1):
        await reviews.review(of("first"), PATIENCE)  # used again and again
        await reviews.review(of(f"user-{number}"), PATIENCE)
    await reviews.review(of("first"), PATIENCE)

    assert (asked, len(server.seen)) == (4, 4 + MOST_KEPT - 1)
    assert len(reviews._kept) == MOST_KEPT
    await reviews.review(of("second"), PATIENCE)
    assert len(server.seen) == 4 + MOST_KEPT


async def test_concurrent_questions_are_one(server: FakeApi, reviews: AccessReviews) -> None:
    """Many reviews that need the same check ask once, and whoever has less time does not spoil it for the others."""
    del server.groups[REVIEWS_PATH]  # answered as a single object then, which waits
    server.held = asyncio.Event()
    hurried = asyncio.create_task(reviews.review(of("alice"), 0.01))
    others = [asyncio.create_task(reviews.review(of("alice"), PATIENCE)) for _ in range(200)]
    early = await hurried
    server.held.set()
    answers = await asyncio.gather(*others)

    assert early.error == "the API server did not answer within 0.0 s"
    assert len(server.seen) == 1
    assert len(set(answers)) == 1


async def test_slow_answers_leave_room(server: FakeApi, api: Connection, reviews: AccessReviews) -> None:
    """However many checks wait for an API server that does not answer them, another request is answered."""
    server.slow.add(REVIEWS_PATH)
    server.put(NAMESPACES, named("one"))
    waiting = [asyncio.create_task(reviews.review(of(f"user-{number}"), PATIENCE)) for number in range(300)]
    await until(lambda: len(server.seen) == AT_ONCE)

    async with asyncio.timeout(PATIENCE):
        assert await fetch(api, Call("GET", f"{NAMESPACES}/one"))

    await reviews.stop()
    answers = await asyncio.gather(*waiting)
    assert set(answers) == {CheckAnswer(allowed=False, error="the service is shutting down")}
