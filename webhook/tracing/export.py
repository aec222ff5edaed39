"""Sends traces from a thread of its own, so that no receiver can keep reviews waiting."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Generic, TypeVar

import structlog

from webhook.tracing.trace import Trace

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
