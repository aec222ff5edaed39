"""The metrics of audits that leave reports in the cluster: what the last one did, in the process that leads."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge

from webhook.audit.record import Record


class AuditMetrics:
    """The metrics of the last audit; of several parts the sum, the earliest end and the longest time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.ended = Gauge(
            "cks_admission_audit_end_timestamp_seconds",
            "When the last audit ended, in Unix time; before the first one, since when there could be one; 0 if "
            "unknown.",
            registry=registry,
        )
        self.seconds = Gauge("cks_admission_audit_duration_seconds", "How long the last audit took.", registry=registry)
        self.objects = Gauge("cks_admission_audit_objects", "Objects that the last audit judged.", registry=registry)
        self.unreadable = Gauge(
            "cks_admission_audit_unreadable_kinds",
            "Kinds of which the last audit could not read all objects.",
            registry=registry,
        )
        self.findings = Gauge(
            "cks_admission_audit_findings",
            "Objects about which the last audit found something, by policy and verdict; for at most 100 policies.",
            ("policy", "verdict"),
            registry=registry,
        )
        self.reports = Gauge(
            "cks_admission_audit_reports",
            "Reports that the last audit has written, removed, left unchanged, or that the API server refused.",
            ("outcome",),
            registry=registry,
        )
        self.events = Gauge(
            "cks_admission_audit_events",
            "Events about reports that the last audit has written, omitted as too many, or failed to write.",
            ("outcome",),
            registry=registry,
        )

    def show(self, since: float, records: Sequence[Record]) -> None:
        """Show an audit by the records of its parts. since: what to show before the first one, in Unix time."""
        self.clear()
        self.ended.set(min((record.ended for record in records), default=since))
        self.seconds.set(max((record.seconds for record in records), default=0))
        self.objects.set(sum(record.objects for record in records))
        self.unreadable.set(sum(record.unreadable for record in records))
        for record in records:
            for policy, verdicts in record.findings.items():
                for verdict, count in verdicts.items():
                    self.findings.labels(policy, verdict).inc(count)
            for outcome, count in record.reports.items():
                self.reports.labels(outcome).inc(count)
            for outcome, count in record.events.items():
                self.events.labels(outcome).inc(count)

    def clear(self) -> None:
        """Show nothing."""
        for gauge in (self.ended, self.seconds, self.objects, self.unreadable):
            gauge.set(0)
        for family in (self.findings, self.reports, self.events):
            family.clear()
