"""Evaluates a ValidatingAdmissionPolicy with its bindings and parameters for one request, as kube-apiserver does.

Sources, of k8s.io/apiserver: pkg/admission/plugin/policy/validating/dispatcher.go (bindings, parameters, actions) and
validator.go (match conditions, validations, messages, audit annotations, failurePolicy), and generic/
policy_dispatcher.go; pkg/admission/plugin/cel/activation.go and pkg/admission/plugin/webhook/matchconditions/matcher.go
(the cost budget); pkg/endpoints/filters/warning.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from msgspec import Struct

from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, Unit
from policies.admissionpolicy.evaluation.inputs import ConfigurationError, Inputs, Json, Parameters, collect, scope_of
from policies.admissionpolicy.model import DENY, Binding, Expression, PolicyKind, Reason, ValidationAction
from policies.cel import explain
from policies.cel.cost import EXPRESSION_LIMIT, MATCH_CONDITIONS_LIMIT, POLICY_LIMIT
from policies.cel.program import NO_VARIABLES, Composition, Names, Program, Variables
from policies.cel.syntax.source import CompileError
from policies.cel.values import BudgetError, Value, type_of
from policies.engine.interruption import Expired, look
from policies.engine.violation import CODES, FORBIDDEN, Status
from policies.golang.strconv import quote, trimmed

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_MESSAGE_LIMIT = 5 * 1024  # a messageExpression whose result has more bytes is not used
_ANNOTATION_LIMIT = 10 * 1024  # the value of an audit annotation is truncated to this many bytes


def warning_text(policy: str, binding: str, message: str) -> str:
    """The warning of a validation that fails under the action Warn."""
    return f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"


FindingKind = Literal["violation", "error", "misconfigured", "internal"]
"""A validation is false; an expression failed; policy or binding is misconfigured; a mutation's result is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A violation, or an error that kept a policy from judging a request.

    message: exactly the API server's message after `denied request: `. binding: empty if the policy itself is
    misconfigured. index: that of the validation, else 0, as the API server numbers the decisions of an evaluation.
    expression: None if no expression is the cause. params: the name of the parameter object. actions: the consequences;
    empty if the failurePolicy ignores the error. reasons: the parts of the expression that decided, with places and
    values.
    """

    policy_kind: PolicyKind = "ValidatingAdmissionPolicy"
    policy: str
    binding: str = ""
    kind: FindingKind
    message: str
    reason: Reason | Literal["InternalError"] = "Invalid"
    actions: frozenset[ValidationAction] = frozenset()
    index: int = 0
    expression: Expression | None = None
    params: str = ""
    reasons: tuple[explain.Reason, ...] = ()

    @property
    def denies(self) -> bool:
        """Whether the finding refuses the request."""
        return "Deny" in self.actions

    @property
    def status(self) -> Status:
        """The reason and code of the refusal. Mutating policies refuse with 403, whatever the reason."""
        if self.policy_kind == "MutatingAdmissionPolicy" and self.kind != "internal":
            return Status(self.reason, FORBIDDEN.code)
        return Status(self.reason, CODES[self.reason])

    @property
    def native(self) -> str:
        """The API server's message for the refusal, without the object's name before it."""
        if self.kind == "internal":
            return self.message
        with_binding = f" with binding '{self.binding}'" if self.binding else ""
        denied = f"{with_binding} denied request: {self.message}"
        if self.policy_kind == "ValidatingAdmissionPolicy":
            return f"ValidatingAdmissionPolicy '{self.policy}'{denied}"
        return f"policy '{self.policy}'{denied}" if self.binding else f"policy {quote(self.policy)}{denied}"


class Result(Struct, frozen=True, kw_only=True):
    """The result of one policy for one request.

    findings: in the API server's order; it shows the first that denies. ignored: errors that the failurePolicy ignores,
    for metrics and logs. published: the values of audit annotations by their full keys.
    """

    findings: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()
    published: Mapping[str, tuple[str, ...]] = {}

    @property
    def denial(self) -> Finding | None:
        """The finding that the API server would show; None if none denies."""
        return next((finding for finding in self.findings if finding.denies), None)


NOTHING_FOUND = Result()
"""The result for most requests."""


def combined(results: Iterable[Result]) -> Result:
    """The combined result of several bindings, parameters or policies, in their order."""
    parts = tuple(results)
    if len(parts) == 1:
        return parts[0]
    values: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for key, published in part.published.items():
            values[key] = values.get(key, ()) + published
    return Result(
        findings=tuple(finding for part in parts for finding in part.findings),
        ignored=tuple(finding for part in parts for finding in part.ignored),
        published=values,
    )


def result_of(findings: Iterable[Finding], published: Mapping[str, tuple[str, ...]] | None = None) -> Result:
    """The result with these findings. Findings without actions become ignored errors."""
    every = tuple(findings)
    if not (every or published):
        return NOTHING_FOUND
    return Result(
        findings=tuple(finding for finding in every if finding.actions),
        ignored=tuple(finding for finding in every if not finding.actions),
        published=published or {},
    )


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
    """Expressions with a common budget. names: their variables. used: the largest part of a limit that was used."""

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
    """Whether the match conditions, which have no `namespaceObject`, are true. Failures count only if none is false."""
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


def invocations(
    compiled: CompiledPolicy, bindings: Iterable[Binding], parameters: Parameters, namespace: str
) -> Iterator[tuple[Binding, Json | None] | Finding]:
    """The bindings with every parameter; or a finding where policy or binding is misconfigured. Raises Missing."""
    kind, policy = compiled.policy.param_kind, compiled.policy
    misconfigured = partial(
        Finding,
        policy_kind=policy.kind,
        policy=policy.name,
        kind="misconfigured",
        reason="Invalid" if policy.kind == "ValidatingAdmissionPolicy" else "Forbidden",
        actions=policy.failure_actions,
    )
    try:
        if kind is not None:
            scope_of(kind, parameters)
    except ConfigurationError as error:
        yield misconfigured(message=f"failed to configure policy: {error}")
        return
    for binding in bindings:
        try:
            objects = collect(kind, binding, parameters, namespace)
        except ConfigurationError as error:
            yield misconfigured(binding=binding.name, message=f"failed to configure binding: {error}")
        else:
            for params in objects:
                yield binding, params


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
    return combined(
        [
            result_of([one])
            if isinstance(one, Finding)
            else _Evaluation(compiled, one[0], one[1], inputs, budget).result()
            for one in invocations(compiled, bindings, parameters, inputs.request_namespace)
        ]
    )


def parameters_of(
    compiled: CompiledPolicy, bindings: Iterable[Binding], parameters: Parameters, namespace: str
) -> tuple[Json | None, ...]:
    """The parameters with which a policy is evaluated by any binding. Raises Missing and ConfigurationError."""
    kind = compiled.policy.param_kind
    if kind is None:
        return (None,) if bindings else ()
    scope_of(kind, parameters)
    return tuple(params for binding in bindings for params in collect(kind, binding, parameters, namespace))


@dataclass(slots=True)
class _Evaluation:
    compiled: CompiledPolicy
    binding: Binding
    params: Json | None
    inputs: Inputs
    budget: int

    def result(self) -> Result:
        """The findings of the validations and the audit annotations, if the match conditions are true."""
        compiled, inputs = self.compiled, self.inputs
        matched = conditions_hold(compiled, self.params, inputs)
        if matched is not True:
            return result_of([self._error(matched.text)]) if isinstance(matched, Failure) else NOTHING_FOUND
        names = inputs.names(self.params, request=compiled.reads_request, namespace=compiled.reads_namespace)
        published: dict[str, tuple[str, ...]] = {}
        findings: list[Finding] = []
        try:
            group = Group(compiled.composition, names, self.budget, inputs.facts.expired)
            try:
                outcomes = [group.evaluate(unit) for unit in compiled.validations]
            finally:
                inputs.spent(compiled.policy.name, group.used)
            if not all(outcome is True for outcome in outcomes):
                findings += self._judged(outcomes, group)
            if compiled.annotations:
                findings += self._annotations(published)
        except SpentError as error:
            return result_of([self._error(str(error))])
        return result_of(findings, published)

    def _judged(self, outcomes: list[Value], group: Group) -> Iterator[Finding]:
        compiled = self.compiled
        # kube-apiserver evaluates the messages of all validations that do not hold: a policy whose messages exceed the
        # budget fails there on every request.
        messages: list[Value] = [None] * len(outcomes)
        spent = None
        if any(compiled.messages):
            names = self.inputs.names(self.params, namespace=compiled.reads_namespace, authorizer=False)
            speaking = Group(compiled.speaking, names, group.remaining, self.inputs.facts.expired)
            try:
                messages = [
                    None if unit is None or outcome is True else speaking.evaluate(unit)
                    for unit, outcome in zip(compiled.messages, outcomes, strict=True)
                ]
            except SpentError as error:
                spent = error
        validations = zip(compiled.policy.validations, compiled.validations, outcomes, messages, strict=True)
        for index, (validation, unit, outcome, message) in enumerate(validations):
            if isinstance(outcome, Failure):
                yield self._error(outcome.text, index, unit, None if outcome.spent else group)
            elif spent is not None:
                yield self._error(f"failed messageExpression: {spent}", index, unit)
            elif outcome is not True:
                actions = self.binding.validation_actions
                # The message counts if it has one line, not blank and not too long.
                words = trimmed(message) if isinstance(message, str) else ""
                if "\n" in words or len(words.encode(errors="surrogatepass")) > _MESSAGE_LIMIT:
                    words = ""
                otherwise = trimmed(validation.message) or f"failed expression: {trimmed(validation.expression.text)}"
                yield self._finding(
                    kind="violation",
                    message=words or otherwise,
                    reason=validation.reason,
                    index=index,
                    actions=actions,
                    expression=unit.expression,
                    reasons=group.reasons(unit, outcome) if actions & _SHOWN else (),
                )

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
                    octets = text.encode(errors="surrogatepass")
                    is_short = len(octets) <= _ANNOTATION_LIMIT
                    published[key] = (text if is_short else octets[:_ANNOTATION_LIMIT].decode(errors="replace"),)
            elif value is not None:
                actions, text = compiled.policy.failure_actions, value.text if isinstance(value, Failure) else ""
                if not text:
                    wrong = f"resulted in unsupported return type: {type_of(value).name}"
                    text = (
                        f"valueExpression '{unit.expression.text}' {wrong}. Return type must be either string or null."
                    )
                    actions = DENY
                yield self._finding(kind="error", message=text, actions=actions, expression=unit.expression)

    def _error(self, text: str, index: int = 0, unit: Unit | None = None, group: Group | None = None) -> Finding:
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
