"""The times of the parts of one review, noted while it is answered, and a thread that sends them.

A review does one thing after the other, so each part begins where the one before it ended. Nothing here knows
OpenTelemetry.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter, time_ns
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, get_args

import structlog

from policies.engine.engine import Answer
from policies.engine.request import AdmissionRequest
from policies.engine.violation import FIELD_LENGTH, shortened

Name = Literal["review", "receive", "decode", "match", "rule", "rules", "look-up", "child", "encode"]
NAMES: tuple[Name, ...] = get_args(Name)
"""The names of all spans; docs/reference/telemetry.md lists them."""

PREFIX = "cks_admission."
ATTRIBUTES = frozenset(
    PREFIX + name
    for name in (
        "uid", "operation", "resource", "namespace", "name", "dry_run", "allowed", "verdicts", "rule", "rules", "key",
        "found", "operations", "bytes",
    )
)  # fmt: skip
"""The attributes of spans that are the service's own; the same page lists them."""

Value = str | bool | int | tuple[str, ...]
_NANO = 1_000_000_000


class Span(NamedTuple):
    """A part of a review. began, ended: of the performance counter, which all processes of a machine share."""

    name: Name
    began: float
    ended: float
    attributes: Mapping[str, Value]


class Trace:
    """The parts of a review so far. parent: whose part the review is, as OpenTelemetry has it; None if it is no part.

    slow: seconds from which a rule has a span. attributes: those of the whole review. status: of the HTTP answer.
    """

    __slots__ = ("_epoch", "_since", "attributes", "began", "ended", "parent", "slow", "spans", "status")

    def __init__(self, parent: Any, slow: float) -> None:
        self.parent = parent
        self.slow = slow
        self.status = 0
        self.spans: list[Span] = []
        self.attributes: dict[str, Value] = {}
        self.began = self.ended = self._since = perf_counter()
        self._epoch = time_ns() - int(self.began * _NANO)

    def begin(self) -> None:
        """Begin the next part now. What passed since the last one belongs to none."""
        self._since = perf_counter()

    def lap(self, name: Name, **attributes: Value) -> None:
        """End a part, and begin the next one."""
        now = perf_counter()
        self.spans.append(Span(name, self._since, now, {PREFIX + key: value for key, value in attributes.items()}))
        self._since = now

    def laps(self, also: Callable[[str | Sequence[str]], None]) -> Callable[[str | Sequence[str]], None]:
        """What is told the name of a rule after its evaluation, or of those judged together. also: is told, too."""

        def lap(rule: str | Sequence[str]) -> None:
            also(rule)
            if perf_counter() - self._since < self.slow:
                self.begin()
            elif isinstance(rule, str):
                self.lap("rule", rule=rule)
            else:
                self.lap("rules", rules=len(rule))

        return lap

    def branch(self) -> Trace:
        """A trace for another process, whose spans are to be added to these."""
        return Trace(None, self.slow)

    def conclude(self, request: AdmissionRequest, answer: Answer) -> None:
        """Note what was asked and answered: identities and verdicts, nothing of the object's content."""
        parts = (request.resource.group, request.resource.resource, request.sub_resource)
        said: dict[str, Value] = {
            "uid": request.uid,
            "operation": request.operation,
            "resource": "/".join(part for part in parts if part),
            "namespace": request.namespace,
            "name": shortened(request.display_name, FIELD_LENGTH),
            "dry_run": bool(request.dry_run),
            "allowed": answer.allowed,
        }
        if answer.unanimity is None:
            said["verdicts"] = tuple(f"{d.rule}: {d.verdict}" for d in answer.decisions if d.verdict != "admit")
        self.attributes |= {PREFIX + key: value for key, value in said.items() if value != ""}

    def end(self, path: str, status: int) -> None:
        """End the review with an HTTP status. path: at which it was asked; empty if that is not served."""
        self.ended, self.status = perf_counter(), status
        self.attributes |= {"http.request.method": "POST", "http.response.status_code": status}
        if path:
            self.attributes["http.route"] = path

    def nanoseconds(self, moment: float) -> int:
        """The Unix time of a moment of the performance counter."""
        return self._epoch + int(moment * _NANO)


