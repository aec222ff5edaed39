"""All metrics of the service. `docs/reference/metrics.md` lists them, and a test compares the two."""

from __future__ import annotations

import collections
import platform
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from policies.engine.comparison import OUTCOMES
from policies.engine.engine import Answer, Unanimity
from policies.engine.request import AdmissionRequest, Operation
from policies.engine.rule import Phase
from policies.kubernetes.release import Release
from webhook.heavy.ruletimes import RuleTimes
from webhook.version import VERSION

CONTENT_TYPE = CONTENT_TYPE_LATEST
# From a tenth of the usual time of a review to the longest time-out of a webhook.
BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_LATE = 100  # policies with a series of their own
_TIMED = 200  # rules and policies with series of their own
_OTHERS = "others"


class Watches(Protocol):
    """What follows the cluster."""

    def ages(self) -> Mapping[str, float]:
        """Seconds since the last proof that what is known is up to date, by kind of object."""

    def silence(self) -> float:
        """Seconds since the last answer of the API server."""


class Kubernetes(Protocol):
    """The API server beside which the process runs.

    current: the release as which policies are judged. version: empty until it is known.
    """

    current: Release
    version: str

    @property
    def is_proven(self) -> bool:
        """Whether it is proven that policies are judged as by this API server."""


class Inventory(Protocol):
    """The Nodes and Pods from which domains are chosen."""

    def age(self) -> float:
        """Seconds since the last proof that all of it is up to date."""

    def sizes(self) -> Mapping[str, int]:
        """How much it holds, by kind."""


class Log(Protocol):
    """Where log lines go."""

    def take_lost(self) -> int:
        """How many lines were lost since this was last called."""


class Records(Protocol):
    """Where records of decisions go."""

    def take(self) -> tuple[int, int]:
        """How many were written and lost since this was last called."""


