"""Families of metrics about one thing: rules and policies, shadow policies, gangs, audits."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from policies.engine.comparison import OUTCOMES
from policies.engine.engine import Answer, Unanimity
from policies.engine.request import AdmissionRequest, Operation
from policies.engine.rule import Names, Phase
from webhook.audit.record import Record

if TYPE_CHECKING:
    from policies.topology.placer.placer import Look, Waiting


# From a tenth of the usual time of a review to the longest time-out of a webhook.
BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


NOTABLE = 0.1
"""Policies that use less of their cost limits are not noted. Those that are judged together use less."""


class RuleTimes:
    """Evaluations, seconds and used parts of limits by rule, since they were last taken.

    It is told the name of each rule after its evaluation, which began when the one before it ended. Rules that
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

    def take_used(self) -> list[tuple[str, float]]:
        """Policies with the largest part of a cost limit that they used; then nothing is left."""
        used, self.used = self.used, {}
        return list(used.items())

    def _add(self, rule: str, seconds: float, times: int = 1) -> None:
        self.seconds[rule] = self.seconds.get(rule, 0.0) + seconds
        self._evaluations[rule] += times


MOST = 200
"""Rules and policies with series of their own, in each replica."""
OTHERS = "others"
"""The rest of them."""


class _Own:
    """The rules with series of their own: the first that come, for as long as they are in force."""

    def __init__(self) -> None:
        self._rules: set[str] = set()

    def name(self, rule: str) -> str:
        """The name of a rule in its series."""
        if rule not in self._rules:
            if len(self._rules) >= MOST:
                return OTHERS
            self._rules.add(rule)
        return rule

    def end(self, names: Container[str]) -> set[str]:
        """The rules that are not in force any more, which make room for others."""
        gone = {rule for rule in self._rules if rule not in names}
        self._rules -= gone
        return gone


