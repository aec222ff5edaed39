"""The steps of an evaluation.

A step returns a value, or the CelError with which it failed. Failures are values because `&&`, `||` and macros absorb
them.
"""

from __future__ import annotations

from policies.cel.errors import CelError
from policies.cel.evaluation.run import Outcome, Run


class Step:
    """A part of an expression that can be evaluated."""

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        raise NotImplementedError


def failed(outcome: Outcome) -> bool:
    """Whether an outcome is a failure."""
    return outcome.__class__ is CelError


class Constant(Step):
    """A constant value, which costs nothing. It is a failure if a literal list could not be built."""

    def __init__(self, value: Outcome) -> None:
        self.value = value

    def evaluate(self, run: Run) -> Outcome:
        """The value, or the failure."""
        del run
        return self.value
