"""The errors of an expression.

CelError              an expression failed at run time; `&&`, `||`, `all` and `exists` absorb it as CEL defines
CompileError          an expression that Kubernetes refuses: with all issues, each at its place
BudgetError           the cost limit was exceeded; nothing absorbs it
TimeLimitError        (policies/engine/interruption.py) the time for the review is over; nothing absorbs it
Missing               (policies/engine/interruption.py) an authorization check without an answer yet; nothing absorbs it
"""

from __future__ import annotations


class CelError(Exception):
    """A run-time failure that CEL defines, with the reference's message, such as `no such key: limits`."""

    @property
    def message(self) -> str:
        """The reference's message."""
        return str(self.args[0])


NO_SUCH_OVERLOAD = "no such overload"


def no_such_overload() -> CelError:
    """The error of an operator or function that is not declared for the type of a value."""
    return CelError(NO_SUCH_OVERLOAD)


class BudgetError(Exception):
    """The cost limit was exceeded. `cost`: the sum at that moment, in kube-apiserver's units.

    certain: whether the sum was counted as the reference does. A function that refuses to build a huge result knows
    only its own cost.
    """

    def __init__(self, cost: int, *, certain: bool = False) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")
        self.cost = cost
        self.certain = certain
