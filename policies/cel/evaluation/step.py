"""What a step of an evaluation is.

A step returns a value, or the CelError that it failed with; failures are values here because `&&`, `||` and the macros
absorb them.
"""

from __future__ import annotations

from policies.cel.errors import CelError
from policies.cel.evaluation.run import Outcome, Run


class Step:
    """Something that can be evaluated."""

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        raise NotImplementedError


def failed(outcome: Outcome) -> bool:
    """Whether an outcome is a failure."""
    return outcome.__class__ is CelError


class Constant(Step):
    """A value that is known beforehand; costs nothing. A literal list may have failed to be built."""

    def __init__(self, value: Outcome) -> None:
        self.value = value

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        del run
        return self.value
