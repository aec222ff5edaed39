"""Tells owners of refusals that nobody else tells them: Events on the workload at the top.

A controller whose object is refused says so in an Event on its own object, such as a ReplicaSet or a Job. Nobody says
so on the Deployment, JobSet or TrainJob for which it works, and that is where people look. Who writes an object himself
gets the refusal as his answer, so there is no Event for that, and none for a dry run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, NoReturn

import structlog

from policies.engine.engine import Answer
from policies.engine.request import Owner, controller
from policies.engine.violation import squeezed
from webhook.cluster.api.errors import Clock, ClusterError
from webhook.cluster.api.events import Subject
from webhook.http.decision import Answered
from webhook.logs import Seldom
from webhook.metrics import Metrics

WAITING: Final = 100
"""Refusals that wait at most; one more is not told."""
SHARE: Final = 20
"""Those of one Namespace at most, so that no tenant takes all places."""
PAUSE: Final = 1.0
"""Seconds between two Events of a process."""
GLANCE: Final = 0.1
"""Seconds after a look for the workload at the top after which no Event was written."""
_KNOWN: Final = 4096
_LENGTH: Final = 900
_RIGHT: Final = "a ClusterRole must allow the service's account to list the workload's kind, and to create events"
_GONE: Final = 404


class _Refusal(NamedTuple):
    """A refused creation. kind: of the object. occasion: the hour and the rules that refused. key: of its Event."""

    namespace: str
    kind: str
    owner: Owner
    answer: Answer
    occasion: str
    key: tuple[str, Owner, str]


class Refusals:
    """Follows answers, and writes Events about refusals: one in an hour for an owner and the rules that refused.

    top: returns the owner that nobody owns, by a Namespace and an owner in it; raises ClusterError. write: see
    `Events.write`.
    """

    def __init__(
        self,
        top: Callable[[str, Owner], Awaitable[Owner]],
        write: Callable[..., Awaitable[object]],
        hour: Callable[[], str],
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._top = top
        self._write = write
        self._hour = hour
        self._events = metrics.refusal_events
        self._clock = clock
        self._waiting: deque[_Refusal] = deque()
        self._known: set[tuple[str, Owner, str]] = set()
        self._wake = asyncio.Event()
        self._seldom = Seldom(structlog.get_logger())

    def __call__(self, answered: Answered) -> None:
        """Have the owner told of an answer, if it refuses what a controller makes."""
        _, request, answer, *_ = answered.reviewed
        if answer.allowed or request.dry_run or request.operation != "CREATE" or request.sub_resource:
            return
        owner = controller(request.object)
        if owner is None:
            return
        rules = ",".join(decision.rule for decision in answer.decisions if decision.denies)
        occasion = f"{self._hour()}\n{rules}"
        key = request.namespace, owner, occasion
        refusal = _Refusal(request.namespace, request.kind.kind, owner, answer, occasion, key)
        if refusal.key in self._known:
            return
        if len(self._waiting) >= WAITING or sum(r.namespace == refusal.namespace for r in self._waiting) >= SHARE:
            self._events.labels("dropped").inc()
            return
        if len(self._known) >= _KNOWN:
            self._known.clear()
        self._known.add(refusal.key)
        self._waiting.append(refusal)
        self._wake.set()

    async def run(self) -> NoReturn:
        """Write Events until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                refusal = self._waiting.popleft()
                owner, pause = refusal.owner, GLANCE
                try:
                    top = await self._top(refusal.namespace, owner)
                    if top != owner:  # else its own controller writes one
                        about = Subject(top.api_version, top.kind, refusal.namespace, top.name, top.uid)
                        text = f"{refusal.kind} of {owner.kind} {owner.name} was refused: {refusal.answer.message}"
                        text = squeezed(text, _LENGTH)
                        await self._write(about, "CreationRefused", text, occasion=refusal.occasion)
                        self._events.labels("written").inc()
                        pause = PAUSE
                except ClusterError as error:
                    pause = GLANCE if error.status == _GONE else PAUSE
                    self._known.discard(refusal.key)
                    self._events.labels("failed").inc()
                    if error.status != _GONE:  # the Namespace may be gone, and then the workload is, too
                        reason = error.lacking(_RIGHT)
                        self._seldom.warning("could not write an Event about a refusal", error.status, reason=reason)
                await self._clock.sleep(pause)
