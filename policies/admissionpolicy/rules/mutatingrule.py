"""All MutatingAdmissionPolicies with their bindings, as one rule of the service.

They are one rule, because policies are reinvoked only if any of them changed the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import jsonpatch
from msgspec.structs import replace

from policies.admissionpolicy.evaluation.compilation import Compile, compile_policy
from policies.admissionpolicy.evaluation.inputs import inputs_of
from policies.admissionpolicy.evaluation.matching import Matcher
from policies.admissionpolicy.evaluation.parameters import ReviewParameters, StaticParameters
from policies.admissionpolicy.model import Binding, Policy
from policies.admissionpolicy.mutation import dispatcher
from policies.admissionpolicy.rules.boundpolicy import BoundPolicy, Key, in_force, key_of
from policies.admissionpolicy.schema import Schema
from policies.engine.facts import Facts
from policies.engine.match import common
from policies.engine.request import AdmissionRequest, GroupVersionKind, JsonObject
from policies.engine.rule import (
    POLICY_GROUPS,
    Hook,
    Mutation,
    MutationRefusedError,
    PolicyException,
    Rule,
    Skip,
    longest,
)
from policies.engine.violation import Violation

NAME = "mutating-policies"
_CACHED = 4_000  # a cluster has some hundred resources, and most of them have few kinds of writes

Schemas = Callable[[GroupVersionKind], Schema | None]
"""The schema of a kind; None if it has none, as the options of a connection."""


class MutatingPolicies:
    """The policies in their order of application.

    exceptions: those from single policies. They are applied here, because for the engine all policies are one rule.
    """

    def __init__(
        self,
        policies: Iterable[BoundPolicy],
        parameters: StaticParameters,
        schemas: Schemas,
        exceptions: Iterable[PolicyException] = (),
    ) -> None:
        self._policies = tuple(policies)
        self._candidates: dict[Key, tuple[BoundPolicy, ...]] = {}
        self._parameters = parameters
        self._schemas = schemas
        names = {policy.policy.name for policy in self._policies}
        self._exceptions = tuple(exception for exception in exceptions if names.intersection(exception.rules))

    @property
    def rule(self) -> Rule:
        """The rule of the service. It reads whole objects, because merging needs them."""
        resources = dict.fromkeys(rule for policy in self._policies for rule in policy.resource_rules())
        failing = any(policy.policy.failure_policy == "Fail" for policy in self._policies)
        reinvoked = any(policy.policy.reinvocation_policy == "IfNeeded" for policy in self._policies)
        hook = Hook(
            "mutate",
            POLICY_GROUPS["Fail"],
            tuple(resources),
            "Fail" if failing else "Ignore",
            scope="*",
            exact=True,
            reinvoked=reinvoked,
            namespaces=common(policy.namespaces for policy in self._policies),
        )
        return Rule(NAME, (hook,), "deny", frozenset({""}), mutate=self.mutate)

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """The patch from the object to the mutated one. Raises MutationRefusedError, Missing and FactUnavailable."""
        exceptions = self._covering(request)
        mutated, excepted = self.mutated(request, facts)
        if (denial := mutated.denial) is not None:
            violation = Violation(
                rule=denial.policy,
                path="",
                value="",
                problem="",
                summary=denial.native,
                remedy="",
                verdict="deny",
                status=denial.status,
            )
            raise MutationRefusedError(violation, exceptions.get(denial.policy))
        operations = jsonpatch.make_patch(request.object, mutated.object).patch
        skipped = tuple(Skip(finding.policy, finding.message) for finding in mutated.result.ignored)
        return Mutation(tuple(operations), excepted=tuple(excepted.items()), skipped=skipped)

    def mutated(
        self, request: AdmissionRequest, facts: Facts
    ) -> tuple[dispatcher.Mutated, Mapping[str, PolicyException]]:
        """The object and result after the policies, and the exceptions from those that were not evaluated."""
        exceptions = self._covering(request)
        holding = {name: exception for name, exception in exceptions.items() if exception.holds(facts.today())}
        excepted: dict[str, PolicyException] = {}
        key = key_of(request)

        def select(obj: JsonObject | None) -> dispatcher.Selected:
            current = replace(request, object=obj)

            def selects(matcher: Matcher) -> bool:
                return matcher.selects(current, facts.namespace_labels)

            candidates = self._of(current, key)
            matching = ((policy.compiled, policy.matching(current, selects, key)) for policy in candidates)
            matched = {compiled.policy.name: (compiled, bindings) for compiled, bindings in matching if bindings}
            excepted.update((name, holding[name]) for name in matched if name in holding)
            return [selected for name, selected in matched.items() if name not in holding]

        parameters = ReviewParameters(facts, self._parameters)
        return dispatcher.mutate(select, parameters, inputs_of(request, facts), self._schemas(request.kind)), excepted

    def _of(self, request: AdmissionRequest, key: Key) -> tuple[BoundPolicy, ...]:
        candidates = self._candidates.get(key)
        if candidates is None:
            candidates = tuple(policy for policy in self._policies if policy.may_match(request, key))
            if len(self._candidates) < _CACHED:
                self._candidates[key] = candidates
        return candidates

    def _covering(self, request: AdmissionRequest) -> Mapping[str, PolicyException]:
        """The exception that covers the request, by policy. The exception may have ended."""
        if not self._exceptions:
            return {}
        names = (policy.policy.name for policy in self._policies)
        covering = ((name, longest(self._exceptions, name, request)) for name in names)
        return {name: exception for name, exception in covering if exception is not None}


def rules(
    policies: Iterable[Policy],
    bindings: Iterable[Binding],
    parameters: StaticParameters,
    schemas: Schemas,
    exceptions: Iterable[PolicyException] = (),
    compile_: Compile = compile_policy,
) -> list[Rule]:
    """The one rule for all mutating policies that are in force; empty if there are none."""
    mutating_policies = list(in_force("MutatingAdmissionPolicy", policies, bindings, compile_))
    return [MutatingPolicies(mutating_policies, parameters, schemas, exceptions).rule] if mutating_policies else []
