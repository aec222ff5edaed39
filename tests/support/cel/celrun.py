"""Compiles and evaluates an expression as an admission policy would, for the tests of the engine."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from policies.cel.kubernetes import admission
from policies.cel.program import NO_VARIABLES, Program, compile_expression
from policies.cel.syntax.source import CompileError

ENVIRONMENT = admission()
OBJECT = {"a": 1, "l": [1, 2, 3], "m": {"x": "y"}, "s": "text", "n": None, "e": []}
"""A value of each kind; no `x` and no `y`."""


@dataclass(frozen=True)
class Failed:
    """The error of an expression that fails."""

    message: str


def compiled(text: str) -> Program:
    """The program of an expression of any type."""
    return compile_expression(text, ENVIRONMENT)


def refused(text: str) -> list[tuple[int, str, str]]:
    """Position, message and hint of each compile error; empty if the expression compiles."""
    try:
        compiled(text)
    except CompileError as error:
        return [(issue.position, issue.message, issue.hint) for issue in error.issues]
    return []


def names(obj: Any = None, **others: Any) -> dict[str, Any]:
    """The variables of an evaluation; those that are not given are null."""
    nothing = {"oldObject": None, "params": None, "namespaceObject": None, "request": None, "variables": NO_VARIABLES}
    return {"object": deepcopy(OBJECT) if obj is None else obj, **nothing, **others}


def exactly(text: str, obj: Any = None, **others: Any) -> tuple[Any, int]:
    """Value or failure of the exact evaluator, and the cost."""
    evaluation = compiled(text).evaluate_exactly(names(obj, **others))
    return (Failed(str(evaluation.error)) if evaluation.error else evaluation.value, evaluation.cost)


def usually(text: str, obj: Any = None, **others: Any) -> tuple[Any, int]:
    """Value or failure as a policy gets it, from the generated function if that has an answer, and the cost."""
    evaluation = compiled(text).evaluate(names(obj, **others))
    return (Failed(str(evaluation.error)) if evaluation.error else evaluation.value, evaluation.cost)


def generated(text: str, obj: Any = None, *, limit: int = 1_000_000, **others: Any) -> tuple[Any, int] | None:
    """Value and cost of the generated function; None if there is none or it leaves the case to the exact evaluator."""
    source = compiled(text).generated
    function = None if source is None else source.load()
    try:
        return None if function is None else function(names(obj, **others), limit, None)
    except Exception:  # noqa: BLE001 - it may hand over by whatever exception
        return None