class RuleMetrics:
    """What rules decide, how long that takes, and how near policies come to the limits of cost and time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.decisions = counter(
            "cks_admission_decisions_total",
            "Decisions of rules: admit, patch, deny, warn, audit, excepted or error; of at most 200 and `others`.",
            ("phase", "rule", "operation", "verdict"),
        )
        self.exceptions_used = counter(
            "cks_admission_exceptions_used_total",
            "Decisions in which an exception let a request pass a rule.",
            ("exception", "rule"),
        )
        self.evaluations = counter(
            "cks_admission_rule_evaluations_total", "Evaluations of a rule or policy.", ("rule",)
        )
        self.seconds = counter("cks_admission_rule_seconds_total", "Seconds that these evaluations took.", ("rule",))
        self.policy_overtime = counter(
            "cks_admission_policy_overtime_total",
            "Reviews whose time ended in this policy.",
            ("policy",),
        )
        self.budget = Gauge(
            "cks_admission_policy_budget_used_ratio",
            "The largest part of a cost limit of CEL that an evaluation of the policy has used, from some 0.1 on.",
            ("policy",),
            registry=registry,
        )
        self.times = RuleTimes()
        self._own = _Own()
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
        for rule in self._own.end(names):
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
        for policy, used in self.times.take_used():
            name = self._own.name(policy)
            self._used[name] = max(used, self._used.get(name, 0.0))
            self.budget.labels(name).set(self._used[name])

    def _count(self, counter: Counter, *labels: str, times: int = 1) -> None:
        # `labels()` and `inc()` check, hash and lock. With thirty policies that takes a tenth of the policies' own
        # time. Nobody needs the sums before they are exposed.
        key = counter, labels
        self._uncounted[key] = self._uncounted.get(key, 0) + times

    def _add(self, counter: Counter, labels: tuple[str, ...], times: float = 1, *, at: int = 0) -> None:
        name = self._own.name(labels[at])
        own = (*labels[:at], name, *labels[at + 1 :])
        self._series.setdefault(name, set()).add((counter, own))
        counter.labels(*own).inc(times)


_COUNTED = 100  # policies with series of their own


class ShadowMetrics:
    """The metrics of shadow policies. expression_faults: those of all policies."""

    def __init__(self, registry: CollectorRegistry, expression_faults: Counter) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self.expression_faults = expression_faults
        self._counted: set[str] = set()
        self.decisions = counter(
            "cks_admission_shadow_decisions_total",
            "Requests by what a shadow policy would make of them: same, refuse, admit or warn; for at most 100 "
            "policies.",
            ("policy", "outcome"),
        )
        self.reviews = counter(
            "cks_admission_shadow_reviews_total",
            "Reviews for shadow policies: judged, dropped for want of time, late if it took too long, failed.",
            ("outcome",),
        )
        self.policies = gauge("cks_admission_shadow_policies", "Shadow policies.")
        self.unasked = gauge(
            "cks_admission_shadow_policies_not_asked",
            "Shadow policies that do not see all of their requests: their counts are too low.",
        )
        self.refused = gauge(
            "cks_admission_shadow_policies_refused",
            "1 while the newest content of a directory of shadow policies is refused.",
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
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.sizes: Callable[[], Mapping[str, int]] | None = None
        self.ways = counter(
            "cks_admission_placed_templates_total",
            "Templates and Pods with a placement, by who keeps their Pods together.",
            ("way",),
        )
        self.flawed = gauge(
            "cks_admission_fabric_flawed_nodes",
            "Nodes with a flaw of the network, by kind: slow, miswired, split, incomplete or mixed; in the process "
            "that leads.",
            ("kind",),
        )
        self._leading = gauge(
            "cks_admission_placer_leading",
            "1 in the placer that leads and knows the cluster, so that it opens gates; 0 in others.",
        )
        self._waiting = gauge(
            "cks_admission_gangs_waiting",
            "Gangs that wait, by level and age: below 1m, 5m, 15m, 1h, or over; in the placer that leads.",
            ("level", "age"),
        )
        self._overdue = gauge(
            "cks_admission_gangs_overdue",
            "Gangs that wait for longer than topology.patienceSeconds although room was there; in the leading placer.",
        )
        self._opening = histogram(
            "cks_admission_gang_opening_seconds",
            "Time from the last Pod of a gang to the opening of its gates.",
            buckets=_OPENING_BUCKETS,
        )
        self._opened = counter(
            "cks_admission_pods_opened_total",
            "Gates of Pods: opened, gone (the Pod had changed) or refused.",
            ("outcome",),
        )
        self._looks = histogram(
            "cks_admission_placer_look_seconds", "Time to decide which gangs start.", buckets=BUCKETS
        )
        self._objects = gauge("cks_admission_placer_objects", "What the placer knows: node, pod or gang.", ("kind",))

    def look(self, look: Look, seconds: float, now: float) -> None:
        """Count what was decided. now: seconds since the epoch."""
        self._looks.observe(seconds)
        for placed in look.placed:
            self._opening.observe(placed.seconds)
        self.queue(look.queue, now)

    def lead(self, *, leads: bool) -> None:
        """Show whether this process opens gates."""
        self._leading.set(leads)

    def queue(self, queue: Iterable[Waiting], now: float = 0.0) -> None:
        """Show who waits; nobody in a process that does not lead."""
        waiting = list(queue)
        self._waiting.clear()
        for (level, age), count in Tally((one.level, _age(now - one.since)) for one in waiting).items():
            self._waiting.labels(level, age).set(count)
        self._overdue.set(sum(one.overdue for one in waiting))

    def opened(self, outcome: str) -> None:
        """Count a Pod whose gate was to be opened."""
        self._opened.labels(outcome).inc()

    def update(self) -> None:
        """Set how much the placer knows now."""
        if self.sizes is not None:
            for kind, size in self.sizes().items():
                self._objects.labels(kind).set(size)


def _age(seconds: float) -> str:
    return next((name for limit, name in AGES if seconds < limit), "over")


class AuditMetrics:
    """The metrics of the last audit; of several parts the sum, the earliest end and the longest time."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self.ended = gauge(
            "cks_admission_audit_end_timestamp_seconds",
            "When the last audit ended, in Unix time; before the first one, when its ConfigMap was made; 0 if unknown.",
        )
        self.seconds = gauge("cks_admission_audit_duration_seconds", "How long the last audit took.")
        self.objects = gauge("cks_admission_audit_objects", "Objects that the last audit judged.")
        self.unreadable = gauge(
            "cks_admission_audit_unreadable_kinds", "Kinds whose objects the last audit could not read completely."
        )
        self.findings = gauge(
            "cks_admission_audit_findings",
            "Objects about which the last audit found something, by policy and verdict; for at most 100 policies.",
            ("policy", "verdict"),
        )
        self.reports = gauge(
            "cks_admission_audit_reports",
            "Reports that the last audit has written, removed, left unchanged, or that the API server refused.",
            ("outcome",),
        )
        self.events = gauge(
            "cks_admission_audit_events",
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
