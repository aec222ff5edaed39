"""Policies that were too slow: which reviews need not be tried in the event loop, and which policies are skipped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic

import structlog

from policies.engine.rule import Rule
from webhook.metrics import Metrics

# How long the reviews of a tenant for a rule go straight to the child process after one was given up here.
REMEMBERED = 10.0
_MOST = 1000
# A policy is slow if it went over its time so often in so many seconds.
TIMES, WITHIN = 3, 60.0
SKIPPED = 300.0
LOGGED = 60.0
_NONE: frozenset[str] = frozenset()


class SlowPolicies:
    """What was too slow lately. postponed: until when reviews are not tried in the event loop, by rule and tenant.

    skips: whether slow policies are skipped. tell: told the name of a slow policy.
    """

    def __init__(
        self, metrics: Metrics, *, skips: Callable[[], bool] = lambda: False, tell: Callable[[str], None] | None = None
    ) -> None:
        self._metrics = metrics
        self._skips = skips
        self._tell = tell
        self.postponed: dict[tuple[str, str], float] = {}
        self._times: dict[str, deque[float]] = {}
        self._skipped: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        self._log = structlog.get_logger()

    @property
    def skipped(self) -> frozenset[str]:
        """The policies that are not evaluated now."""
        if not self._skipped or not self._skips():
            return _NONE
        now = monotonic()
        self._skipped = {policy: until for policy, until in self._skipped.items() if until > now}
        return frozenset(self._skipped)

    def postpone(self, rule: str, tenant: str) -> None:
        """Remember that a rule took too long for the event loop in a review of a tenant."""
        self._metrics.postponed.inc()
        now = monotonic()
        if len(self.postponed) >= _MOST:
            self.postponed = {key: until for key, until in self.postponed.items() if until > now}
        if len(self.postponed) < _MOST:
            self.postponed[rule, tenant] = now + REMEMBERED

    def expects(self, rules: Iterable[Rule], tenant: str) -> bool:
        """Whether a review is likely to take too long for the event loop."""
        now = monotonic()
        return any(self.postponed.get((rule.name, tenant), 0.0) > now for rule in rules)

    def forgive(self) -> None:
        """Evaluate all policies again, because they were changed."""
        self._times.clear()
        self._skipped = {}

    def overtime(self, policy: str, *, dry_run: bool = False) -> None:
        """Note that a policy went over the time of a review. A dry run has no side effects on the cluster."""
        now = monotonic()
        self._metrics.rules.overtime(policy)
        times = self._times.setdefault(policy, deque(maxlen=TIMES))
        times.append(now)
        if len(self._times) > _MOST:
            del self._times[next(iter(self._times))]
        slow = len(times) == TIMES and now - times[0] <= WITHIN
        if slow and self._skips():
            self._skipped[policy] = now + SKIPPED
        if slow and now >= self._logged.get(policy, 0.0):
            self._logged = {name: until for name, until in self._logged.items() if until > now}
            self._logged[policy] = now + LOGGED
            self._log.warning("policy is slow", policy=policy, times=TIMES, seconds=WITHIN, skipped=self._skips())
            if self._tell is not None and not dry_run:
                self._tell(policy)
