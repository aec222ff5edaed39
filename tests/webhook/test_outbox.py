"""What is sent by a thread of its own; of traces: where to, which reviews have one, and what is missing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest
import structlog
from structlog.testing import capture_logs
from support.patience import PATIENCE
from support.service.reviews import served

from webhook import opentelemetry, serve
from webhook.configuration.settings import Listen, SettingsError, TracingSettings
from webhook.decisions.log import Output, writer
from webhook.http.app import Service
from webhook.http.decision import ServingState
from webhook.metrics import Metrics
from webhook.opentelemetry import BACKLOG, BATCH, Tracer, receiver
from webhook.outbox import Outbox
from webhook.serve import trace
from webhook.tracing import Span, Trace


class _Place(Output):
    """Takes lines or spans once it is free. answers: what becomes of them, True by default."""

    def __init__(self, *answers: bool | Exception) -> None:
        super().__init__(None)
        self.begun, self.free = threading.Event(), threading.Event()
        self.lines: list[bytes] = []
        self.sizes: list[int] = []
        self._answers = list(answers)

    def send(self, lines: list[bytes]) -> str:
        self.write(b"".join(lines))
        return ""

    def write(self, lines: bytes) -> None:
        self.export(lines)
        self.lines += lines.splitlines()

    def export(self, spans: Sequence[int]) -> bool:
        self.begun.set()
        assert self.free.wait(PATIENCE)
        self.sizes.append(len(spans))
        answer = self._answers.pop(0) if self._answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.lines.append(b"closed")


def _outbox(place: _Place, room: int = 100) -> Outbox[bytes]:
    outbox = Outbox[bytes](place.send, len, room, 1000, ("lost", "again"), close=place.close)
    outbox.start()
    return outbox


def test_what_waits_is_bounded() -> None:
    """While nothing can be written, so much waits; the rest is lost and counted, and nobody waits for it."""
    place = _Place()
    outbox = _outbox(place, room=4)
    outbox.put(b"1\n")
    place.begun.wait()
    for number in (2, 3, 4):
        outbox.put(b"%d\n" % number)
    outbox.lose()
    place.free.set()
    outbox.end()

    assert place.lines == [b"1", b"2", b"3", b"closed"]
    assert (outbox.take(), outbox.take(), outbox.problems()) == ((3, 2), (0, 0), [])


@pytest.mark.parametrize("is_blocked", [False, True])
def test_the_end(*, is_blocked: bool) -> None:
    """After the end nothing is taken; a place that blocks for ever does not keep a process from ending."""
    place = _Place()
    outbox = _outbox(place)
    if is_blocked:
        outbox.put(b"1\n")
    outbox.end(0.0 if is_blocked else PATIENCE)
    outbox.put(b"late\n")

    assert outbox.take() == (0, 1)
    place.free.set()


def test_errors_of_a_disk_are_told_until_it_works_again() -> None:
    """Records that cannot be written are lost, and said, until something could be written."""
    place = _Place(OSError(28, "No space left on device"))
    place.free.set()
    records = writer(place)
    records.start()
    records.put(b"1\n")
    records.end()

    assert (records.take(), records.problems()) == ((0, 1), ["records cannot be written: No space left on device"])


def _traces(place: _Place, reason: str = "") -> Outbox[Trace]:
    return opentelemetry.outbox(lambda _: [1, 2], place.export, lambda: reason)


def _trace(parts: int = 0) -> Trace:
    trace = Trace(None, 0.0)
    trace.spans += [Span("rule", 0.0, 0.0, {})] * parts
    return trace


def test_traces_are_sent_together() -> None:
    """While the receiver takes nothing, traces beyond the backlog are lost; the rest is sent later, many at once."""
    place = _Place()
    traces = _traces(place)
    for _ in range(BACKLOG + 7):
        traces.put(_trace())
    assert traces.take() == (0, 7)

    place.free.set()
    traces.start()
    traces.end(PATIENCE)
    assert traces.take() == (BACKLOG, 0)
    assert sum(place.sizes) == 2 * BACKLOG
    assert max(place.sizes) == BATCH


def test_a_failure_is_told_once() -> None:
    """One line says that traces are lost, whatever the reason, and one that they are sent again."""
    place = _Place(False, ValueError("torn"), False, True)  # noqa: FBT003 - answers
    place.free.set()
    traces = _traces(place, "no route")
    structlog.reset_defaults()
    with capture_logs() as lines:
        traces.start()
        for _ in range(4):
            traces.put(_trace(parts=BATCH))  # so that each is sent by itself
        traces.end(PATIENCE)

    assert lines == [
        {"event": "traces lost", "reason": "no route", "log_level": "warning"},
        {"event": "traces sent again", "log_level": "info"},
    ]
    assert (traces.take(), traces.problems()) == ((1, 3), [])


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://example.org/otlp/v1/traces", "https://example.org/otlp/v1/traces"),
    ],
)
def test_the_path_of_the_protocol_is_added(endpoint: str, address: str) -> None:
    """An endpoint without a path gets that of the protocol; any other is taken as it is."""
    assert receiver(endpoint) == address


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service does not start with a receiver that it cannot send to, and says what to install."""
    monkeypatch.setattr(serve, "find_spec", lambda _: None)
    service = Service(ServingState(served()), Metrics(), Listen())
    async with AsyncExitStack() as stack:
        trace(stack, service, TracingSettings())
        assert service.tracing is None
        with pytest.raises(SettingsError, match=r"^tracing\.endpoint needs .*pip install 'cks-admission\[tracing\]'"):
            trace(stack, service, TracingSettings(endpoint="http://collector:4318"))


_SAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_UNSAMPLED = _SAMPLED[:-1] + "0"
_BROKEN = "00-00000000000000000000000000000000-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("sent", "share", "traced"),
    [
        pytest.param(_SAMPLED, 0, True, id="the caller traces"),
        pytest.param(_UNSAMPLED, 1, False, id="the caller does not trace"),
        pytest.param("", 1, True, id="the caller says nothing, all are traced"),
        pytest.param("", 0, False, id="the caller says nothing, none is traced"),
        pytest.param(_BROKEN, 1, True, id="the caller says nothing that can be read, all are traced"),
        pytest.param(_BROKEN, 0, False, id="the caller says nothing that can be read, none is traced"),
    ],
)
def test_the_caller_decides_before_the_share_does(sent: str, share: float, traced: bool) -> None:  # noqa: FBT001 - a case
    """A valid traceparent decides; without one, the share does."""
    tracer = Tracer(share, 0.001, lambda _: None)

    assert (tracer.begin({"traceparent": sent} if sent else {}) is not None) is traced


def test_a_rule_that_takes_less_has_no_span() -> None:
    """Only slow rules have a span; all of them are told to the other listener."""
    told: list[object] = []
    quick, slow = Trace(None, 3600.0), Trace(None, 0.0)
    for timed in (quick, slow):
        after_rule = timed.rules(told.append)
        after_rule("labels")
        after_rule(("first", "second"))

    assert told == ["labels", ("first", "second")] * 2
    assert quick.spans == []
    assert [(span.name, span.attributes) for span in slow.spans] == [
        ("rule", {"cks_admission.rule": "labels"}),
        ("rules", {"cks_admission.rules": 2}),
    ]
