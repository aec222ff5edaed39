"""All metrics of the service, by what they are about. `docs/reference/metrics.md` lists them; a test compares both."""

from __future__ import annotations

import platform
from collections import Counter as Tally
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from policies.engine.comparison import OUTCOMES
from policies.engine.engine import Answer, Unanimity
from policies.engine.request import AdmissionRequest, Operation
from policies.engine.rule import Names, Phase
from webhook.audit.finding import Record
from webhook.version import VERSION

if TYPE_CHECKING:
    from policies.topology.placer.placer import Look, Waiting
    from webhook.cluster.watches.cluster import ServedRelease, WatchAges
    from webhook.logs import Sink
    from webhook.outbox import Outbox

# From a tenth of the usual time of a review to the longest time-out of a webhook.
BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


NOTABLE = 0.1
"""Policies that use less of their cost limits are not noted. Those that are judged together use less."""


class RuleTimes:
    """Evaluations, seconds and used parts of limits by rule, since they were last taken.

    used: the largest part of a cost limit that an evaluation of a policy used.
    It is called with the name of each rule after its evaluation, which began when the one before it ended. Rules that
    are judged together share their time equally: to measure each of them would take longer than most of them take.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._evaluations: Tally[str] = Tally()
        self._together: dict[Names, tuple[int, float]] = {}
        self._since = 0.0
        self.used: dict[str, float] = {}

    def begin(self) -> None:
        """Begin the first evaluation of a review."""
        self._since = perf_counter()

    def __call__(self, rule: str | Sequence[str]) -> None:
        """End the evaluation of a rule, or of rules that are judged together, and begin the next one."""
        now = perf_counter()
        took, self._since = now - self._since, now
        if isinstance(rule, Names):
            times, seconds = self._together.get(rule, (0, 0.0))
            self._together[rule] = times + 1, seconds + took
        else:
            self._add(str(rule), took)

    def spend(self, policy: str, used: float) -> None:
        """Note which part of a cost limit an evaluation of a policy used."""
        if used >= NOTABLE and used > self.used.get(policy, 0.0):
            self.used[policy] = used

    def add(self, seconds: Mapping[str, float], used: Mapping[str, float]) -> None:
        """Count evaluations of another process."""
        for rule, took in seconds.items():
            self._add(rule, took)
        for policy, part in used.items():
            self.spend(policy, part)

    def take(self) -> list[tuple[str, int, float]]:
        """Rules with their evaluations and seconds; then nothing is left."""
        together, self._together = self._together, {}
        for names, (times, seconds) in together.items():
            for rule in names:
                self._add(rule, seconds / len(names), times)
        taken = [(rule, times, self.seconds[rule]) for rule, times in self._evaluations.items()]
        self.seconds, self._evaluations = {}, Tally()
        return taken

    def _add(self, rule: str, seconds: float, times: int = 1) -> None:
        self.seconds[rule] = self.seconds.get(rule, 0.0) + seconds
        self._evaluations[rule] += times


MOST = 200
"""Rules and policies with series of their own, in each replica."""
OTHERS = "others"
"""The rest of them."""


def _makers(registry: CollectorRegistry) -> tuple[partial[Counter], partial[Gauge], partial[Histogram]]:
    """What makes metrics of a registry, whose names all begin with `cks_admission_`."""
    prefix = "cks_admission"
    return (
        partial(Counter, namespace=prefix, registry=registry),
        partial(Gauge, namespace=prefix, registry=registry),
        partial(Histogram, namespace=prefix, registry=registry),
    )


class RuleMetrics:
    """What rules decide, how long that takes, and how near policies come to the limits of cost and time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge, _ = _makers(registry)
        self.decisions = counter(
            "decisions_total",
            "Decisions of rules: admit, patch, deny, warn, audit, excepted or error; of at most 200 and `others`.",
            ("phase", "rule", "operation", "verdict"),
        )
        self.exceptions_used = counter(
            "exceptions_used_total", "Decisions in which an exception let a request pass a rule.", ("exception", "rule")
        )
        self.evaluations = counter("rule_evaluations_total", "Evaluations of a rule or policy.", ("rule",))
        self.seconds = counter("rule_seconds_total", "Seconds that these evaluations took.", ("rule",))
        self.policy_overtime = counter("policy_overtime_total", "Reviews whose time ended in this policy.", ("policy",))
        self.budget = gauge(
            "policy_budget_used_ratio",
            "The largest part of a cost limit of CEL that an evaluation of the policy has used, from some 0.1 on.",
            ("policy",),
        )
        self.times = RuleTimes()
        # The rules with series of their own: the first that come, for as long as they are in force.
        self._own: set[str] = set()
        self._series: dict[str, set[tuple[Counter, tuple[str, ...]]]] = {}
        self._used: dict[str, float] = {}
        self._uncounted: dict[tuple[Counter, tuple[str, ...]], int] = {}
        self._unanimous: dict[tuple[Phase, Operation, Unanimity], int] = {}  # answers in which every rule admits

    def observe(self, phase: Phase, request: AdmissionRequest, answer: Answer) -> None:
        """Count the decisions of one answer."""
        if answer.unanimity is not None:
            alike = phase, request.operation, answer.unanimity
            self._unanimous[alike] = self._unanimous.get(alike, 0) + 1
            return
        for decision in answer.decisions:
            self._count(self.decisions, phase, decision.rule, request.operation, decision.verdict)
            if decision.exception is not None and decision.verdict == "excepted":
                self._count(self.exceptions_used, decision.exception.name, decision.rule)

    def overtime(self, policy: str) -> None:
        """Count a review whose time was over while a policy was evaluated."""
        self._add(self.policy_overtime, (policy,))

    def in_force(self, names: Container[str]) -> None:
        """End the series of rules and policies that are no longer in force, and what was measured of changed ones."""
        self.flush()
        gone = {rule for rule in self._own if rule not in names}
        self._own -= gone  # which makes room for others
        for rule in gone:
            for counter, labels in self._series.pop(rule, ()):
                counter.remove(*labels)
        self.budget.clear()
        self._used.clear()

    def flush(self) -> None:
        """Bring the series up to date."""
        for (phase, operation, unanimity), times in self._unanimous.items():
            for decision in unanimity:
                self._count(self.decisions, phase, decision.rule, operation, decision.verdict, times=times)
        self._unanimous.clear()
        for (counter, labels), times in self._uncounted.items():
            self._add(counter, labels, times, at=1)
        self._uncounted.clear()
        for rule, times, seconds in self.times.take():
            self._add(self.evaluations, (rule,), times)
            self._add(self.seconds, (rule,), seconds)
        largest, self.times.used = self.times.used, {}
        for policy, used in largest.items():
            name = self._name(policy)
            self._used[name] = max(used, self._used.get(name, 0.0))
            self.budget.labels(name).set(self._used[name])

    def _count(self, counter: Counter, *labels: str, times: int = 1) -> None:
        # `labels()` and `inc()` check, hash and lock. With thirty policies that takes a tenth of the policies' own
        # time. Nobody needs the sums before they are exposed.
        key = counter, labels
        self._uncounted[key] = self._uncounted.get(key, 0) + times

    def _add(self, counter: Counter, labels: tuple[str, ...], times: float = 1, *, at: int = 0) -> None:
        name = self._name(labels[at])
        own = (*labels[:at], name, *labels[at + 1 :])
        self._series.setdefault(name, set()).add((counter, own))
        counter.labels(*own).inc(times)

    def _name(self, rule: str) -> str:
        """The name of a rule in its series."""
        if len(self._own) < MOST:
            self._own.add(rule)
        return rule if rule in self._own else OTHERS


