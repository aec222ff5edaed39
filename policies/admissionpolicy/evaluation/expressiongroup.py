"""Groups of expressions, which share the values of variables and a cost budget.

The match conditions, validations, messageExpressions and audit annotations of a policy are one group each; so is each
single mutation. Source: k8s.io/apiserver's pkg/admission/plugin/cel/activation.go (Evaluate), and for match conditions
pkg/admission/plugin/webhook/matchconditions/matcher.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policies.admissionpolicy.evaluation import texts
from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, Unit
from policies.admissionpolicy.evaluation.inputs import Inputs, Json
from policies.cel.cost import EXPRESSION_LIMIT, MATCH_CONDITIONS_LIMIT
from policies.cel.errors import BudgetError
from policies.cel.explanation import explain
from policies.cel.program import NO_VARIABLES, Composition, Names, Program, Variables
from policies.cel.syntax.source import CompileError
from policies.cel.values import Value
from policies.engine.interruption import Expired, look


class SpentError(Exception):
    """The expressions of a group exceeded its budget; the remaining ones are not evaluated."""

    def __init__(self) -> None:
        super().__init__(texts.OUT_OF_BUDGET)


@dataclass(frozen=True, slots=True)
class Failure:
    """An expression that could not be evaluated; `text` is the API server's. spent: its cost exceeded its limit."""

    text: str
    spent: bool = False


class Group:
    """A group in one evaluation. `names` are its variables, including `variables`; `remaining` is the budget.

    used: the largest part of a cost limit that was used: of that of the group, or of that of an expression.
    """

    __slots__ = ("_budget", "_composition", "_expired", "names", "remaining", "used", "variables")

    def __init__(self, composition: Composition, names: Names, budget: int, expired: Expired | None) -> None:
        self.names = composition.bind(names, expired=expired, exact=False)
        self.remaining = self._budget = budget
        self.used = 0.0
        variables = self.names["variables"]
        self.variables: Variables = variables if isinstance(variables, Variables) else NO_VARIABLES
        self._composition, self._expired = composition, expired

    def evaluate(self, unit: Unit) -> Value | Failure:
        """The value of an expression. Raises SpentError and Missing."""
        program = unit.program
        if isinstance(program, CompileError):
            return Failure(f"compilation error: {program.full_reference()}")
        before = self.variables.cost
        look(self._expired)
        # An exact cost would take ten times as long, and matters only to a policy within a hair of its budget.
        evaluation = program.evaluate(self.names, expired=self._expired, exact=False)
        spent = evaluation.cost + self.variables.cost - before
        if not 0 <= spent <= self.remaining:  # a negative cost is huge in the API server, where it is unsigned
            self.used = 1.0
            raise SpentError
        self.remaining -= spent
        self.used = max(self.used, evaluation.cost / EXPRESSION_LIMIT, 1 - self.remaining / self._budget)
        if evaluation.error is not None:
            spent_all = isinstance(evaluation.error, BudgetError)
            return Failure(f"expression '{unit.expression.text}' resulted in error: {evaluation.error}", spent_all)
        return evaluation.value

    def reasons(self, unit: Unit, outcome: Value = explain.UNKNOWN) -> tuple[explain.Reason, ...]:
        """The parts of an expression that decided its result; none if the explanation fails. outcome: if known."""
        if not isinstance(unit.program, Program):
            return ()
        try:
            return explain.explain(
                unit.program.source,
                self._composition,
                self.names,
                limit=EXPRESSION_LIMIT,
                expired=self._expired,
                outcome=outcome,
            )
        except Exception:  # noqa: BLE001 - an explanation is an extra; a check without an answer ends here, too
            return ()


@dataclass(frozen=True, slots=True)
class Unmatched:
    """The policy does not match this request, because the condition of this name is false."""

    condition: str


def unmatched(compiled: CompiledPolicy, params: Json | None, inputs: Inputs) -> Unmatched | Failure | None:
    """Why the match conditions exclude a request from a policy; None if they do not.

    Match conditions have no `namespaceObject`. Failures count only if no condition is false.
    """
    if not compiled.conditions:
        return None
    names = inputs.names(params, request=compiled.reads_request)
    values = _quickly(compiled, names, inputs.expired)
    if values is not None:
        return Unmatched(compiled.policy.match_conditions[values.index(False)].name) if False in values else None
    group = Group(compiled.composition, names, MATCH_CONDITIONS_LIMIT, inputs.expired)
    try:
        outcomes = [group.evaluate(unit) for unit in compiled.conditions]
    except SpentError as error:
        return Failure(str(error))
    if False in outcomes:
        return Unmatched(compiled.policy.match_conditions[outcomes.index(False)].name)
    return _combined([outcome for outcome in outcomes if isinstance(outcome, Failure)])


def _quickly(compiled: CompiledPolicy, names: Names, expired: Expired | None) -> list[Value] | None:
    """The values of the match conditions from the fast evaluator; None if one has none, or the budget is exceeded."""
    names = compiled.composition.bind(names, expired=expired, exact=False)
    values: list[Value] = []
    remaining = MATCH_CONDITIONS_LIMIT
    for unit in compiled.conditions:
        result = unit.program.quick(names, expired=expired) if isinstance(unit.program, Program) else None
        if result is None:
            return None
        value, cost = result
        values.append(value)
        remaining -= cost
    spent = names["variables"].cost
    return values if 0 <= spent <= remaining else None


def _combined(failures: Sequence[Failure]) -> Failure | None:
    """All failures combined, each text once (errors.Aggregate of k8s.io/apimachinery)."""
    texts = list(dict.fromkeys(failure.text for failure in failures))
    if len(texts) <= 1:
        return failures[0] if failures else None
    return Failure(f"[{', '.join(texts)}]")
