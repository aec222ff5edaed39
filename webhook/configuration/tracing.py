"""The section `tracing` of the configuration."""

from __future__ import annotations

from pydantic import Field

from webhook.configuration.fields import Model


class TracingSettings(Model):
    """Traces of reviews, sent by OpenTelemetry's protocol. They hold identities and verdicts, no content of objects."""

    endpoint: str = Field(
        "",
        pattern=r"^(https?://\S{1,500})?$",
        description="Receiver that speaks OTLP over HTTP, such as http://collector.monitoring:4318; empty: no traces.",
    )
    share: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of reviews that are traced, from 0 to 1; where the API server traces, it decides instead.",
    )
    rule_seconds: float = Field(
        0.001, ge=0, description="A rule that takes less has no span of its own; 0: each has one."
    )
