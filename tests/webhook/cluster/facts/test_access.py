"""Authorization checks, answered by SubjectAccessReviews."""

from __future__ import annotations

import asyncio
import json

import pytest
from support.api.fakeapi import NAMESPACES, FakeApi, named, status
from support.api.times import Times
from support.patience import PATIENCE, until

from policies.cel.library.authorizer import Check, CheckAnswer, User
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.client import Connection
from webhook.cluster.facts.facts import (
    AT_ONCE,
    LONGEST_KEPT,
    MOST_KEPT,
    REVIEW_SECONDS,
    REVIEWS_PATH,
    AccessReviews,
    review,
)

CHECK = Check(user=User("alice", groups=("dev",)), verb="get", resource="pods", namespace="team")


async def test_a_check_is_asked_as_a_review(server: FakeApi, api: Connection) -> None:
    """The API server gets the check as a SubjectAccessReview, and its status is the answer."""
    server.groups[REVIEWS_PATH] = {"status": {"allowed": True, "reason": "RBAC: allowed"}}

    assert await review(api, CHECK, PATIENCE) == CheckAnswer(allowed=True, reason="RBAC: allowed")
    (seen,) = server.seen
    assert (seen.method, json.loads(seen.body)) == (
        "POST",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "resourceAttributes": {"namespace": "team", "verb": "get", "version": "*", "resource": "pods"},
                "user": "alice",
                "groups": ["dev"],
            },
        },
    )


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
    assert len(reviews._answers) == MOST_KEPT
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
