"""Owners who are told of refusals: which, how often, and that nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from structlog.testing import capture_logs
from support.api.times import Times
from support.builders import Json, pod, request
from support.patience import until
from support.service.reviews import REFUSAL, RESERVED, answer_of, body, served, violation
from support.service.servers import Serve, default_rules

from policies.engine.engine import Answer, Decision
from policies.engine.request import Owner
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.events import Subject
from webhook.decisions.refusals import GLANCE, PAUSE, SHARE, WAITING, Refusals
from webhook.http.decision import Answered, Reviewed
from webhook.metrics import Metrics

_REFUSED = Answer((Decision("limits", "deny", (violation("limits"),)),))
_JOB = Owner("batch/v1", "Job", "train-0", "j")
_TOP = Owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", "t")


class _Site:
    """A process that tells owners. errors: of the first Events. hold: what each Event waits for."""

    def __init__(self, *errors: ClusterError, hold: asyncio.Event | None = None) -> None:
        self.metrics = Metrics()
        self.times = Times()
        self.told: list[tuple[Any, ...]] = []
        self.writing = 0
        self._errors = list(errors)
        self._hold = hold
        self._tops = {"j": _TOP}
        self.refusals = Refusals(
            self._top, self._write, lambda: str(self.times.date.hour), self.metrics, self.times.clock
        )

    async def _top(self, namespace: str, owner: Owner) -> Owner:
        assert namespace.startswith("default")
        return self._tops.get(owner.uid, owner)

    async def _write(self, about: Subject, reason: str, message: str, *, occasion: str) -> None:
        self.writing += 1
        if self._hold is not None:
            await self._hold.wait()
        if self._errors:
            raise self._errors.pop(0)
        self.told.append((about, reason, message, occasion))

    def answer(self, obj: Json | None, answer: Answer = _REFUSED, **fields: Any) -> None:
        """Have a request answered."""
        where = served()
        reviewed = Reviewed(b"", request(obj, **fields), answer)
        self.refusals(Answered(b"", "/validate", where.routes["/validate"], where, reviewed, 0.0))

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """A block in which owners are told."""
        running = asyncio.create_task(self.refusals.run())
        yield
        running.cancel()
        await asyncio.wait([running])

    async def counted(self) -> dict[str, float]:
        """What was counted, once nothing waits."""
        async with self.telling():
            await until(lambda: not self.refusals._waiting)
            await asyncio.sleep(0)
        (family,) = self.metrics.refusal_events.collect()
        return {s.labels["outcome"]: s.value for s in family.samples if s.name.endswith("_total")}


def _made(owner: Owner = _JOB, **fields: Any) -> Json:
    """A Pod that a controller makes."""
    made = pod(**fields)
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return made


def _owner(number: int) -> Owner:
    """One of many owners that nobody owns."""
    return Owner("batch/v1", "Job", "train", f"j{number}")


async def test_the_workload_at_the_top_is_told() -> None:
    """One Event in an hour for an owner and the rules that refused, on the workload for which its controller works."""
    site = _Site()
    for _ in range(3):
        site.answer(_made())
    first = await site.counted()
    site.times.pass_by(3600)
    site.answer(_made())

    assert (first, await site.counted()) == ({"written": 1}, {"written": 2})
    assert site.times.pauses == [PAUSE, PAUSE]
    assert site.told[0] == (
        Subject(_TOP.api_version, "TrainJob", "default", "train", "t"),
        "CreationRefused",
        f"Pod of Job train-0 was refused: {' '.join(_REFUSED.message.split())}",
        "23\nlimits",
    )


async def test_who_knows_already_is_not_told() -> None:
    """No Event where the answer reaches a person, where nothing is refused, or where a controller says it itself."""
    site = _Site()
    site.answer(pod())
    site.answer(_made(), dry_run=True)
    site.answer(_made(), old=_made())
    site.answer(_made(), Answer((Decision("limits", "warn", (violation("limits"),)),)))
    site.answer(_made(), sub_resource="binding")
    site.answer(_made(Owner("apps/v1", "ReplicaSet", "alone", "r")))

    assert (await site.counted(), site.told, site.times.pauses) == ({}, [], [GLANCE])


async def test_too_many_are_dropped() -> None:
    """So many wait, of one Namespace fewer; the rest is counted, and nobody waits for them."""
    site = _Site()
    for number in range(WAITING + 5 * SHARE):
        namespace = "default" if number < 2 * SHARE else f"default-{number}"
        site.answer(_made(_owner(number)), namespace=namespace)

    assert await site.counted() == {"dropped": 5 * SHARE}


async def test_a_false_reference_silences_nobody() -> None:
    """An owner's UID in the references of another Namespace, or with another name, does not count as told."""
    site = _Site()
    site.answer(_made(), namespace="default-2")
    site.answer(_made(Owner("batch/v1", "Job", "other", "j")))
    site.answer(_made())

    assert await site.counted() == {"written": 3}


async def test_a_failure_is_said_once_and_tried_again() -> None:
    """Without the right the log says which is missing, once; a namespace that is gone is no problem."""
    site = _Site(ApiError("not allowed", 403, 0.0), ApiError("not allowed", 403, 0.0), ApiError("gone", 404, 0.0))
    with capture_logs() as logs:
        for _ in range(4):
            site.answer(_made())
            counted = await site.counted()

    assert counted == {"failed": 3, "written": 1}
    assert logs == [
        {
            "event": "could not write an Event about a refusal",
            "log_level": "warning",
            "reason": "not allowed; a ClusterRole must allow the service's account to list the workload's kind, and to "
            "create events",
            "times": 1,
        }
    ]


async def test_no_answer_waits_for_the_api_server(serve: Serve) -> None:
    """While an Event is not written, and when it fails, the service answers as ever, and the loss is counted."""
    hold = asyncio.Event()
    site = _Site(ApiError("too slow", 504, 0.0), hold=hold)
    running = await serve(served(*default_rules().rules), followers=[site.refusals])
    async with site.telling():
        first = await running.post(body(_made(labels=RESERVED)))
        await until(lambda: site.writing == 1)
        others = [await running.post(body(_made(_owner(number), labels=RESERVED))) for number in range(SHARE + 1)]
        hold.set()
        await until(lambda: not site.refusals._waiting)

    answers = [answer_of(reply.body) for reply in (first, *others)]
    assert [answer["allowed"] for answer in answers] == [False] * len(answers)
    assert {answer["status"]["message"] for answer in answers} == {REFUSAL}
    assert await site.counted() == {"failed": 1, "dropped": 1}
