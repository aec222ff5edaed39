"""All metrics of the service. `docs/reference/metrics.md` lists them, and a test compares the two."""

from __future__ import annotations

import collections
import platform
from collections.abc import Container, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from policies.engine.engine import Answer
from policies.engine.request import AdmissionRequest
from policies.engine.rule import Phase
from webhook.measures import BUCKETS, LAG_BUCKETS, AuditMetrics, Placing, RuleMetrics, ShadowMetrics
from webhook.version import VERSION

if TYPE_CHECKING:
    from webhook.cluster.watches.cluster import ServedRelease, WatchAges
    from webhook.logs import Sink
    from webhook.outbox import Outbox


CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The metrics in a registry of their own, so that two services in one process do not conflict.

    watches, kubernetes: what follows the cluster, and its release; None without a cluster. log, records, traces: where
    log lines, records of decisions and traces go; None if there are none. role: what the process does: `replica` or
    `manage`.
    """

    watches: WatchAges | None = None
    kubernetes: ServedRelease | None = None
    log: Sink | None = None
    records: Outbox[Any] | None = None
    traces: Outbox[Any] | None = None

    def __init__(self, role: str = "replica") -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self.requests = counter(
            "cks_admission_requests_total", "AdmissionReviews answered.", ("phase", "operation", "allowed", "dry_run")
        )
        self.duration = Histogram(
            "cks_admission_request_duration_seconds",
            "Time from the whole body read to the answer built.",
            ("phase",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.in_flight = gauge("cks_admission_requests_in_flight", "AdmissionReviews being received or answered.")
        self.bytes_in_flight = gauge("cks_admission_bytes_in_flight", "Bytes of bodies being received or answered.")
        self.connections = gauge("cks_admission_connections", "Connections to the TLS port.")
        self.no_room = counter(
            "cks_admission_no_room_total",
            "Calls and connections refused, or closed for another, by the limit that was reached.",
            ("limit",),
        )
        self.rejected_calls = counter(
            "cks_admission_rejected_calls_total",
            "Calls answered with an HTTP error instead of an AdmissionReview.",
            ("status",),
        )
        self.patch_operations = counter("cks_admission_patch_operations_total", "JSON Patch operations sent.")
        self.lookups = counter(
            "cks_admission_lookups_total",
            "Namespaces read, parameters waited for and authorization checks asked of the API server: found or failed.",
            ("outcome",),
        )
        self.postponed = counter(
            "cks_admission_postponed_reviews_total",
            "Reviews that took too long for the event loop and went to the child process.",
        )
        self.heavy = counter(
            "cks_admission_child_reviews_total",
            "Reviews given to the child process: answered, or ended with the process.",
            ("outcome",),
        )
        self.heavy_waiting = gauge("cks_admission_child_reviews_waiting", "Reviews that wait for the child process.")
        self.policies = gauge("cks_admission_policies", "Admission policies in force, by kind.", ("kind",))
        self.policy_reloads = counter(
            "cks_admission_policy_reloads_total",
            "Times that policies were read after a change: loaded, or refused at least in part.",
            ("outcome",),
        )
        self.policies_refused = gauge(
            "cks_admission_policies_refused", "1 while the newest content of a source of policies is refused; else 0."
        )
        self.expression_faults = counter(
            "cks_admission_expression_faults_total",
            "Evaluations in which generated code failed although the expression has a value.",
        )
        self.loop_lag = Histogram(
            "cks_admission_loop_lag_seconds",
            "Delay of a task of the event loop, ten times a second.",
            buckets=LAG_BUCKETS,
            registry=self.registry,
        )
        self.collections = counter(
            "cks_admission_gc_collections_total",
            "Runs of the garbage collector, except over the newest objects alone.",
            ("generation",),
        )
        self.collection_seconds = counter(
            "cks_admission_gc_seconds_total", "Seconds that these runs took; nothing else runs then.", ("generation",)
        )
        self.certificate_expiry = gauge(
            "cks_admission_certificate_expiry_timestamp_seconds", "When the served certificate expires, in Unix time."
        )
        self.authority_expiry = gauge(
            "cks_admission_authority_expiry_timestamp_seconds",
            "When the CA expires that signs the served certificate, in Unix time; only where the service has one.",
        )
        self.leader = gauge("cks_admission_leader", "1 while this replica holds the lease; else 0.")
        self.entries_withheld = gauge(
            "cks_admission_registration_entries_withheld",
            "1 while webhook entries that fail closed are not registered, since a replica does not know them; else 0.",
        )
        self.registrations = counter(
            "cks_admission_registrations_total",
            "Webhook configurations written: for a change here, or to repair what somebody else changed; or failed.",
            ("outcome",),
        )
        self.configuration_reloads = counter(
            "cks_admission_configuration_reloads_total",
            "Times that the configuration or files with topologies were read after a change: loaded or refused.",
            ("outcome",),
        )
        self.configuration_refused = gauge(
            "cks_admission_configuration_refused",
            "1 while the newest configuration or files with topologies are not in force; else 0.",
        )
        self.watch_age = gauge(
            "cks_admission_watch_age_seconds",
            "Time since the API server last proved that the known objects of a kind are up to date.",
            ("resource",),
        )
        self.silence = gauge(
            "cks_admission_api_server_silence_seconds", "Time since the API server last answered any list or watch."
        )
        self.rules = RuleMetrics(self.registry)
        self.placing = Placing(self.registry)
        self.log_lines_lost = counter(
            "cks_admission_log_lines_lost_total", "Log lines that were left out, since they could not be written."
        )
        self.decision_records = counter(
            "cks_admission_decision_records_total", "Records for the decision log: written, or lost.", ("outcome",)
        )
        self.refusal_events = counter(
            "cks_admission_refusal_events_total",
            "Events about refusals on the workloads of controllers: written, dropped as too many waited, or failed.",
            ("outcome",),
        )
        self.traces_sent = counter(
            "cks_admission_traces_total",
            "Traces of reviews: sent, or lost since the receiver did not take them.",
            ("outcome",),
        )
        self.shadow = ShadowMetrics(self.registry, self.expression_faults)
        self.audits = AuditMetrics(self.registry)
        gauge("cks_admission_build_info", "Always 1.", ("version", "python", "role")).labels(
            VERSION, platform.python_version(), role
        ).set(1)
        self._kubernetes = gauge(
            "cks_admission_kubernetes_info",
            "Always 1: the API server's version, the release as which policies are judged, and whether that is proven.",
            ("release", "version", "proven"),
        )
        self._durations = {phase: self.duration.labels(phase) for phase in ("mutate", "validate")}
        self._answers: collections.Counter[tuple[str, ...]] = collections.Counter()

    def observe(self, phase: Phase, request: AdmissionRequest, answer: Answer, seconds: float) -> None:
        """Count one answered review."""
        allowed = "true" if answer.allowed else "false"
        # `labels()` and `inc()` check, hash and lock. Nobody needs the sums before they are exposed.
        self._answers[phase, request.operation, allowed, "true" if request.dry_run else "false"] += 1
        self._durations[phase].observe(seconds)
        self.rules.observe(phase, request, answer)
        if answer.unanimity is not None:
            return
        for decision in answer.decisions:
            for way in decision.ways:
                self.placing.ways.labels(way).inc()
        if answer.operations:
            self.patch_operations.inc(len(answer.operations))

    def in_force(self, names: Container[str]) -> None:
        """End the series of rules and policies that are no longer in force."""
        self.rules.in_force(names)

    def policies_loaded(self, kinds: Iterable[str], *, refused: bool) -> None:
        """Count one reload. kinds: the kind of each loaded policy."""
        counted = collections.Counter(kinds)
        for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
            self.policies.labels(kind).set(counted[kind])
        self.policy_reloads.labels("refused" if refused else "loaded").inc()
        self.policies_refused.set(1 if refused else 0)

    def expose(self) -> bytes:
        """The metrics in Prometheus' text format."""
        self.rules.flush()
        for labels, times in self._answers.items():
            self.requests.labels(*labels).inc(times)
        self._answers.clear()
        if self.log is not None:
            self.log_lines_lost.inc(self.log.take_lost())
        for counter, outcome, outbox in (
            (self.decision_records, "written", self.records),
            (self.traces_sent, "sent", self.traces),
        ):
            for result, times in zip((outcome, "lost"), outbox.take() if outbox else (0, 0), strict=True):
                counter.labels(result).inc(times)
        self.placing.update()
        if (beside := self.kubernetes) is not None:
            self._kubernetes.clear()
            proven = "true" if beside.is_proven else "false"
            self._kubernetes.labels(beside.current.name, beside.version, proven).set(1)
        if self.watches is not None:
            self.silence.set(self.watches.silence())
            self.watch_age.clear()  # so that the series of kinds that are followed no more end
            for resource, age in self.watches.ages().items():
                self.watch_age.labels(resource).set(age)
        return generate_latest(self.registry)
