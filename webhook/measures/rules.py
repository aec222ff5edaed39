"""The metrics of rules and policies. The series of a policy end with it."""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from policies.engine.engine import Answer, Unanimity
from policies.engine.request import AdmissionRequest, Operation
from policies.engine.rule import Phase
from webhook.heavy.ruletimes import RuleTimes

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
            "Decisions in which an exception let a request pass a rule; likewise.",
            ("exception", "rule"),
        )
        self.evaluations = counter(
            "cks_admission_rule_evaluations_total", "Evaluations of a rule or policy; likewise.", ("rule",)
        )
        self.seconds = counter("cks_admission_rule_seconds_total", "Seconds that these took.", ("rule",))
        self.policy_overtime = counter(
            "cks_admission_policy_overtime_total",
            "Reviews whose time was over while this policy was evaluated; likewise.",
            ("policy",),
        )
        self.budget = Gauge(
            "cks_admission_policy_budget_used_ratio",
            "The largest part of a cost limit of CEL that an evaluation of the policy has used, from some 0.1 on; "
            "likewise.",
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
        """Count in a series. at: where its labels have the rule."""
        name = self._own.name(labels[at])
        own = (*labels[:at], name, *labels[at + 1 :])
        self._series.setdefault(name, set()).add((counter, own))
        counter.labels(*own).inc(times)
