"""The sections `tracing`, `events` and `audit` of the configuration: what the service tells of what it does."""

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


class EventsSettings(Model):
    """Events in a cluster, by which people see on their workloads what is said of them."""

    refusals: bool = Field(
        True,
        description="Tell a Deployment, JobSet or the like when what its controllers make is refused; once in an hour "
        "for each rule.",
    )
    findings: bool = Field(
        True,
        description="Tell a workload when an audit with reports finds that it, or what controllers make for it, would "
        "be refused; again when its report changes.",
    )


class AuditSettings(Model):
    """What audits with reports leave behind, beside these."""

    record: str = Field(
        "",
        max_length=253,
        description="Name of a ConfigMap in cluster.namespace, which must be there. An audit of all Namespaces writes "
        "into it what it did, and manage makes metrics of it. Empty: neither happens.",
    )
