"""What the library answers: the value of an expression, and what policies say about a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from cks_admission.errors import ExpressionError
from cks_admission.inputs import Request, admission_request, request_json
from policies.admissionpolicy.evaluation import validator
from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.evaluation.inputs import ConfigurationError, Inputs, inputs_of
from policies.admissionpolicy.evaluation.matching import is_seen
from policies.admissionpolicy.evaluation.validator import Group, SpentError, evaluate_policy, parameters_of
from policies.admissionpolicy.model import Binding, ValidationAction
from policies.admissionpolicy.mutation.dispatcher import Mutated
from policies.admissionpolicy.rules.policyrule import BoundPolicy, MutatingPolicies, Subject, in_force
from policies.cel import explain
from policies.cel.activation import activation
from policies.cel.cases import PATCHING, RESULTS
from policies.cel.cost import EXPRESSION_LIMIT, POLICY_LIMIT
from policies.cel.environment import Dialect
from policies.cel.explain import Reason, shown
from policies.cel.kubernetes import admission
from policies.cel.program import Composition, Names, Program, compile_expression
from policies.cel.syntax.source import CompileError, Source
from policies.cel.values import Value, type_of
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest
from policies.kubernetes.release import Release
from webhook.sources.policyfiles import PolicyFiles

_ACTIONS: tuple[ValidationAction, ...] = ("Deny", "Warn", "Audit")


class Cause(Struct, frozen=True):
    """A part of an expression that decided it. path: of the field that it reads, empty if it reads none."""

    path: str
    text: str

    def __str__(self) -> str:
        """`spec.replicas: object.spec.replicas <= 5 is false (object.spec.replicas is 7)`."""
        return f"{self.path}: {self.text}" if self.path else self.text


class Finding(Struct, frozen=True, kw_only=True):
    """A validation that is false, or something that failed.

    binding, params: names, empty if there is none. message: as the policy has it. actions: those of the binding, in the
    order of Kubernetes' documentation; none if the failurePolicy ignores an error. text, reason, code: the API server's
    refusal, should this be the first one. expression: the source of the expression; place: of it, as file:line:column.
    causes: the parts that decided.
    """

    policy: str
    binding: str
    params: str
    message: str
    actions: tuple[ValidationAction, ...]
    text: str
    reason: str
    code: int
    expression: str = ""
    place: str = ""
    causes: tuple[Cause, ...] = ()


class Verdict(Struct, frozen=True, kw_only=True):
    """The answer to a request.

    code, reason, message: of the refusal, without the name of the object before it; 0 and empty if it is admitted.
    findings: in the API server's order, which refuses with the first whose actions have Deny. ignored: errors that the
    failurePolicy ignores. warnings: as kubectl prints them. annotations: for the audit log, by key. object: as the
    mutating policies left it. costs: of the validations of each policy that matched, of the 10,000,000 that one may
    cost; the highest, if it has several bindings or parameters.
    """

    allowed: bool
    code: int = 0
    reason: str = ""
    message: str = ""
    findings: tuple[Finding, ...] = ()
    ignored: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}
    object: Mapping[str, Any] | None = None
    costs: Mapping[str, int] = {}


def cause_of(reason: Reason) -> Cause:
    """A reason with its place as text."""
    return Cause("" if reason.place is None else shown(reason.place), reason.detail)


def finding_of(finding: validator.Finding) -> Finding:
    """A finding with its texts."""
    source = finding.expression
    return Finding(
        policy=finding.policy,
        binding=finding.binding,
        params=finding.params,
        message=finding.message,
        actions=tuple(action for action in _ACTIONS if action in finding.actions),
        text=finding.native,
        reason=finding.status.reason,
        code=finding.status.code,
        expression="" if source is None else source.text,
        place="" if source is None else f"{source.file}:{source.line}:{source.column}",
        causes=tuple(map(cause_of, finding.reasons)),
    )


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


def compiled_expression(text: str, variables: Mapping[str, str], result: Result, release: Release) -> Expression:
    """An expression with variables that may read those before them. Raises ExpressionError."""
    composition = Composition(admission(dialect=Dialect(release, stored=True)))
    try:
        for name, part in variables.items():
            composition = composition.declare(name, part, source=Source(part, f"variables.{name}"))
            program = composition.programs[name]
            if isinstance(program, CompileError):
                raise program
        if result in PATCHING:
            composition = composition.for_mutations()
        program = compile_expression(text, composition.environment, *RESULTS[result], source=Source(text, "expression"))
    except CompileError as error:
        raise ExpressionError(error) from None
    return Expression(text, program, composition)


_Matching = tuple[CompiledPolicy, tuple[Binding, ...]]


class Policies:
    """Compiled policies. warnings: doubts about the documents, such as a policy without a binding."""

    __slots__ = ("_files", "_mutating", "_validating", "warnings")

    def __init__(self, files: PolicyFiles) -> None:
        loaded = files.loaded
        self._files = files
        given = loaded.policies, loaded.bindings, partial(compile_policy, release=files.release)
        self._mutating = tuple(in_force("MutatingAdmissionPolicy", *given))
        self._validating = tuple(in_force("ValidatingAdmissionPolicy", *given))
        self.warnings = tuple(map(str, loaded.warnings))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the policies, mutating ones first, as they run."""
        return tuple(bound.policy.name for bound in (*self._mutating, *self._validating))

    def verdict(self, request: Request) -> Verdict:
        """What the policies say: first those that mutate, then, about what they left, those that validate.

        Raises RequestError.
        """
        asked = admission_request(request)
        if not is_seen(asked):
            return Verdict(allowed=True, object=asked.object)
        facts = self._files.facts(date.min)
        mutated, _ = MutatingPolicies(self._mutating, self._files.parameters, self._files.schema).mutated(asked, facts)
        if mutated.denial is not None:
            return _verdict(mutated, validator.Result(), {})
        changed = replace(asked, object=mutated.object)
        inputs = inputs_of(changed, facts)
        matching = [*_matching(self._validating, changed, facts)]
        results = (evaluate_policy(policy, bound, self._files.parameters, inputs) for policy, bound in matching)
        return _verdict(mutated, validator.combined(results), self._costs(matching, inputs))

    def _costs(self, matching: Iterable[_Matching], inputs: Inputs) -> Mapping[str, int]:
        costs: dict[str, int] = {}
        for policy, bound in matching:
            try:
                given = parameters_of(policy, bound, self._files.parameters, inputs.request_namespace)
            except ConfigurationError:
                continue
            costs[policy.policy.name] = max((_cost(policy, params, inputs) for params in given), default=0)
        return costs


