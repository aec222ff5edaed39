"""Makes traces of the reviews of a process, if a receiver is configured."""

from __future__ import annotations

from contextlib import AsyncExitStack
from importlib.util import find_spec

from yarl import URL

from webhook.configuration.settings import SettingsError, TracingSettings
from webhook.http.app import Service
from webhook.tracing.export import Export, Reasons

# A receiver beside the service answers in milliseconds. While one attempt lasts, traces wait.
_SECONDS = 5.0
_PATH = "/v1/traces"
_MISSING = (
    "tracing.endpoint needs OpenTelemetry, which is not installed: pip install 'cks-admission[tracing]', "
    "or leave it empty"
)


def trace(stack: AsyncExitStack, service: Service, settings: TracingSettings) -> None:
    """Have the reviews of a service traced until the stack is closed. Raises SettingsError."""
    if not settings.endpoint:
        return
    if not all(map(find_spec, ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter"))):
        raise SettingsError(_MISSING)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - OpenTelemetry costs 8 MB
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 - as above

    from webhook.tracing.spans import Spans  # noqa: PLC0415 - as above
    from webhook.tracing.tracer import Tracer  # noqa: PLC0415 - as above

    reasons = Reasons()
    reasons.install()
    sender = OTLPSpanExporter(receiver(settings.endpoint), timeout=_SECONDS)
    export = Export(
        Spans().of,
        lambda spans: sender.export(spans) is SpanExportResult.SUCCESS,
        sender.shutdown,
        lambda: f"{settings.endpoint}: {reasons.last}",
    )
    export.start()
    stack.callback(export.end)
    service.metrics.traces = export
    service.state.add_note("tracing", export.problems)
    service.tracing = Tracer(settings.share, settings.rule_seconds, export.add)


def receiver(endpoint: str) -> str:
    """The address to which traces are sent: the protocol's path, unless the endpoint has one.

    https://opentelemetry.io/docs/specs/otlp/#otlphttp-request
    """
    url = URL(endpoint)
    return str(url if url.path.strip("/") else url.with_path(_PATH))
