"""Makes OpenTelemetry's spans of traces."""

from __future__ import annotations

import os
import socket

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from webhook.tracing.trace import Trace
from webhook.version import VERSION

_SERVICE = "cks-admission"
_ERROR = 500


class Spans:
    """Makes spans."""

    def __init__(self) -> None:
        self._ended = _Ended()
        provider = TracerProvider(ALWAYS_ON, _resource(), shutdown_on_exit=False)
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


def _resource() -> Resource:
    """Who sends the spans. Users add to it by the variable OTEL_RESOURCE_ATTRIBUTES."""
    return Resource.create(
        {
            "service.name": os.environ.get("OTEL_SERVICE_NAME") or _SERVICE,
            "service.version": VERSION,
            "service.instance.id": socket.gethostname(),
        }
    )


class _Ended(SpanProcessor):
    """Spans that have ended. OpenTelemetry's own queue starts a thread in each forked process."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def take(self) -> list[ReadableSpan]:
        spans, self._spans = self._spans, []
        return spans
