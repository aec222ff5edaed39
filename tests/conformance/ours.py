"""Our engine's answers to a case: that of the whole, and whether its two evaluators agree."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from policies.cel import types
from policies.cel.activation import activation
from policies.cel.cases import AUTHORIZER, BUDGET, COMPILE, EVAL, Case, Outcome, encode
from policies.cel.cost import EXPRESSION_LIMIT, POLICY_LIMIT
from policies.cel.kubernetes import admission
from policies.cel.patchtypes import JSON_PATCH, OBJECT
from policies.cel.program import Composition, Program, compile_expression
from policies.cel.syntax.source import CompileError
from policies.cel.types import Type
from policies.cel.values import type_of

RESULTS: Mapping[str, Type | None] = {
    "any": None,
    "bool": types.BOOL,
    "jsonpatch": types.list_of(JSON_PATCH),
    "applyconfig": OBJECT,
}
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


def ours(case: Case) -> Outcome:
    """What our engine makes of a case."""
    try:
        program, composition = compiled(case)
    except CompileError as error:
        return Outcome(stage=COMPILE, error=error.reference())
    names = _names(case, composition)
    evaluation = program.evaluate(names)
    cost = evaluation.cost + names["variables"].cost
    if cost > POLICY_LIMIT:
        return Outcome(stage=BUDGET, error=OUT_OF_BUDGET, cost=POLICY_LIMIT + 1)
    if evaluation.error is not None:
        return Outcome(stage=EVAL, error=str(evaluation.error), cost=cost)
    return Outcome(value=encode(evaluation.value), type=type_of(evaluation.value).name, cost=cost)


def generated_differs(case: Case) -> str | None:
    """In which way the generated function differs from the exact evaluator: it may hand over, but say nothing else."""
    try:
        program, composition = compiled(case)
    except CompileError:
        return None
    function = None if program.generated is None else program.generated.load()
    if function is None:
        return None
    names = _names(case, composition)
    try:
        value, cost = function(names, EXPRESSION_LIMIT, None)
    except Exception:  # noqa: BLE001 - whatever it raises, it hands over
        return None
    if cost > EXPRESSION_LIMIT:
        return None
    exact_names = _names(case, composition)
    exact = program.evaluate_exactly(exact_names)
    found = (encode(value), type_of(value).name, cost + names["variables"].cost)
    expected = (encode(exact.value), type_of(exact.value).name, exact.cost + exact_names["variables"].cost)
    if exact.error is not None:
        return f"generated: {found}, exactly: {exact.error}"
    return None if repr(found) == repr(expected) else f"generated: {found}, exactly: {expected}"


@lru_cache(maxsize=1024)
def _compiled(expression: str, mode: str, variables: tuple[tuple[str, str], ...]) -> tuple[Program, Composition]:
    plain = _composition(variables)
    patches = admission(patch_types=True).with_fields("kubernetes.variables", _fields(plain))
    composition = Composition(patches, plain.programs) if mode in {"jsonpatch", "applyconfig"} else plain
    return compile_expression(expression, composition.environment, RESULTS[mode]), composition


def compiled(case: Case) -> tuple[Program, Composition]:
    """The program of a case, and the variables that it was compiled with. Raises CompileError."""
    return _compiled(case.expression, case.mode, case.variables)


@lru_cache(maxsize=64)
def _composition(variables: tuple[tuple[str, str], ...]) -> Composition:
    composition = Composition(admission())
    for name, expression in variables:
        composition = composition.declare(name, expression)
    return composition


def _fields(composition: Composition) -> Mapping[str, Type]:
    return composition.environment.structs["kubernetes.variables"]


def _names(case: Case, composition: Composition) -> dict[str, Any]:
    given = case.inputs
    return composition.bind(
        activation(
            given.get("request") or {},
            AUTHORIZER,
            object=given.get("object"),
            old_object=given.get("oldObject"),
            params=given.get("params"),
            namespace=given.get("namespaceObject"),
        )
    )
