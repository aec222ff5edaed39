"""One CEL expression: compiled, evaluated, explained."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Literal

from msgspec import Struct

from cks_admission.errors import ExpressionError
from cks_admission.request import Request, request_json
from cks_admission.verdict import Cause, cause_of
from policies.cel.activation import activation
from policies.cel.cases.run import PATCHING, RESULTS
from policies.cel.cost import EXPRESSION_LIMIT
from policies.cel.explanation import explain
from policies.cel.kubernetes import admission
from policies.cel.program import Composition, Names, Program, compile_expression
from policies.cel.syntax.source import CompileError, Source
from policies.cel.values import Value, type_of
from policies.engine.facts import StaticFacts

Result = Literal["any", "bool", "string", "jsonpatch", "applyconfig"]
"""The type that an expression must have: of a validation, of a message, of either kind of mutation."""


class Evaluation(Struct, frozen=True):
    """The result of an expression.

    value: Python's own for what JSON has and for bytes, else as in policies/cel/values.py. type: of the value; both are
    empty if there is an error. cost: in Kubernetes' units, with the variables that were read. error: Kubernetes' words.
    """

    value: Value
    type: str
    cost: int
    error: str = ""


class Expression:
    """A compiled expression. type: the one that the checker found, such as `bool`, `dyn` or `list(string)`."""

    __slots__ = ("_composition", "_program", "text", "type")

    def __init__(self, text: str, program: Program, composition: Composition) -> None:
        self.text = text
        self.type = program.type.declared
        self._program = program
        self._composition = composition

    def evaluation(self, request: Request) -> Evaluation:
        """The result for a request."""
        names = self._names(request)
        result = self._program.evaluate(names)
        cost = result.cost + names["variables"].cost
        if result.error is not None:
            return Evaluation(None, "", cost, str(result.error))
        return Evaluation(result.value, type_of(result.value).name, cost)

    def causes(self, request: Request) -> tuple[Cause, ...]:
        """Why it is false or fails for a request; empty if it is neither."""
        names = self._names(request)
        result = self._program.evaluate(names)
        if result.error is None and result.value is not False:
            return ()
        reasons = explain.explain(self._program.source, self._composition, names, limit=EXPRESSION_LIMIT)
        return tuple(map(cause_of, reasons))

    def _names(self, request: Request) -> Names:
        names = activation(
            request_json(request),
            StaticFacts(date.min),
            object=request.object,
            old_object=request.old_object,
            params=request.params,
            namespace=request.namespace_object,
        )
        return self._composition.bind(names)


def compiled_expression(text: str, variables: Mapping[str, str], result: Result) -> Expression:
    """An expression with variables that may read those before them. Raises ExpressionError."""
    composition = Composition(admission())
    try:
        for name, part in variables.items():
            composition = composition.declare(name, part, source=Source(part, f"variables.{name}"))
            program = composition.programs[name]
            if isinstance(program, CompileError):
                raise program
        if result in PATCHING:
            composition = composition.for_mutations()
        program = compile_expression(text, composition.environment, RESULTS[result], source=Source(text, "expression"))
    except CompileError as error:
        raise ExpressionError(error) from None
    return Expression(text, program, composition)
