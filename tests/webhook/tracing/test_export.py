"""Traces that wait to be sent: none keeps anybody waiting, and all of them are counted."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import structlog
from structlog.testing import capture_logs
from support.patience import PATIENCE

from webhook.tracing import BACKLOG, BATCH, Export, Span, Trace


def _trace(parts: int = 0) -> Trace:
    trace = Trace(None, 0.0)
    trace.spans += [Span("rule", 0.0, 0.0, {})] * parts
    return trace


class _Receiver:
    """Takes spans once it is open. sizes: how many came at once. answers: what becomes of them, True by default."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.open = threading.Event()
        self.sizes: list[int] = []
        self._answers = list(answers)

    def __call__(self, spans: Sequence[int]) -> bool:
        assert self.open.wait(PATIENCE)
        self.sizes.append(len(spans))
        answer = self._answers.pop(0) if self._answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_what_is_too_much_is_lost_at_once() -> None:
    """While the receiver takes nothing, traces beyond the backlog are counted as lost, and the rest is sent later."""
    receiver = _Receiver()
    export = Export(lambda _: [1, 2], receiver)
    for _ in range(BACKLOG + 7):
        export.add(_trace())
    assert export.take() == (0, 7)

    receiver.open.set()
    export.start()
    export.end(PATIENCE)
    assert export.take() == (BACKLOG, 0)
    assert sum(receiver.sizes) == 2 * BACKLOG
    assert max(receiver.sizes) <= BATCH
    export.add(_trace())
    assert export.take() == (0, 1)


def test_a_failure_is_told_once() -> None:
    """One line says that traces are lost, whatever the reason, and one that they are sent again."""
    receiver = _Receiver(False, ValueError("torn"), False, True)  # noqa: FBT003 - answers
    receiver.open.set()
    export = Export(lambda _: [1], receiver, reason=lambda: "no route")
    structlog.reset_defaults()
    with capture_logs() as lines:
        export.start()
        for _ in range(4):
            export.add(_trace(parts=BATCH))  # so that each is sent by itself
        export.end(PATIENCE)

    assert lines == [
        {"event": "traces lost", "reason": "no route", "log_level": "warning"},
        {"event": "traces sent again", "log_level": "info"},
    ]
    assert export.take() == (1, 3)
    assert export.problems() == []


def test_the_end_waits_for_nobody() -> None:
    """A receiver that does not answer does not keep the process from ending."""
    receiver = _Receiver()
    stopped: list[bool] = []
    export = Export(lambda _: [1], receiver, lambda: stopped.append(True))
    export.start()
    export.add(_trace())
    export.end(0.0)

    assert stopped == [True]
    receiver.open.set()
