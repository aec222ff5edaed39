"""Answers authorization checks of CEL expressions by SubjectAccessReviews.

The evaluation of an expression never waits; a check without an answer interrupts it. The caller then asks the API
server here, and evaluates again with the answer. If there is no answer, the check has an error, which expressions see
with `errored()`, as in the API server when an authorizer fails.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from policies.cel.library.kubernetes.authorizer import Check, CheckAnswer, answer_of, subject_access_review
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.api.wire import UNREADABLE

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _Review(msgspec.Struct):
    status: dict[str, Any]


_REVIEW = msgspec.json.Decoder(_Review)


async def review(api: ApiClient, check: Check, seconds: float) -> CheckAnswer:
    """The API server's answer to a check; an errored one if there is no answer within the time limit."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": subject_access_review(check),
    }
    try:
        async with asyncio.timeout(seconds):
            return answer_of(_REVIEW.decode(await fetch(api, Call("POST", PATH, body=body))).status)
    except TimeoutError:
        return _errored(f"the API server did not answer within {seconds:.1f} s")
    except ClusterError as error:
        return _errored(str(error))
    except UNREADABLE as error:
        return _errored(f"the answer to POST {PATH} is not a SubjectAccessReview: {error}")


def _errored(reason: str) -> CheckAnswer:
    return CheckAnswer(allowed=False, error=reason)
