from __future__ import annotations

from typing import Any

from support.cel.celrun import ENVIRONMENT, planned

from policies.cel.evaluation.run import Run
from policies.cel.program import compile_expression
from policies.cel.values import ABSENT, Optional


def _plain(value: Any) -> Any:
    """The same with optionals as tuples, which compare by what they hold."""
    if isinstance(value, Optional):
        return ("none",) if value.value is ABSENT else ("some", _plain(value.value))
    return [_plain(each) for each in value] if isinstance(value, list) else value


def test_lists_are_not_shared_between_evaluations() -> None:
    """The list that a macro builds is a new one each time, and the range stays as it was."""
    program = compile_expression("object.l.map(x, x)", ENVIRONMENT)
    obj = {"l": [1, 2]}
    first, second = (program.evaluate_exactly({"object": obj}).value for _ in range(2))

    assert (first, second, first is second, obj) == ([1, 2], [1, 2], False, {"l": [1, 2]})
    assert type(first) is list


def test_a_variable_that_is_not_given() -> None:
    """A name that the activation lacks is a failure like any other."""
    run = Run({})
    outcome = planned("object.a").evaluate(run)

    assert (str(outcome), run.cost) == ("no such attribute(s): object", 1)
