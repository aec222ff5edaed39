"""Decides which reviews are traced.

The API server sends `traceparent` where its own tracing is on: https://www.w3.org/TR/trace-context/. Its choice is
followed, and a trace goes on with the span of the API server as its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import random

from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from webhook.tracing.trace import Trace

_PARENT, _STATE = "traceparent", "tracestate"


class Tracer:
    """Begins and ends traces.

    share: of the reviews that begin one where the API server says nothing. slow: see `Trace`. finish: takes what was
    traced, without waiting.
    """

    def __init__(self, share: float, slow: float, finish: Callable[[Trace], None]) -> None:
        self._share = share
        self._slow = slow
        self._finish = finish
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, headers: Mapping[str, str]) -> Trace | None:
        """The trace of a call with these headers; None if it is not traced."""
        if sent := headers.get(_PARENT):
            context = self._propagator.extract({_PARENT: sent, _STATE: headers.get(_STATE, "")})
            parent = get_current_span(context).get_span_context()
            if parent.is_valid:
                return Trace(context, self._slow) if parent.trace_flags.sampled else None
        return Trace(None, self._slow) if random() < self._share else None  # noqa: S311 - no secret

    def end(self, trace: Trace, path: str, status: int) -> None:
        """End a trace with the HTTP status of the answer. path: at which it was asked, if it is one that is served."""
        trace.end(path, status)
        self._finish(trace)
