"""Authorization checks, answered by SubjectAccessReviews."""

from __future__ import annotations

import asyncio
import json

import pytest
from support.api.fakeapi import FakeApi, status
from support.patience import PATIENCE

from policies.cel.library.kubernetes.authorizer import Check, CheckAnswer, User
from webhook.cluster.api.client import Connection
from webhook.cluster.facts.access import PATH, review

CHECK = Check(user=User("alice", groups=("dev",)), verb="get", resource="pods", namespace="team")


async def test_a_check_is_asked_as_a_review(server: FakeApi, api: Connection) -> None:
    """The API server gets the check as a SubjectAccessReview, and its status is the answer."""
    server.groups[PATH] = {"status": {"allowed": True, "reason": "RBAC: allowed"}}

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


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (status(403, "no"), "the API server refused POST {path} at {host} (403: no)"),
        ({"kind": "Status"}, "the answer to POST {path} is not a SubjectAccessReview: "),
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

    found = await review(api, CHECK, PATIENCE)

    assert not found.allowed
    assert (found.error or "").startswith(error.format(path=PATH, host=server.url))


async def test_a_slow_answer_is_not_waited_for(server: FakeApi, api: Connection) -> None:
    """A review ends with the time that it was given."""
    server.held = asyncio.Event()

    assert await review(api, CHECK, 0.05) == CheckAnswer(
        allowed=False, error="the API server did not answer within 0.1 s"
    )
