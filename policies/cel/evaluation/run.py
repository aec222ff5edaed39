"""One evaluation in progress: the names in scope, the cost so far, and the limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.dialect import NEW, Dialect
from policies.cel.errors import BudgetError, CelError
from policies.cel.values import Value
from policies.engine.interruption import Expired, look

Outcome = Any
"""A value, or the CelError that an expression failed with."""

_TURNS = 256  # turns of loops between two looks at the clock, since some turns cost nothing
_BETWEEN_LOOKS = 2_000  # cost units, a few milliseconds at most


@dataclass(slots=True)
class Run:
    """The state of one evaluation of one expression.

    `names`: the variables of the activation. `scopes`: those of the macros, innermost last. `absorbed`: whether a
    failure was absorbed. `dialect`: that of the environment.
    """

    names: Mapping[str, Value]
    limit: int = EXPRESSION_LIMIT
    expired: Expired | None = None
    dialect: Dialect = NEW
    cost: int = 0
    absorbed: bool = False
    scopes: list[dict[str, Any]] = field(default_factory=list)
    _turns: int = 0
    _mark: int = -1

    def charge(self, cost: int) -> None:
        """Add to the cost. Raises BudgetError above the limit, and TimeLimitError."""
        self.cost += cost
        if self.cost > self._mark:
            self._pass_mark()

    def _pass_mark(self) -> None:
        """The cost has passed the limit, or the point for the next look at the clock."""
        if self.cost > self.limit:
            raise BudgetError(self.cost)
        if self._mark >= 0:
            look(self.expired)
        self._mark = min(self.limit, self.cost + _BETWEEN_LOOKS)

    def turn(self) -> None:
        """Count a turn of a loop and look at the clock at intervals. Raises TimeLimitError."""
        self._turns += 1
        if self._turns % _TURNS == 0:
            look(self.expired)

    def lookup(self, name: str) -> Outcome:
        """The value of a name: the variable of the innermost macro, or of the activation."""
        for depth in range(len(self.scopes) - 1, -1, -1):
            scope = self.scopes[depth]
            if name in scope:
                value = scope[name]
                return self._start(scope, name, depth) if value.__class__ is Deferred else value
        if name in self.names:
            return self.names[name]
        return CelError(f"no such attribute(s): {name}")

    def _start(self, scope: dict[str, Any], name: str, depth: int) -> Outcome:
        """The first value of an accumulator. It is computed on first use, in the scope around the macro."""
        inner, self.scopes = self.scopes, self.scopes[:depth]
        pending: Deferred = scope[name]
        try:
            scope[name] = value = pending.compute(self)
        finally:  # the budget may end in there
            self.scopes = inner
        return value


@dataclass(frozen=True, slots=True)
class Deferred:
    """The first value of an accumulator that was not used yet."""

    compute: Callable[[Run], Outcome]