_COUNTED = 100  # policies with series of their own


class ShadowMetrics:
    """The metrics of shadow policies. expression_faults: those of all policies."""

    def __init__(self, registry: CollectorRegistry, expression_faults: Counter) -> None:
        counter, gauge, _ = _makers(registry)
        self.expression_faults = expression_faults
        self._counted: set[str] = set()
        self.decisions = counter(
            "shadow_decisions_total",
            "Requests by what a shadow policy would make of them: same, refuse, admit or warn; for at most 100 "
            "policies.",
            ("policy", "outcome"),
        )
        self.reviews = counter(
            "shadow_reviews_total",
            "Reviews for shadow policies: judged, dropped for want of time, late if it took too long, failed.",
            ("outcome",),
        )
        self.policies = gauge("shadow_policies", "Shadow policies.")
        self.unasked = gauge(
            "shadow_policies_not_asked",
            "Shadow policies that do not see all of their requests: their counts are too low.",
        )
        self.refused = gauge(
            "shadow_policies_refused", "1 while the newest content of a directory of shadow policies is refused."
        )

    def count(self, policy: str, outcome: str) -> None:
        """Count one judgement."""
        if policy in self._counted or len(self._counted) < _COUNTED:
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


AGES: Final = ((60.0, "1m"), (300.0, "5m"), (900.0, "15m"), (3600.0, "1h"))
"""The ages of gangs that wait, in seconds, with the names of those that are younger; older ones are `over`."""

