"""Owners who are told of refusals: which, how often, and that nobody waits for it."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from structlog.testing import capture_logs
from support.api.times import Times
from support.builders import Json, pod, request
from support.patience import until
from support.service.reviews import served, violation

from policies.engine.engine import Answer, Decision
from policies.objects.owner import Owner
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.events import Subject
from webhook.decisions.answered import Answered
from webhook.decisions.refusals import PAUSE, WAITING, Refusals
from webhook.http.decision import Reviewed
from webhook.metrics import Metrics

_REFUSED = Answer((Decision("limits", "deny", (violation("limits"),)),))
_JOB = Owner("batch/v1", "Job", "train-0", "j")
_TOP = Owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", "t")


class _Told(NamedTuple):
    about: Subject
    reason: str
    message: str
    occasion: str


class _Site:
    """A process that tells owners. errors: of the first Events."""

    def __init__(self, *errors: ClusterError) -> None:
        self.metrics = Metrics()
        self.times = Times()
        self.told: list[_Told] = []
        self._errors = list(errors)
        self._tops = {"j": _TOP}
        self.refusals = Refusals(
            self._top, self._write, lambda: str(self.times.date.hour), self.metrics, self.times.clock
        )

    async def _top(self, namespace: str, owner: Owner) -> Owner:
        assert namespace == "default"
        return self._tops.get(owner.uid, owner)

    async def _write(self, about: Subject, reason: str, message: str, *, occasion: str) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.told.append(_Told(about, reason, message, occasion))

    def answer(self, obj: Json | None, answer: Answer = _REFUSED, **fields: Any) -> None:
        """Have a request answered."""
        where = served()
        reviewed = Reviewed(b"", request(obj, **fields), answer)
        self.refusals(Answered(b"", "/validate", where.routes["/validate"], where, reviewed, 0.0))

    async def counted(self) -> dict[str, float]:
        """What was counted, once nothing waits."""
        running = asyncio.create_task(self.refusals.run())
        await until(lambda: not self.refusals._waiting)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        (family,) = self.metrics.refusal_events.collect()
        return {s.labels["outcome"]: s.value for s in family.samples if s.name.endswith("_total")}


def _made(owner: Owner = _JOB, **fields: Any) -> Json:
    """A Pod that a controller makes."""
    made = pod(**fields)
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return made


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
    assert site.told[0] == _Told(
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

    assert (await site.counted(), site.told, site.times.pauses) == ({}, [], [])


async def test_too_many_are_dropped() -> None:
    """So many wait; the rest is counted, and nobody waits for them."""
    site = _Site()
    for number in range(WAITING + 7):
        site.answer(_made(Owner("batch/v1", "Job", "train", f"j{number}")))

    assert await site.counted() == {"dropped": 7}


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
            "event": "refusal not told",
            "log_level": "warning",
            "reason": "not allowed; a ClusterRole must allow the service's account to list the workload's kind, and to "
            "create events",
            "times": 1,
        }
    ]
