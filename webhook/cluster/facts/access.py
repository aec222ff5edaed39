"""Answers authorization checks of CEL expressions by SubjectAccessReviews.

The evaluation of an expression never waits; a check without an answer interrupts it. The caller then asks the API
server here, and evaluates again with the answer. If there is no answer, the check has an error, which expressions see
with `errored()`, as in the API server when an authorizer fails.

Answers are kept for seconds, as kube-apiserver keeps those of its webhook authorizer
(k8s.io/apiserver's plugin/pkg/authorizer/webhook/webhook.go).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import msgspec

from policies.cel.library.kubernetes.authorizer import Check, CheckAnswer, answer_of, subject_access_review
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.api.wire import UNREADABLE

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

    from webhook.cluster.api.clock import Clock

PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# kube-apiserver keeps allowed answers of a webhook for 5 minutes and others for 30 s, but those of RBAC not at all. So
# the time is only as long as a burst of writes of one user: who loses or gets a right notices it here in 10 s.
KEPT_SECONDS = 10.0
# An answer of usual size needs about 1 KB. As in kube-apiserver, users cannot fill the memory with long attributes.
MOST_KEPT = 4096
LONGEST_KEPT = 10_000
# Half of the connections for reads, so that slow answers leave room for the Lease and for Namespaces.
AT_ONCE = 50
# The longest time that the API server waits for a webhook; afterwards nobody needs the answer.
READ_SECONDS = 30.0


class _Review(msgspec.Struct):
    status: dict[str, Any]


_REVIEW = msgspec.json.Decoder(_Review)


class AccessReviews:
    """Asks about checks, and keeps the answers to exactly the same ones for some seconds. Errors are not kept.

    Concurrent questions about the same check are one request.
    """

    def __init__(self, api: ApiClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._answers: OrderedDict[Check, tuple[float, CheckAnswer]] = OrderedDict()
        self._running: dict[Check, asyncio.Task[CheckAnswer]] = {}
        self._free = asyncio.Semaphore(AT_ONCE)

    async def review(self, check: Check, seconds: float) -> CheckAnswer:
        """The answer to a check; an errored one if there is none within the time limit."""
        until, kept = self._answers.get(check, (0.0, None))
        if kept is not None and self._clock.monotonic() < until:
            self._answers.move_to_end(check)
            return kept
        task = self._running.get(check)
        if task is None:
            task = self._running[check] = asyncio.create_task(self._ask(check), name="access review")
            task.add_done_callback(lambda _: self._running.pop(check))
        # If one caller times out or is cancelled, the others still get the answer.
        done, _ = await asyncio.wait([task], timeout=seconds)
        if not done:
            return _late(seconds)
        return _errored("the service is shutting down") if task.cancelled() else task.result()

    async def stop(self) -> None:
        """Cancel the current questions."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _ask(self, check: Check) -> CheckAnswer:
        async with self._free:
            asked = self._clock.monotonic()  # before the question, so that no answer is kept for longer
            answer = await review(self._api, check, READ_SECONDS)
        if answer.error is None and len(msgspec.json.encode(subject_access_review(check))) <= LONGEST_KEPT:
            self._answers[check] = asked + KEPT_SECONDS, answer
            if len(self._answers) > MOST_KEPT:
                self._answers.popitem(last=False)
        return answer


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
        return _late(seconds)
    except ClusterError as error:
        return _errored(str(error))
    except UNREADABLE as error:
        return _errored(f"the answer to POST {PATH} is not a SubjectAccessReview: {error}")


def _late(seconds: float) -> CheckAnswer:
    return _errored(f"the API server did not answer within {seconds:.1f} s")


def _errored(reason: str) -> CheckAnswer:
    return CheckAnswer(allowed=False, error=reason)
