"""How often rules were evaluated, how long that took, and how much of their cost limits policies used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter

from policies.engine.rule import Names

NOTABLE = 0.1
"""Policies that use less of their cost limits are not noted. Those that are judged together use less."""


class RuleTimes:
    """Evaluations, seconds and used parts of limits by rule, since they were last taken.

    It is told the name of each rule after its evaluation, which began when the one before it ended. Rules that
    are judged together share their time equally: to measure each of them would take longer than most of them take.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._evaluations: Counter[str] = Counter()
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
        self.seconds, self._evaluations = {}, Counter()
        return taken

    def take_used(self) -> list[tuple[str, float]]:
        """Policies with the largest part of a cost limit that they used; then nothing is left."""
        used, self.used = self.used, {}
        return list(used.items())

    def _add(self, rule: str, seconds: float, times: int = 1) -> None:
        self.seconds[rule] = self.seconds.get(rule, 0.0) + seconds
        self._evaluations[rule] += times
