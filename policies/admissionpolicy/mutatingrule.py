"""All MutatingAdmissionPolicies with their bindings as one rule of the service.

They are one, since which of them are asked a second time depends on whether any of them changed the object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jsonpatch
from msgspec.structs import replace

from policies.admissionpolicy import mutating
from policies.admissionpolicy.bound import BoundPolicy, bound, inputs
from policies.admissionpolicy.model import Binding, Policy
from policies.admissionpolicy.params import Parameters
from policies.admissionpolicy.schema import Schema
from policies.facts import Facts
from policies.request import AdmissionRequest, GroupVersionKind, JsonObject
from policies.rule import NO_MUTATION, Hook, Mutation, Rule

NAME = "mutating-policies"
GROUP = "policies"

Schemas = Callable[[GroupVersionKind], Schema | None]
"""The schema of a kind, None for what has none, as the options of a connection."""


class MutatingPolicyError(Exception):
    """A policy that could not change the object and whose failurePolicy is Fail; the text is the API server's."""


class MutatingPolicies:
    """The policies in the order in which they are applied."""

    def __init__(self, policies: Iterable[BoundPolicy], parameters: Parameters, schemas: Schemas) -> None:
        self._policies = tuple(policies)
        self._parameters = parameters
        self._schemas = schemas

    @property
    def rule(self) -> Rule:
        """The rule of the service. It reads whole objects: what it does not see it could not merge into."""
        resources = dict.fromkeys(rule for policy in self._policies for rule in policy.resource_rules())
        failing = any(policy.policy.failure_policy == "Fail" for policy in self._policies)
        hook = Hook("mutate", GROUP, tuple(resources), "Fail" if failing else "Ignore")
        return Rule(NAME, (hook,), "deny", frozenset({""}), mutate=self.mutate)

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """The patch to what the policies make of the object.

        Raises MutatingPolicyError, UnknownFact, and UnansweredCheck for an authorization check without an answer.
        """
        mutated = self.mutated(request, facts)
        if mutated.denial is not None:
            raise MutatingPolicyError(mutated.denial.native)
        operations = jsonpatch.make_patch(request.object, mutated.object).patch
        return Mutation(tuple(operations)) if operations else NO_MUTATION

    def mutated(self, request: AdmissionRequest, facts: Facts) -> mutating.Mutated:
        """The object after the policies, and what they found. Raises UnknownFact, and UnansweredCheck."""

        def select(obj: JsonObject | None) -> mutating.Selected:
            current = replace(request, object=obj)
            matching = ((each.compiled, each.matching(current, facts.namespace_labels)) for each in self._policies)
            return [(compiled, bindings) for compiled, bindings in matching if bindings]

        return mutating.mutate(select, self._parameters, inputs(request, facts), self._schemas(request.kind))


def rules(
    policies: Iterable[Policy], bindings: Iterable[Binding], parameters: Parameters, schemas: Schemas
) -> list[Rule]:
    """The rule of all mutating policies that are in force; none where there is no such policy."""
    found = bound("MutatingAdmissionPolicy", policies, bindings)
    return [MutatingPolicies(found, parameters, schemas).rule] if found else []
