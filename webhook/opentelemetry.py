"""What of traces is OpenTelemetry's: which reviews are traced, and the spans that are sent."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from random import random
from typing import TypeVar

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from yarl import URL

from webhook.outbox import Outbox
from webhook.tracing import Trace
from webhook.version import VERSION

_PARENT, _STATE = "traceparent", "tracestate"


T = TypeVar("T")
# A receiver beside the service answers in milliseconds. While one attempt lasts, traces wait.
_SEND_SECONDS = 5.0
_TRACES_PATH = "/v1/traces"
# Spans that wait for a slow receiver: those of some thousand traces, 5 KiB each.
BACKLOG = 10 * 1024
# Spans that are sent at once. To encode so many takes some 2 ms, for which reviews of this process may have to wait.
BATCH = 64
# How long a trace waits for others that are sent with it.
LINGER = 1.0
LIBRARY = "opentelemetry"
"""The name of the loggers of OpenTelemetry."""


class _LastReason(logging.Handler):
    """Keeps what OpenTelemetry logs out of the log, but for the last line, which says why sending failed."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


def sender(stack: AsyncExitStack, endpoint: str) -> Outbox[Trace]:
    """Sends traces to a receiver until the stack is closed, in a thread of its own."""
    reason, logger = _LastReason(), logging.getLogger(LIBRARY)
    logger.handlers, logger.propagate = [reason], False
    exporter = OTLPSpanExporter(receiver(endpoint), timeout=_SEND_SECONDS)
    stack.callback(exporter.shutdown)  # after the end of the outbox, so that it ends an attempt to send
    return outbox(
        Spans().of,
        lambda spans: exporter.export(spans) is SpanExportResult.SUCCESS,
        lambda: f"{endpoint}: {reason.text}",
    )


def outbox(
    spans: Callable[[Trace], Sequence[T]], export: Callable[[Sequence[T]], bool], reason: Callable[[], str]
) -> Outbox[Trace]:
    """Traces that are sent as spans. export: sends spans, and returns whether the receiver took them."""

    def send(traces: list[Trace]) -> str:
        made = [span for trace in traces for span in spans(trace)]
        is_taken = all(export(made[at : at + BATCH]) for at in range(0, len(made), BATCH))
        return "" if is_taken else reason() or "the receiver did not take them"

    events = ("traces lost", "traces sent again")
    return Outbox(send, lambda trace: 1 + len(trace.spans), BACKLOG, BATCH, events, level="warning", linger=LINGER)


def receiver(endpoint: str) -> str:
    """The address to which traces are sent: the protocol's path, unless the endpoint has one.

    https://opentelemetry.io/docs/specs/otlp/#otlphttp-request
    """
    url = URL(endpoint)
    return str(url if url.path.strip("/") else url.with_path(_TRACES_PATH))


class Tracer:
    """Begins traces.

    share: of the reviews that begin one where the API server says nothing. slow: see `Trace`. finish: takes what was
    traced, without waiting.
    """

    def __init__(self, share: float, slow: float, finish: Callable[[Trace], None]) -> None:
        self._share = share
        self._slow = slow
        self.finish = finish
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, headers: Mapping[str, str]) -> Trace | None:
        """The trace of a call with these headers; None if it is not traced."""
        if sent := headers.get(_PARENT):
            context = self._propagator.extract({_PARENT: sent, _STATE: headers.get(_STATE, "")})
            parent = get_current_span(context).get_span_context()
            if parent.is_valid:
                return Trace(context, self._slow) if parent.trace_flags.sampled else None
        return Trace(None, self._slow) if random() < self._share else None  # noqa: S311 - no secret


_SERVICE = "cks-admission"
_ERROR = 500


class Spans:
    """Makes spans."""

    def __init__(self) -> None:
        self._ended = _Ended()
        # Who sends the spans. Users add to it by the variable OTEL_RESOURCE_ATTRIBUTES.
        resource = Resource.create(
            {
                "service.name": os.environ.get("OTEL_SERVICE_NAME") or _SERVICE,
                "service.version": VERSION,
                "service.instance.id": socket.gethostname(),
            }
        )
        provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False)
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer(_SERVICE, VERSION)

    def of(self, trace: Trace) -> list[ReadableSpan]:
        """The spans of a trace, that of the whole review last."""
        review = self._tracer.start_span(
            "review", trace.parent or Context(), SpanKind.SERVER, trace.attributes,
            start_time=trace.nanoseconds(trace.began),
        )  # fmt: skip
        inside = set_span_in_context(review, Context())
        for part in trace.spans:
            span = self._tracer.start_span(
                part.name, inside, attributes=part.attributes, start_time=trace.nanoseconds(part.began)
            )
            span.end(trace.nanoseconds(part.ended))
        if trace.status >= _ERROR:
            review.set_status(Status(StatusCode.ERROR))
        review.end(trace.nanoseconds(trace.ended))
        return self._ended.take()


class _Ended(SpanProcessor):
    """Spans that have ended. OpenTelemetry's own queue starts a thread in each forked process."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def take(self) -> list[ReadableSpan]:
        spans, self._spans = self._spans, []
        return spans
