"""How often rules were evaluated, and how long that took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from time import perf_counter


class RuleTimes:
    """Evaluations and seconds by rule, since they were last taken.

    It is told the name of each rule after its evaluation, which began when the one before it ended.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._evaluations: Counter[str] = Counter()
        self._since = 0.0

    def begin(self) -> None:
        """Begin the first evaluation of a review."""
        self._since = perf_counter()

    def __call__(self, rule: str) -> None:
        """End the evaluation of a rule, and begin the next one."""
        now = perf_counter()
        self._add(rule, now - self._since)
        self._since = now

    def add(self, seconds: Mapping[str, float]) -> None:
        """Count evaluations of another process."""
        for rule, took in seconds.items():
            self._add(rule, took)

    def take(self) -> list[tuple[str, int, float]]:
        """Rules with their evaluations and seconds; then nothing is left."""
        taken = [(rule, times, self.seconds[rule]) for rule, times in self._evaluations.items()]
        self.seconds, self._evaluations = {}, Counter()
        return taken

    def _add(self, rule: str, seconds: float) -> None:
        self.seconds[rule] = self.seconds.get(rule, 0.0) + seconds
        self._evaluations[rule] += 1
