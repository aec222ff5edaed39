from __future__ import annotations

from typing import Any

import pytest

from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.errors import BudgetError, CelError
from policies.cel.evaluation.run import Deferred, Run
from policies.engine.interruption import TimeLimitError


def test_costs_add_up_to_the_limit() -> None:
    """The limit itself is allowed; one unit more ends the evaluation, with the sum in the error."""
    run = Run({}, limit=5)
    run.charge(3)
    run.charge(2)
    assert run.cost == 5

    with pytest.raises(BudgetError) as caught:
        run.charge(4)
    assert (caught.value.cost, str(caught.value)) == (9, "operation cancelled: actual cost limit exceeded")


def test_the_usual_limit() -> None:
    """An expression may cost a million."""
    assert (Run({}).limit, EXPRESSION_LIMIT) == (1_000_000, 1_000_000)


def test_the_clock_is_asked_now_and_then() -> None:
    """The clock is asked every 256th turn, and its first yes ends the evaluation."""
    asked: list[int] = []

    def expired() -> bool:
        asked.append(1)
        return len(asked) == 2

    run = Run({}, expired=expired)
    counts = [len(asked) for _ in range(511) if run.turn() is None]  # type: ignore[func-returns-value]

    assert (counts.count(0), counts.count(1)) == (255, 256)
    with pytest.raises(TimeLimitError):
        run.turn()


def test_without_a_clock_there_is_no_end() -> None:
    """Turns are free where nobody gave a clock."""
    run = Run({})
    for _ in range(1000):
        run.turn()

    assert run.cost == 0


def test_names() -> None:
    """The innermost macro's variable hides outer ones and those of the activation; null is a value."""
    run = Run({"x": 1, "y": None}, scopes=[{"x": 2}, {"z": 3}])

    assert [run.lookup(name) for name in "xyz"] == [2, None, 3]
    run.scopes.append({"x": 4})
    assert run.lookup("x") == 4


def test_an_unknown_name() -> None:
    """A name that is nowhere is a failure."""
    outcome = Run({}).lookup("x")

    assert isinstance(outcome, CelError)
    assert outcome.message == "no such attribute(s): x"


def test_first_values_are_computed_once_and_when_needed() -> None:
    """An accumulator's first value is computed in the scope around its macro, at its first use only."""
    seen: list[tuple[Any, int]] = []

    def compute(run: Run) -> int:
        seen.append((run.lookup("x"), len(run.scopes)))
        return 7

    run = Run({}, scopes=[{"x": "outer"}, {"@result": Deferred(compute)}, {"x": "inner"}])
    assert seen == []

    assert [run.lookup("@result"), run.lookup("@result"), run.lookup("x")] == [7, 7, "inner"]
    assert seen == [("outer", 1)]


def test_scopes_are_restored_when_the_budget_ends() -> None:
    """The end of the budget while a first value is computed leaves the scopes as they were."""

    def compute(run: Run) -> None:
        run.charge(9)

    scopes: list[dict[str, Any]] = [{"@result": Deferred(compute)}, {"x": 1}]
    run = Run({}, limit=5, scopes=scopes)
    with pytest.raises(BudgetError):
        run.lookup("@result")

    assert run.scopes is scopes