_OPENING_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)


class Placing:
    """The metrics of placing gangs. sizes: how much the placer knows, by kind; None in processes without one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge, histogram = _makers(registry)
        self.sizes: Callable[[], Mapping[str, int]] | None = None
        self.ways = counter(
            "placed_templates_total", "Templates and Pods with a placement, by who keeps their Pods together.", ("way",)
        )
        self.flawed = gauge(
            "fabric_flawed_nodes",
            "Nodes with a flaw of the network, by kind: slow, miswired, split, incomplete or mixed; in the process "
            "that leads.",
            ("kind",),
        )
        self.leading = gauge(
            "placer_leading", "1 in the placer that leads and knows the cluster, so that it opens gates; 0 in others."
        )
        self._waiting = gauge(
            "gangs_waiting",
            "Gangs that wait, by level and age: below 1m, 5m, 15m, 1h, or over; in the placer that leads.",
            ("level", "age"),
        )
        self._overdue = gauge(
            "gangs_overdue",
            "Gangs that wait for longer than topology.patienceSeconds although room was there; in the leading placer.",
        )
        self._opening = histogram(
            "gang_opening_seconds",
            "Time from the last Pod of a gang to the opening of its gates.",
            buckets=_OPENING_BUCKETS,
        )
        self.opened = counter(
            "pods_opened_total", "Gates of Pods: opened, gone (the Pod had changed) or refused.", ("outcome",)
        )
        self._looks = histogram("placer_look_seconds", "Time to decide which gangs start.", buckets=BUCKETS)
        self.objects = gauge("placer_objects", "What the placer knows: node, pod or gang.", ("kind",))

    def look(self, look: Look, seconds: float, now: float) -> None:
        """Count what was decided. now: seconds since the epoch."""
        self._looks.observe(seconds)
        for placed in look.placed:
            self._opening.observe(placed.seconds)
        self.queue(look.queue, now)

    def queue(self, queue: Iterable[Waiting], now: float = 0.0) -> None:
        """Show who waits; nobody in a process that does not lead."""
        waiting = list(queue)
        self._waiting.clear()
        for one in waiting:
            age = next((name for limit, name in AGES if now - one.since < limit), "over")
            self._waiting.labels(one.level, age).inc()
        self._overdue.set(sum(one.overdue for one in waiting))


class AuditMetrics:
    """The metrics of the last audit; of several parts the sum, the earliest end and the longest time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        _, gauge, _ = _makers(registry)
        self.ended = gauge(
            "audit_end_timestamp_seconds",
            "When the last audit ended, in Unix time; before the first one, when its ConfigMap was made; 0 if unknown.",
        )
        self.seconds = gauge("audit_duration_seconds", "How long the last audit took.")
        self.objects = gauge("audit_objects", "Objects that the last audit judged.")
        self.unreadable = gauge(
            "audit_unreadable_kinds", "Kinds whose objects the last audit could not read completely."
        )
        self.findings = gauge(
            "audit_findings",
            "Objects about which the last audit found something, by policy and verdict; for at most 100 policies.",
            ("policy", "verdict"),
        )
        self.reports = gauge(
            "audit_reports",
            "Reports that the last audit has written, removed, left unchanged, or that the API server refused.",
            ("outcome",),
        )
        self.events = gauge(
            "audit_events",
            "Events about reports that the last audit has written, omitted as too many, or failed to write.",
            ("outcome",),
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
        counter, gauge, histogram = _makers(self.registry)
        self.requests = counter(
            "requests_total", "AdmissionReviews answered.", ("phase", "operation", "allowed", "dry_run")
        )
        self.duration = histogram(
            "request_duration_seconds",
            "Time from the whole body read to the answer built.",
            ("phase",),
            buckets=BUCKETS,
        )
        self.in_flight = gauge("requests_in_flight", "AdmissionReviews being received or answered.")
        self.bytes_in_flight = gauge("bytes_in_flight", "Bytes of bodies being received or answered.")
        self.connections = gauge("connections", "Connections to the TLS port.")
        self.no_room = counter(
            "no_room_total",
            "Calls and connections refused, or closed for another, by the limit that was reached.",
            ("limit",),
        )
        self.rejected_calls = counter(
            "rejected_calls_total", "Calls answered with an HTTP error instead of an AdmissionReview.", ("status",)
        )
        self.patch_operations = counter("patch_operations_total", "JSON Patch operations sent.")
        self.lookups = counter(
            "lookups_total",
            "Namespaces read, parameters waited for and authorization checks asked of the API server: found or failed.",
            ("outcome",),
        )
        self.postponed = counter(
            "postponed_reviews_total", "Reviews that took too long for the event loop and went to the child process."
        )
        self.heavy = counter(
            "child_reviews_total",
            "Reviews given to the child process: answered, or ended with the process.",
            ("outcome",),
        )
        self.heavy_waiting = gauge("child_reviews_waiting", "Reviews that wait for the child process.")
        self.policies = gauge("policies", "Admission policies in force, by kind.", ("kind",))
        self.policy_reloads = counter(
            "policy_reloads_total",
            "Times that policies were read after a change: loaded, or refused at least in part.",
            ("outcome",),
        )
        self.policies_refused = gauge(
            "policies_refused", "1 while the newest content of a source of policies is refused; else 0."
        )
        self.expression_faults = counter(
            "expression_faults_total", "Evaluations in which generated code failed although the expression has a value."
        )
        self.loop_lag = histogram(
            "loop_lag_seconds", "Delay of a task of the event loop, ten times a second.", buckets=LAG_BUCKETS
        )
        self.collections = counter(
            "gc_collections_total",
            "Runs of the garbage collector, except over the newest objects alone.",
            ("generation",),
        )
        self.collection_seconds = counter(
            "gc_seconds_total", "Seconds that these runs took; nothing else runs then.", ("generation",)
        )
        self.certificate_expiry = gauge(
            "certificate_expiry_timestamp_seconds", "When the served certificate expires, in Unix time."
        )
        self.authority_expiry = gauge(
            "authority_expiry_timestamp_seconds",
            "When the CA expires that signs the served certificate, in Unix time; only where the service has one.",
        )
        self.leader = gauge("leader", "1 while this replica holds the lease; else 0.")
        self.entries_withheld = gauge(
            "registration_entries_withheld",
            "1 while webhook entries that fail closed are not registered, since a replica does not know them; else 0.",
        )
        self.registrations = counter(
            "registrations_total",
            "Webhook configurations written: for a change here, or to repair what somebody else changed; or failed.",
            ("outcome",),
        )
        self.configuration_reloads = counter(
            "configuration_reloads_total",
            "Times that the configuration or files with topologies were read after a change: loaded or refused.",
            ("outcome",),
        )
        self.configuration_refused = gauge(
            "configuration_refused",
            "1 while the newest configuration or files with topologies are not in force; else 0.",
        )
        self.watch_age = gauge(
            "watch_age_seconds",
            "Time since the API server last proved that the known objects of a kind are up to date.",
            ("resource",),
        )
        self.silence = gauge("api_server_silence_seconds", "Time since the API server last answered any list or watch.")
        self.rules = RuleMetrics(self.registry)
        self.placing = Placing(self.registry)
        self.log_lines_lost = counter(
            "log_lines_lost_total", "Log lines that were left out, since they could not be written."
        )
        self.decision_records = counter(
            "decision_records_total", "Records for the decision log: written, or lost.", ("outcome",)
        )
        self.refusal_events = counter(
            "refusal_events_total",
            "Events about refusals on the workloads of controllers: written, dropped as too many waited, or failed.",
            ("outcome",),
        )
        self.traces_sent = counter(
            "traces_total", "Traces of reviews: sent, or lost since the receiver did not take them.", ("outcome",)
        )
        self.shadow = ShadowMetrics(self.registry, self.expression_faults)
        self.audits = AuditMetrics(self.registry)
        gauge("build_info", "Always 1.", ("version", "python", "role")).labels(
            VERSION, platform.python_version(), role
        ).set(1)
        self._kubernetes = gauge(
            "kubernetes_info",
            "Always 1: the API server's version, the release as which policies are judged, and whether that is proven.",
            ("release", "version", "proven"),
        )
        self._durations = {phase: self.duration.labels(phase) for phase in ("mutate", "validate")}
        self._answers: Tally[tuple[str, ...]] = Tally()

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

    def policies_loaded(self, kinds: Iterable[str], *, refused: bool) -> None:
        """Count one reload. kinds: the kind of each loaded policy."""
        counted = Tally(kinds)
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
        if self.placing.sizes is not None:
            for kind, size in self.placing.sizes().items():
                self.placing.objects.labels(kind).set(size)
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
