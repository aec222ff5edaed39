"""Policies with their bindings and all that the documents have beside them, ready to judge requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from typing import Any

from msgspec.structs import replace

from cks_admission.request import Request, admission_request
from cks_admission.verdict import Verdict, finding_of
from policies.admissionpolicy.evaluation.compilation import CompiledPolicy, compile_policy
from policies.admissionpolicy.evaluation.inputs import Inputs, inputs_of
from policies.admissionpolicy.evaluation.matching import is_seen
from policies.admissionpolicy.evaluation.parameters import ConfigurationError
from policies.admissionpolicy.evaluation.result import Result, combined, joined_annotation, warning_text
from policies.admissionpolicy.evaluation.validator import Group, SpentError, evaluate_policy, parameters_of
from policies.admissionpolicy.model import Binding
from policies.admissionpolicy.mutation.dispatcher import Mutated
from policies.admissionpolicy.rules.boundpolicy import BoundPolicy, Subject, in_force
from policies.admissionpolicy.rules.mutatingrule import MutatingPolicies
from policies.cel.cost import POLICY_LIMIT
from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest
from webhook.sources.policyfiles import PolicyFiles

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
        mutated = self._mutated(asked, facts)
        if mutated.denial is not None:
            return _verdict(mutated, Result(), {})
        changed = replace(asked, object=mutated.object)
        inputs = inputs_of(changed, facts)
        matching = [*_matching(self._validating, changed, facts)]
        results = (evaluate_policy(policy, bound, self._files.parameters, inputs) for policy, bound in matching)
        return _verdict(mutated, combined(results), self._costs(matching, inputs))

    def _mutated(self, request: AdmissionRequest, facts: StaticFacts) -> Mutated:
        policies = MutatingPolicies(self._mutating, self._files.parameters, self._files.schema)
        return policies.mutated(request, facts)[0]

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


def _verdict(mutated: Mutated, validated: Result, costs: Mapping[str, int]) -> Verdict:
    result = combined([mutated.result, validated])
    denial = mutated.denial or validated.denial
    return Verdict(
        allowed=denial is None,
        code=0 if denial is None else denial.status.code,
        reason="" if denial is None else denial.status.reason,
        message="" if denial is None else denial.native,
        findings=tuple(map(finding_of, result.findings)),
        ignored=tuple(map(finding_of, result.ignored)),
        warnings=tuple(
            warning_text(finding.policy, finding.binding, finding.message)
            for finding in result.findings
            if "Warn" in finding.actions
        ),
        annotations={key: joined_annotation(values) for key, values in result.published.items()},
        object=mutated.object,
        costs=costs,
    )
