"""What can go wrong with an expression, as types.

CelError              an expression failed while it ran; absorbed by `&&`, `||`, `all` and `exists` as CEL says
CompileError          an expression that Kubernetes refuses: with all issues, each at its place
BudgetError           the cost limit was passed; nothing absorbs it
TimeLimitError        the wall-clock guard; nothing absorbs it
Missing               (policies/engine/lookup.py) an authorization check without an answer yet; nothing absorbs it
"""

from __future__ import annotations


class CelError(Exception):
    """A failure that CEL itself knows, with the reference's message, such as `no such key: limits`."""

    @property
    def message(self) -> str:
        """The reference's words."""
        return str(self.args[0])


NO_SUCH_OVERLOAD = "no such overload"


def no_such_overload() -> CelError:
    """An operator or function met a value of a type that it is not declared for."""
    return CelError(NO_SUCH_OVERLOAD)


class InterruptedEvaluationError(Exception):
    """The base of what ends an evaluation at once, and is never absorbed."""


class BudgetError(InterruptedEvaluationError):
    """The cost limit was passed. `cost` is the sum at that moment, in the units of kube-apiserver."""

    def __init__(self, cost: int) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")
        self.cost = cost


class TimeLimitError(InterruptedEvaluationError):
    """An evaluation took longer than the wall-clock guard allows."""

    def __init__(self) -> None:
        super().__init__("operation interrupted: the evaluation took longer than allowed")
