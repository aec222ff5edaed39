"""Authorization checks, answered by SubjectAccessReviews."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from policies.cel.activation import activation
from policies.cel.kubernetes import admission
from policies.cel.library.authorizer import Answer, Check, Decisions, User
from policies.cel.program import Evaluation, compile_expression
from webhook.cluster.access import PATH, ROUNDS, review, settled
from webhook.cluster.client import Connection

from .fakeapi import FakeApi, status

SECONDS = 5.0
CHECK = Check(user=User("alice", groups=("dev",)), verb="get", resource="pods", namespace="team")


def _deadline(seconds: float = SECONDS) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_a_check_is_asked_as_a_review(server: FakeApi, api: Connection) -> None:
    """The API server gets the check as a SubjectAccessReview, and its status is the answer."""
    server.groups[PATH] = {"status": {"allowed": True, "reason": "RBAC: allowed"}}

    assert await review(api, CHECK, SECONDS) == Answer(allowed=True, reason="RBAC: allowed")
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


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(403, "no"), "the API server refused POST {path} at {host} (403: no)"),
        ({"kind": "Status"}, "the answer to POST {path} is no SubjectAccessReview: "),
    ],
    ids=["refused", "something else"],
)
async def test_a_check_that_cannot_be_asked_is_errored(
    server: FakeApi, api: Connection, answer: dict[str, object], error: str
) -> None:
    """A failure is an answer with an error, which the expression sees by errored(), and never an allowance."""
    if "code" in answer:
        server.fail(PATH, 403, answer)
    else:
        server.groups[PATH] = answer

    found = await review(api, CHECK, SECONDS)

    assert not found.allowed
    assert (found.error or "").startswith(error.format(path=PATH, host=server.url))


async def test_a_slow_answer_is_not_waited_for(server: FakeApi, api: Connection) -> None:
    """A review ends with the time that it was given."""
    server.held = asyncio.Event()

    assert await review(api, CHECK, 0.05) == Answer(allowed=False, error="the API server did not answer within 0.1 s")


def _evaluation(expression: str) -> tuple[list[int], Callable[[Decisions], Evaluation]]:
    program = compile_expression(expression, admission())
    rounds = [0]

    def evaluate(decisions: Decisions) -> Evaluation:
        rounds[0] += 1
        request = {"userInfo": {"username": "alice"}}
        return program.evaluate(activation(request, decisions, object={}))

    return rounds, evaluate


async def test_an_expression_is_evaluated_until_its_checks_are_answered(server: FakeApi, api: Connection) -> None:
    """Each check is asked once, and the last evaluation has all answers; its cost is that of one evaluation."""
    server.groups[PATH] = {"status": {"allowed": True}}
    rounds, evaluate = _evaluation("['/a', '/b', '/a'].all(p, authorizer.path(p).check('get').allowed() || true)")

    found = await settled(evaluate, api, _deadline())

    assert (found.value, rounds, len(server.seen)) == (None, [3], 2)
    assert str(found.error) == "operation cancelled: actual cost limit exceeded"  # the third check is one too many


async def test_without_time_a_check_is_errored(server: FakeApi, api: Connection) -> None:
    """After the deadline nothing is asked; the expression sees an errored check."""
    _, evaluate = _evaluation("authorizer.path('/a').check('get').error()")

    found = await settled(evaluate, api, _deadline(-1))

    assert (found, server.seen) == (
        Evaluation("no time was left to ask the API server", 350003),
        [],
    )


async def test_the_rounds_are_bounded(server: FakeApi, api: Connection) -> None:
    """An evaluation that asks for ever new checks ends."""
    server.groups[PATH] = {"status": {"allowed": True}}

    def greedy(decisions: Decisions) -> int:
        allowed = 0
        for number in range(ROUNDS + 2):
            answer = decisions.answer(Check(user=User("alice"), verb="get", path=f"/{number}"))
            allowed += answer.allowed
        return allowed

    assert (await settled(greedy, api, _deadline()), len(server.seen)) == (ROUNDS, ROUNDS)
