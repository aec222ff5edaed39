"""The metrics of policies in the shadow."""

from __future__ import annotations

from collections.abc import Container, Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge

from policies.engine.comparison import OUTCOMES

_COUNTED = 100  # policies with series of their own


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
        self.unasked = Gauge(
            "cks_admission_shadow_policies_not_asked",
            "Policies in the shadow that are not asked about all that they are for: their counts show too little.",
            registry=registry,
        )
        self.refused = Gauge(
            "cks_admission_shadow_policies_refused",
            "1 while the newest content of a directory of policies in the shadow is not used, since it was refused.",
            registry=registry,
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
