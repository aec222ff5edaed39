"""Run cases (`document.py`), for `cks-admission eval --cases` and the conformance tests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from policies.cel import types
from policies.cel.activation import activation
from policies.cel.cases.document import BUDGET, COMPILE, EVAL, CelCase, Outcome, authorizer_rules, encode
from policies.cel.cost import POLICY_LIMIT
from policies.cel.dialect import STORED, Dialect
from policies.cel.kubernetes import admission
from policies.cel.patchtypes import JSON_PATCH, OBJECT
from policies.cel.program import Composition, Program, compile_expression
from policies.cel.syntax.source import CompileError
from policies.cel.types import Type
from policies.cel.values import type_of

RESULTS: Mapping[str, Type | None] = {
    "any": None,
    "bool": types.BOOL,
    "string": types.STRING,
    "jsonpatch": types.list_of(JSON_PATCH),
    "applyconfig": OBJECT,
}
"""The result type that each mode requires."""
PATCHING = frozenset({"jsonpatch", "applyconfig"})
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


def run(case: CelCase, dialect: Dialect = STORED) -> Outcome:
    """The outcome of a case."""
    try:
        program, composition = compiled(case, dialect)
    except CompileError as error:
        return Outcome(stage=COMPILE, error=error.reference())
    names = bound(case.inputs, composition)
    evaluation = program.evaluate(names)
    cost = evaluation.cost + names["variables"].cost
    if not 0 <= cost <= POLICY_LIMIT:
        return Outcome(stage=BUDGET, error=OUT_OF_BUDGET, cost=POLICY_LIMIT + 1)
    if evaluation.error is not None:
        return Outcome(stage=EVAL, error=str(evaluation.error), cost=cost)
    return Outcome(value=encode(evaluation.value), type=type_of(evaluation.value).name, cost=cost)


def compiled(case: CelCase, dialect: Dialect = STORED) -> tuple[Program, Composition]:
    """The program of a case, and the variables with which it was compiled. Raises CompileError."""
    return _compiled(case.expression, case.mode, case.variables, dialect)


def bound(inputs: Mapping[str, Any], composition: Composition) -> Mapping[str, Any]:
    """The names that a program reads, from the inputs of a case. No variable is evaluated yet."""
    return composition.bind(
        activation(
            inputs.get("request") or {},
            authorizer_rules(inputs),
            object=inputs.get("object"),
            old_object=inputs.get("oldObject"),
            params=inputs.get("params"),
            namespace=inputs.get("namespaceObject"),
        )
    )


@lru_cache(maxsize=1024)
def _compiled(
    expression: str, mode: str, variables: tuple[tuple[str, str], ...], dialect: Dialect
) -> tuple[Program, Composition]:
    composition = _composition(variables, dialect)
    if mode in PATCHING:
        composition = composition.for_mutations()
    return compile_expression(expression, composition.environment, RESULTS[mode]), composition


@lru_cache(maxsize=64)
def _composition(variables: tuple[tuple[str, str], ...], dialect: Dialect) -> Composition:
    composition = Composition(admission(dialect=dialect))
    for name, expression in variables:
        composition = composition.declare(name, expression)
    return composition
