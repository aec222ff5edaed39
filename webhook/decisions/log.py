"""The log of decisions: records the answers that are sampled, after they were sent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import structlog

from policies.engine.comparison import Change, Judgement, Outcome
from policies.engine.interruption import FactUnavailable, Missing
from webhook.configuration.settings import DecisionsSettings
from webhook.decisions import record
from webhook.decisions.answered import Answered
from webhook.decisions.files import Descriptor, Output, RotatingFile
from webhook.decisions.sampling import Sampling
from webhook.decisions.writer import Writer
from webhook.seldom import Seldom

_STDOUT = 1


class DecisionLog:
    """Records answers. release: returns the name of Kubernetes' release by whose rules policies are judged."""

    def __init__(self, settings: DecisionsSettings, writer: Writer, release: Callable[[], str]) -> None:
        self._settings = settings
        self._sampling = Sampling(settings.samples)
        self._writer = writer
        self._release = release
        self._seldom = Seldom(structlog.get_logger())

    def __call__(self, answered: Answered) -> None:
        """Record an answer after it was sent, if it is sampled."""
        if self._sampling.takes(answered.reviewed.request.uid, answered.reviewed.answer):
            # The handler sends the answer before it gives the loop to anybody else.
            asyncio.get_running_loop().call_soon(self._write, answered, datetime.now(UTC), {})

    def shadow(self, answered: Answered, changes: Iterable[tuple[Outcome, Change]]) -> None:
        """Record what policies in the shadow would have changed."""
        told = [
            {"policy": change.policy, "outcome": outcome, "then": _told(change.then), "now": _told(change.now)}
            for outcome, change in changes
        ]
        self._write(answered, datetime.now(UTC), {"event": record.SHADOW, "shadow": told})

    def _write(self, answered: Answered, time: datetime, more: dict[str, object]) -> None:
        try:
            asked = self._asked(answered, time)
            self._writer.write(record.line(asked, self._settings.content, self._settings.max_record_bytes, **more))
        except Exception as error:  # noqa: BLE001 - a defect in records must not concern reviews
            self._writer.lose()
            self._seldom.warning("decision not recorded", type(error), error=repr(error))

    def _asked(self, answered: Answered, time: datetime) -> record.Asked:
        _, request, answer, *_ = answered.reviewed
        labels = None
        if self._settings.content == "objects" and request.scope_namespace:
            with suppress(FactUnavailable, Missing):
                labels = answered.served.facts.namespace_labels(request.scope_namespace)
        return record.Asked(
            answered.body, answered.path, request, answer, time, answered.seconds, self._release(), labels
        )


def _told(judgement: Judgement) -> dict[str, object]:
    return {"verdict": judgement.verdict, "refuses": judgement.refuses, "message": judgement.message}


def output(settings: DecisionsSettings) -> Output:
    """Where records go."""
    if settings.log == "-":
        return Descriptor(os.dup(_STDOUT))
    return RotatingFile(Path(settings.log), settings.max_file_bytes, settings.max_files)