def _matching(policies: Iterable[BoundPolicy], request: AdmissionRequest, facts: StaticFacts) -> Iterator[_Matching]:
    selects = Subject(request, facts, {}).selects
    for policy in policies:
        if bindings := policy.matching(request, selects):
            yield policy.compiled, bindings


def _cost(policy: CompiledPolicy, params: Mapping[str, Any] | None, inputs: Inputs) -> int:
    """What the validations cost, with the variables that they read."""
    names = inputs.names(params, request=policy.reads_request, namespace=policy.reads_namespace)
    group = Group(policy.composition, names, POLICY_LIMIT, None)
    try:
        for unit in policy.validations:
            group.evaluate(unit)
    except SpentError:
        return POLICY_LIMIT
    return POLICY_LIMIT - group.remaining


def _verdict(mutated: Mutated, validated: validator.Result, costs: Mapping[str, int]) -> Verdict:
    both = validator.combined([mutated.result, validated])
    denial = mutated.denial or validated.denial
    return Verdict(
        allowed=denial is None,
        code=0 if denial is None else denial.status.code,
        reason="" if denial is None else denial.status.reason,
        message="" if denial is None else denial.native,
        findings=tuple(map(finding_of, both.findings)),
        ignored=tuple(map(finding_of, both.ignored)),
        warnings=tuple(
            validator.warning_text(finding.policy, finding.binding, finding.message)
            for finding in both.findings
            if "Warn" in finding.actions
        ),
        annotations={key: ", ".join(dict.fromkeys(values)) for key, values in both.published.items()},
        object=mutated.object,
        costs=costs,
    )
