"""Policies that matched nothing, and what was probably meant."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.builders import WORKLOADS, deployment, request

from policies.admissionpolicy.model import Binding, MatchResources, NamedRule, Origin, Policy
from policies.admissionpolicy.rules.coverage import Coverage, Idle
from policies.engine.match import LabelSelector, SelectorRequirement

_ORIGIN = Origin(file="p.yaml", line=1)
_PRODUCTION = LabelSelector((SelectorRequirement("env", "In", ("production",)),))


def _rule(resource: str, group: str = "apps") -> NamedRule:
    return NamedRule(api_groups=(group,), api_versions=("v1",), operations=("CREATE",), resources=(resource,))


def _policy(constraints: MatchResources, annotations: Mapping[str, str] | None = None) -> Policy:
    return Policy(
        kind="ValidatingAdmissionPolicy",
        name="p",
        annotations=annotations or {},
        match_constraints=constraints,
        origin=_ORIGIN,
    )


def _binding(resources: MatchResources | None) -> Binding:
    return Binding(
        kind="ValidatingAdmissionPolicyBinding",
        name="b",
        policy_name="p",
        match_resources=resources,
        origin=_ORIGIN,
    )


_DEPLOYMENTS = MatchResources(resource_rules=(_rule("deployments"),))
_SELECTED = MatchResources(resource_rules=(_rule("deployments"),), namespace_selector=_PRODUCTION)
CASES = {
    "it matches": (_policy(_DEPLOYMENTS), _binding(None), []),
    "the singular": (
        _policy(MatchResources(resource_rules=(_rule("deployment"),))),
        _binding(None),
        [Idle("p", "deployment", "deployments")],
    ),
    "another kind": (
        _policy(MatchResources(resource_rules=(_rule("statefulsets"),))),
        _binding(None),
        [Idle("p", "statefulsets")],
    ),
    "Pods of the template": (_policy(MatchResources(resource_rules=(_rule("pods", ""),))), _binding(None), []),
    "Pods, and no templates": (
        _policy(MatchResources(resource_rules=(_rule("pods", ""),)), {"cks-admission.dev/derive": "false"}),
        _binding(None),
        [Idle("p", "pods")],
    ),
    "a selector of the policy": (
        _policy(_SELECTED),
        _binding(None),
        [Idle("p", "the selectors of its matchConstraints")],
    ),
    "a selector of the binding": (
        _policy(_DEPLOYMENTS),
        _binding(MatchResources(namespace_selector=_PRODUCTION)),
        [Idle("p", "matchResources of the binding b")],
    ),
}


@pytest.mark.parametrize(("policy", "binding", "expected"), CASES.values(), ids=CASES)
def test_what_matches_nothing(policy: Policy, binding: Binding, expected: list[Idle]) -> None:
    """A policy that matches no object and no Pod of one is named, with what kept it from matching."""
    coverage = Coverage([policy], [binding], lambda _: {}, WORKLOADS)
    coverage.add(request(deployment()))
    other = Coverage([policy], [binding], lambda _: {}, WORKLOADS)
    other.merge(coverage.reach)

    assert (list(coverage.idle()), list(other.idle())) == (expected, expected)
