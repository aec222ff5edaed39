"""Evaluates a ValidatingAdmissionPolicy with its bindings and parameters for one request, as kube-apiserver does.

Sources: k8s.io/apiserver's pkg/admission/plugin/policy/validating/dispatcher.go (bindings, parameters, actions) and
validator.go (match conditions, validations, messages, audit annotations, failurePolicy); pkg/admission/plugin/cel/
activation.go and pkg/admission/plugin/webhook/matchconditions/matcher.go (the cost budget).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, Unit
from policies.admissionpolicy.evaluation.inputs import Inputs, Json
from policies.admissionpolicy.evaluation.parameters import ConfigurationError, Parameters, collect, scope_of
from policies.admissionpolicy.evaluation.result import (
    NOTHING_FOUND,
    OUT_OF_BUDGET,
    Finding,
    Result,
    annotation_value,
    combined,
    denial_message,
    result_of,
)
from policies.admissionpolicy.model import DENY, Binding, ValidationAction
from policies.cel import explain
from policies.cel.cost import EXPRESSION_LIMIT, MATCH_CONDITIONS_LIMIT, POLICY_LIMIT
from policies.cel.errors import BudgetError
from policies.cel.program import NO_VARIABLES, Composition, Names, Program, Variables
from policies.cel.syntax.source import CompileError
from policies.cel.values import Value, type_of
from policies.engine.interruption import Expired, look
from policies.golang.strconv import trimmed


class SpentError(Exception):
    """The expressions of a group exceeded its budget; the remaining ones are not evaluated."""

    def __init__(self) -> None:
        super().__init__(OUT_OF_BUDGET)


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


def conditions_hold(compiled: CompiledPolicy, params: Json | None, inputs: Inputs) -> bool | Failure:
    """Whether the match conditions are true for a request. Failures count only if no condition is false.

    Match conditions have no `namespaceObject`.
    """
    if not compiled.conditions:
        return True
    names = inputs.names(params, request=compiled.reads_request)
    group = Group(compiled.composition, names, MATCH_CONDITIONS_LIMIT, inputs.facts.expired)
    try:
        outcomes = [group.evaluate(unit) for unit in compiled.conditions]
    except SpentError as error:
        return Failure(str(error))
    words = list(dict.fromkeys(outcome.text for outcome in outcomes if isinstance(outcome, Failure)))
    if False in outcomes or not words:
        return False not in outcomes
    return Failure(words[0] if len(words) == 1 else f"[{', '.join(words)}]")  # errors.Aggregate of k8s.io/apimachinery


# Actions whose message people read at once. An explanation takes up to 100 times as long as the evaluation, which is
# too long for frequent audit entries.
_SHOWN: frozenset[ValidationAction] = frozenset({"Deny", "Warn"})


def evaluate_policy(
    compiled: CompiledPolicy,
    bindings: Iterable[Binding],
    parameters: Parameters,
    inputs: Inputs,
    *,
    budget: int = POLICY_LIMIT,
) -> Result:
    """The result of a policy with those of its bindings that match the request, in the given order.

    If the paramKind does not exist, the result is one finding, whatever the bindings match. Raises Missing: look the
    fact up, and evaluate again.
    """
    if compiled.policy.param_kind is not None:
        try:
            scope_of(compiled.policy.param_kind, parameters)
        except ConfigurationError as error:
            return _misconfigured(compiled, "", f"failed to configure policy: {error}")
    return combined([evaluate(compiled, binding, parameters, inputs, budget=budget) for binding in bindings])


def evaluate(
    compiled: CompiledPolicy, binding: Binding, parameters: Parameters, inputs: Inputs, *, budget: int = POLICY_LIMIT
) -> Result:
    """The result of a policy with one binding that matches the request, evaluated once for each parameter."""
    if compiled.policy.param_kind is None:
        return _result(compiled, binding, None, inputs, budget)
    try:
        objects = collect(compiled.policy.param_kind, binding, parameters, inputs.request_namespace)
    except ConfigurationError as error:
        return _misconfigured(compiled, binding.name, f"failed to configure binding: {error}")
    return combined(_result(compiled, binding, params, inputs, budget) for params in objects)


def parameters_of(
    compiled: CompiledPolicy, bindings: Iterable[Binding], parameters: Parameters, namespace: str
) -> tuple[Json | None, ...]:
    """The parameters with which a policy is evaluated by any binding. Raises Missing and ConfigurationError."""
    kind = compiled.policy.param_kind
    if kind is None:
        return (None,) if bindings else ()
    scope_of(kind, parameters)
    return tuple(params for binding in bindings for params in collect(kind, binding, parameters, namespace))


def _misconfigured(compiled: CompiledPolicy, binding: str, message: str) -> Result:
    name, actions = compiled.policy.name, compiled.policy.failure_actions
    return result_of([Finding(policy=name, binding=binding, kind="misconfigured", message=message, actions=actions)])


def _result(compiled: CompiledPolicy, binding: Binding, params: Json | None, inputs: Inputs, budget: int) -> Result:
    evaluation = _Evaluation(compiled, binding, params, inputs, budget)
    matched = conditions_hold(compiled, params, inputs)
    if isinstance(matched, Failure):
        return result_of([evaluation.error(matched.text)])
    return evaluation.result() if matched else NOTHING_FOUND


@dataclass(slots=True)
class _Evaluation:
    compiled: CompiledPolicy
    binding: Binding
    params: Json | None
    inputs: Inputs
    budget: int

    def result(self) -> Result:
        """The findings of the validations, and the audit annotations. The match conditions must be true."""
        published: dict[str, tuple[str, ...]] = {}
        try:
            findings = self._validations()
            if self.compiled.annotations:
                findings += self._annotations(published)
        except SpentError as error:
            return result_of([self.error(str(error))])
        return result_of(findings, published)

    def _validations(self) -> list[Finding]:
        compiled = self.compiled
        names = self.inputs.names(self.params, request=compiled.reads_request, namespace=compiled.reads_namespace)
        group = Group(compiled.composition, names, self.budget, self.inputs.facts.expired)
        try:
            outcomes = [group.evaluate(unit) for unit in compiled.validations]
        finally:
            self.inputs.spent(compiled.policy.name, group.used)
        return [] if all(outcome is True for outcome in outcomes) else list(self._judged(outcomes, group))

    def _judged(self, outcomes: list[Value], group: Group) -> Iterator[Finding]:
        compiled = self.compiled
        messages, spent = self._messages(outcomes, group.remaining)
        validations = zip(compiled.policy.validations, compiled.validations, outcomes, messages, strict=True)
        for index, (validation, unit, outcome, message) in enumerate(validations):
            if isinstance(outcome, Failure):
                yield self.error(outcome.text, index, unit, None if outcome.spent else group)
            elif spent is not None:
                yield self.error(f"failed messageExpression: {spent}", index, unit)
            elif outcome is not True:
                actions = self.binding.validation_actions
                yield self._finding(
                    kind="violation",
                    message=denial_message(message, validation.message, validation.expression.text),
                    reason=validation.reason,
                    index=index,
                    actions=actions,
                    expression=unit.expression,
                    reasons=group.reasons(unit, outcome) if actions & _SHOWN else (),
                )

    def _messages(self, outcomes: list[Value], remaining: int) -> tuple[list[Value], SpentError | None]:
        """The messages of validations that do not hold, None for the others, and the error if they exceed the budget.

        kube-apiserver evaluates all of them: a policy whose messages are that expensive fails there on every request.
        """
        compiled, nothing = self.compiled, [None] * len(outcomes)
        if not any(compiled.messages):
            return [*nothing], None
        names = self.inputs.names(self.params, namespace=compiled.reads_namespace, authorizer=False)
        group = Group(compiled.speaking, names, remaining, self.inputs.facts.expired)
        try:
            return [
                None if unit is None or outcome is True else group.evaluate(unit)
                for unit, outcome in zip(compiled.messages, outcomes, strict=True)
            ], None
        except SpentError as error:
            return [*nothing], error

    def _annotations(self, published: dict[str, tuple[str, ...]]) -> Iterator[Finding]:
        """The findings for audit annotations that fail. The values of the others are added to `published`.

        The types allow `authorizer` in their expressions, but it has no value here. Raises SpentError.
        """
        compiled = self.compiled
        names = self.inputs.names(self.params, namespace=compiled.reads_namespace, authorizer=False)
        group = Group(compiled.composition, names, self.budget, self.inputs.facts.expired)
        values = [group.evaluate(unit) for unit in compiled.annotations]
        keys = (f"{compiled.policy.name}/{annotation.key}" for annotation in compiled.policy.audit_annotations)
        for key, unit, value in zip(keys, compiled.annotations, values, strict=True):
            if isinstance(value, str):
                if text := trimmed(value):
                    published[key] = (annotation_value(text),)
            elif value is not None:
                if isinstance(value, Failure):
                    actions, text = compiled.policy.failure_actions, value.text
                else:
                    actions, text = (
                        DENY,
                        f"valueExpression '{unit.expression.text}' resulted in unsupported return type: ",
                    )
                    text += f"{type_of(value).name}. Return type must be either string or null."
                yield self._finding(kind="error", message=text, actions=actions, expression=unit.expression)

    def error(self, text: str, index: int = 0, unit: Unit | None = None, group: Group | None = None) -> Finding:
        """The finding for an expression that failed. It is like a violation, unless the failurePolicy is Ignore."""
        actions = self.binding.validation_actions if self.compiled.policy.failure_policy == "Fail" else frozenset()
        reasons = group.reasons(unit) if actions & _SHOWN and unit is not None and group is not None else ()
        return self._finding(
            kind="error",
            message=text,
            index=index,
            actions=actions,
            expression=unit and unit.expression,
            reasons=reasons,
        )

    def _finding(self, **fields: Any) -> Finding:
        metadata = (self.params or {}).get("metadata") or {}
        name = str(metadata.get("name", ""))
        return Finding(policy=self.compiled.policy.name, binding=self.binding.name, params=name, **fields)