class Tracing(Protocol):
    """Decides which reviews are traced, and takes their traces."""

    def begin(self, headers: Mapping[str, str]) -> Trace | None:
        """The trace of a call with these headers; None if it is not traced."""
        ...

    def end(self, trace: Trace, path: str, status: int) -> None:
        """End a trace with an HTTP status. path: at which it was asked; empty if that is not served."""
        ...


T = TypeVar("T")

# Traces that wait for a slow receiver. One has some ten spans and takes 5 KiB.
BACKLOG = 1024
# Spans that are sent at once. To encode so many takes some 2 ms, for which reviews of this process may have to wait.
BATCH = 64
# How long a trace waits for others that are sent with it.
LINGER = 1.0
# How long the end of the process waits for what is not sent yet.
LAST_SECONDS = 2.0
LIBRARY = "opentelemetry"
"""The name of the loggers of OpenTelemetry."""


class Export(Generic[T]):
    """Takes traces without waiting. Those that cannot be sent are counted as lost, and told in the log once.

    spans: makes the spans of a trace. send: sends spans, and returns whether the receiver took them. stop: ends an
    attempt to send. reason: why the last one failed.
    """

    def __init__(
        self,
        spans: Callable[[Trace], Sequence[T]],
        send: Callable[[Sequence[T]], bool],
        stop: Callable[[], None] = lambda: None,
        reason: Callable[[], str] = lambda: "",
    ) -> None:
        self._spans = spans
        self._send = send
        self._stop = stop
        self._reason = reason
        self._queue: SimpleQueue[Trace | None] = SimpleQueue()
        # The first belongs to who adds traces, the others to the thread.
        self._dropped = self._sent = self._failed = 0
        self._taken = (0, 0)
        self._is_ending = False
        self.problem = ""
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def add(self, trace: Trace) -> None:
        """Have a trace sent, or count it as lost if too many wait."""
        if self._queue.qsize() >= BACKLOG or self._is_ending:
            self._dropped += 1
        else:
            self._queue.put(trace)

    def take(self) -> tuple[int, int]:
        """How many traces were sent and lost since this was last called."""
        now = self._sent, self._dropped + self._failed
        before, self._taken = self._taken, now
        return now[0] - before[0], now[1] - before[1]

    def problems(self) -> list[str]:
        """Why nothing can be sent now; nothing if it can."""
        return [self.problem] if self.problem else []

    def end(self, seconds: float = LAST_SECONDS) -> None:
        """Send what waits, for at most so many seconds, and no more."""
        self._is_ending = True
        self._queue.put(None)
        self._thread.join(seconds)
        self._stop()

    def _run(self) -> None:
        while traces := self._next():
            try:
                spans = [span for trace in traces for span in self._spans(trace)]
                self._count(len(traces), all(self._send(spans[at : at + BATCH]) for at in range(0, len(spans), BATCH)))
            except Exception as error:  # noqa: BLE001 - whatever it is, the next traces must be sent
                self._failed += len(traces)
                self._tell(repr(error))

    def _next(self) -> list[Trace]:
        """The traces that are sent together; none at the end."""
        traces: list[Trace] = []
        size, until = 0, 0.0
        while size < BATCH:
            try:
                trace = self._queue.get(timeout=max(0.0, until - monotonic()) if traces else None)
            except Empty:
                break
            if trace is None:
                self._queue.put(None)  # the next call ends at once
                break
            if not traces:
                until = monotonic() + LINGER
            traces.append(trace)
            size += 1 + len(trace.spans)
        return traces

    def _count(self, traces: int, taken: bool) -> None:  # noqa: FBT001 - private
        if taken:
            self._sent += traces
            self._tell("")
        else:
            self._failed += traces
            self._tell(self._reason() or "the receiver did not take them")

    def _tell(self, problem: str) -> None:
        if problem and not self.problem:
            structlog.get_logger().warning("traces lost", reason=problem)
        elif self.problem and not problem:
            structlog.get_logger().info("traces sent again")
        self.problem = problem


class Reasons(logging.Handler):
    """Keeps what OpenTelemetry logs out of the log, but for the last line, which says why sending failed."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.last = record.getMessage()

    def install(self) -> None:
        """Take the place of all handlers for what OpenTelemetry logs."""
        logger = logging.getLogger(LIBRARY)
        logger.handlers, logger.propagate = [self], False