class Placing:
    """The metrics of choosing domains. inventory: what they are chosen from; None where another process keeps it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.inventory: Inventory | None = None
        self.outcomes = Counter(
            "cks_admission_placements_total",
            "Domains asked for, by outcome: fits, preempts, full, never, or unknown if none could be chosen.",
            ("outcome",),
            registry=registry,
        )
        self.ways = Counter(
            "cks_admission_placed_templates_total",
            "Templates placed, by who keeps their Pods together: none if nobody can.",
            ("way",),
            registry=registry,
        )
        self.seconds = Histogram(
            "cks_admission_choice_duration_seconds",
            "Time to choose the domains for a workload.",
            buckets=BUCKETS,
            registry=registry,
        )
        self.lost = Gauge(
            "cks_admission_gangs_without_domain",
            "Gangs that wait for a domain whose Nodes cannot hold them any more; in the process that leads.",
            registry=registry,
        )
        self.flawed = Gauge(
            "cks_admission_fabric_flawed_nodes",
            "Nodes with a flaw of the network, by kind: slow, miswired, split, incomplete or mixed; in the process "
            "that leads.",
            ("kind",),
            registry=registry,
        )
        self._age = Gauge(
            "cks_admission_inventory_age_seconds",
            "Time since the Nodes and Pods from which domains are chosen were last proved to be up to date.",
            registry=registry,
        )
        self._objects = Gauge(
            "cks_admission_inventory_objects",
            "What is counted there: node, pod or promise.",
            ("kind",),
            registry=registry,
        )

    def update(self) -> None:
        """Set what is known of the inventory now."""
        if self.inventory is not None:
            self._age.set(self.inventory.age())
            for kind, size in self.inventory.sizes().items():
                self._objects.labels(kind).set(size)


class ShadowMetrics:
    """The metrics of policies in the shadow. expression_faults: those of all policies."""

    def __init__(self, registry: CollectorRegistry, expression_faults: Counter) -> None:
        self.expression_faults = expression_faults
        self._counted: set[str] = set()
        self.decisions = Counter(
            "cks_admission_shadow_decisions_total",
            "Requests by what a policy in the shadow would make of them: same, refuse, admit or warn; for at most 100 "
            "policies.",
            ("policy", "outcome"),
            registry=registry,
        )
        self.reviews = Counter(
            "cks_admission_shadow_reviews_total",
            "Reviews for policies in the shadow: judged, dropped for want of time, late if it took too long, failed.",
            ("outcome",),
            registry=registry,
        )
        self.policies = Gauge("cks_admission_shadow_policies", "Policies in the shadow.", registry=registry)
        self.refused = Gauge(
            "cks_admission_shadow_policies_refused",
            "1 while the newest content of a directory of policies in the shadow is not used, since it was refused.",
            registry=registry,
        )

    def count(self, policy: str, outcome: str) -> None:
        """Count one judgement."""
        if policy in self._counted or len(self._counted) < _LATE:
            self._counted.add(policy)
            self.decisions.labels(policy, outcome).inc()

    def in_force(self, names: Container[str]) -> None:
        """End the series of policies that are not in the shadow any more."""
        for policy in [policy for policy in self._counted if policy not in names]:
            self._counted.remove(policy)
            for outcome in OUTCOMES:
                with suppress(KeyError):
                    self.decisions.remove(policy, outcome)

    def policies_loaded(self, kinds: Iterable[str], *, refused: bool) -> None:
        """Note what was read."""
        self.policies.set(len(tuple(kinds)))
        self.refused.set(1 if refused else 0)


class Metrics:
    """The metrics in a registry of their own, so that two services in one process do not conflict.

    watches, kubernetes: what follows the cluster, and its release; None without a cluster. log, records: where log
    lines and records of decisions go; None if they are not counted. role: what the process does: `replica` or `manage`.
    """

    watches: Watches | None = None
    kubernetes: Kubernetes | None = None
    log: Log | None = None
    records: Records | None = None

    def __init__(self, role: str = "replica") -> None:  # noqa: PLR0915 - a list
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
            "Calls and connections refused, or ended for another, for want of room: by the limit that was reached.",
            ("limit",),
        )
        self.rejected_calls = counter(
            "cks_admission_rejected_calls_total",
            "Calls answered with an HTTP error instead of an AdmissionReview.",
            ("status",),
        )
        self.decisions = counter(
            "cks_admission_decisions_total",
            "Decisions of rules: admit, patch, deny, warn, audit, excepted or error.",
            ("phase", "rule", "operation", "verdict"),
        )
        self.exceptions_used = counter(
            "cks_admission_exceptions_used_total",
            "Decisions in which an exception let a request pass a rule.",
            ("exception", "rule"),
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
        self.policy_overtime = counter(
            "cks_admission_policy_overtime_total",
            "Reviews whose time was over while this policy was evaluated; for at most 100 policies.",
            ("policy",),
        )
        self.rule_evaluations = counter(
            "cks_admission_rule_evaluations_total",
            "Evaluations of a rule or policy; of at most 200 and `others`.",
            ("rule",),
        )
        self.rule_seconds = counter("cks_admission_rule_seconds_total", "Seconds that these took.", ("rule",))
        self.rule_times = RuleTimes()
        self._timed: set[str] = set()
        self._late: dict[str, None] = {}
        self.policies = gauge("cks_admission_policies", "Admission policies in force, by kind.", ("kind",))
        self.policy_reloads = counter(
            "cks_admission_policy_reloads_total",
            "Times that policies were read after a change: loaded, or refused at least in part.",
            ("outcome",),
        )
        self.policies_refused = gauge(
            "cks_admission_policies_refused",
            "1 while the newest content of a source of policies is not in force, since it was refused; else 0.",
        )
        self.expression_faults = counter(
            "cks_admission_expression_faults_total",
            "Evaluations in which generated code failed although the expression has a value, which was found slowly.",
        )
        self.loop_lag = Histogram(
            "cks_admission_loop_lag_seconds",
            "How much later than it should the event loop runs a task, ten times a second.",
            buckets=LAG_BUCKETS,
            registry=self.registry,
        )
        self.collections = counter(
            "cks_admission_gc_collections_total",
            "Runs of the garbage collector over more than the newest objects.",
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
        self.label_writers = gauge(
            "cks_admission_label_writers",
            "Policies and conversions that can write labels past the guard, by kind; verdict: reserved or possible.",
            ("kind", "verdict"),
        )
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
        self.placing = Placing(self.registry)
        self.log_lines_lost = counter(
            "cks_admission_log_lines_lost_total", "Log lines that were left out, since they could not be written."
        )
        self.decision_records = counter(
            "cks_admission_decision_records_total",
            "Records for the log of decisions: written, or lost since they could not be written.",
            ("outcome",),
        )
        self.shadow = ShadowMetrics(self.registry, self.expression_faults)
        self.workers = gauge("cks_admission_workers", "Worker processes that answer their supervisor.")
        self.worker_restarts = counter(
            "cks_admission_worker_restarts_total", "Workers that were started in place of one that had ended."
        )
        gauge("cks_admission_build_info", "Always 1.", ("version", "python", "role")).labels(
            VERSION, platform.python_version(), role
        ).set(1)
        self._kubernetes = gauge(
            "cks_admission_kubernetes_info",
            "Always 1: the API server's version, the release as which policies are judged, and whether that is proven.",
            ("release", "version", "proven"),
        )
        self._uncounted: dict[tuple[Counter, tuple[str, ...]], int] = {}
        self._unanimous: dict[tuple[Phase, Operation, Unanimity], int] = {}  # answers in which every rule admits
        self._ruled: dict[tuple[Counter, tuple[str, ...]], str] = {}  # series with the rule that each is about
        self._durations = {phase: self.duration.labels(phase) for phase in ("mutate", "validate")}

    def observe(self, phase: Phase, request: AdmissionRequest, answer: Answer, seconds: float) -> None:
        """Count one answered review."""
        operation = request.operation
        allowed = "true" if answer.allowed else "false"
        self._count(self.requests, phase, operation, allowed, "true" if request.dry_run else "false")
        self._durations[phase].observe(seconds)
        if answer.unanimity is not None:
            alike = phase, operation, answer.unanimity
            self._unanimous[alike] = self._unanimous.get(alike, 0) + 1
            return
        for decision in answer.decisions:
            self._count(self.decisions, phase, decision.rule, operation, decision.verdict)
            for way in decision.ways:
                self.placing.ways.labels(way).inc()
            if decision.exception is not None and decision.verdict == "excepted":
                self._count(self.exceptions_used, decision.exception.name, decision.rule)
        if answer.operations:
            self.patch_operations.inc(len(answer.operations))

    def _count(self, counter: Counter, *labels: str, times: int = 1) -> None:
        # `labels()` and `inc()` check, hash and lock. With thirty policies that takes a tenth of the policies' own
        # time. Nobody needs the sums before they are exposed.
        key = counter, labels
        self._uncounted[key] = self._uncounted.get(key, 0) + times

    def overtime(self, policy: str) -> None:
        """Count a review whose time was over while a policy was evaluated."""
        if policy in self._late or len(self._late) < _LATE:
            self._late[policy] = None
            self.policy_overtime.labels(policy).inc()

    def in_force(self, names: Container[str]) -> None:
        """End the series of rules and policies that are no longer in force."""
        self._flush()
        for policy in [policy for policy in self._late if policy not in names]:
            del self._late[policy]
            self.policy_overtime.remove(policy)
        for rule in [rule for rule in self._timed if rule not in names]:
            self._timed.remove(rule)
            self.rule_evaluations.remove(rule)
            self.rule_seconds.remove(rule)
        for counter, labels in [key for key, rule in self._ruled.items() if rule not in names]:
            del self._ruled[counter, labels]
            counter.remove(*labels)

    def _flush(self) -> None:
        for (phase, operation, unanimity), times in self._unanimous.items():
            for decision in unanimity:
                self._count(self.decisions, phase, decision.rule, operation, decision.verdict, times=times)
        self._unanimous.clear()
        for (counter, labels), times in self._uncounted.items():
            counter.labels(*labels).inc(times)
            if counter is not self.requests:
                self._ruled[counter, labels] = labels[1]
        self._uncounted.clear()
        self._flush_times()

    def _flush_times(self) -> None:
        for name, times, seconds in self.rule_times.take():
            rule = name if name in self._timed or len(self._timed) < _TIMED else _OTHERS
            self._timed |= {rule} - {_OTHERS}
            self.rule_evaluations.labels(rule).inc(times)
            self.rule_seconds.labels(rule).inc(seconds)

    def policies_loaded(self, kinds: Iterable[str], *, refused: bool) -> None:
        """Count one reload. kinds: the kind of each loaded policy."""
        counted = collections.Counter(kinds)
        for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
            self.policies.labels(kind).set(counted[kind])
        self.policy_reloads.labels("refused" if refused else "loaded").inc()
        self.policies_refused.set(1 if refused else 0)

    def expose(self) -> bytes:
        """The metrics in Prometheus' text format."""
        self._flush()
        if self.log is not None:
            self.log_lines_lost.inc(self.log.take_lost())
        if self.records is not None:
            for outcome, times in zip(("written", "lost"), self.records.take(), strict=True):
                self.decision_records.labels(outcome).inc(times)
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
