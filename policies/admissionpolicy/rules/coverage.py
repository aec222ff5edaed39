"""Policies that match none of the requests on which they were tried, and what keeps them from it.

A policy that matches nothing is as silent as one that everything satisfies, so its author should be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from policies.admissionpolicy import resource
from policies.admissionpolicy.evaluation.matching import Matcher, MatchError, NamespaceLabels
from policies.admissionpolicy.model import Binding, MatchResources, Policy
from policies.admissionpolicy.pods.derivation import derive, is_derived
from policies.engine.match import EVERYTHING
from policies.engine.request import AdmissionRequest
from policies.kubernetes.spelling import closest
from policies.objects.workload import Workload


class Idle(NamedTuple):
    """A policy that matched nothing. reason: what it looked for. hint: what was probably meant; empty if unknown."""

    policy: str
    reason: str
    hint: str = ""


def idle(
    policies: Iterable[Policy],
    bindings: Sequence[Binding],
    requests: Sequence[AdmissionRequest],
    labels: NamespaceLabels,
    workloads: Mapping[tuple[str, str], Workload],
) -> Iterator[Idle]:
    """The policies that match none of the requests, nor of the Pods that these would create.

    labels: of Namespaces. workloads: the kinds whose templates are judged.
    """
    derived = [pod for request in requests for found in derive(request, workloads) for pod in found.requests]
    for policy in policies:
        asked = [*requests, *derived] if is_derived(policy) else requests
        own = [binding for binding in bindings if _names(binding, policy)]
        reason = _reason(policy, own, asked, labels)
        if reason:
            yield Idle(policy.name, reason, _hint(policy.match_constraints))


def _reason(
    policy: Policy, bindings: Sequence[Binding], requests: Sequence[AdmissionRequest], labels: NamespaceLabels
) -> str:
    """What kept the policy from matching; empty if it matches."""
    constraints = policy.match_constraints
    anywhere = replace(constraints, namespace_selector=EVERYTHING, object_selector=EVERYTHING)
    if not _matching(anywhere, requests, labels):
        return ", ".join(dict.fromkeys(name for rule in constraints.resource_rules for name in rule.resources))
    selected = _matching(constraints, requests, labels)
    if not selected:
        return "the selectors of its matchConstraints"
    narrow = [binding.match_resources for binding in bindings]
    if narrow and not any(each is None or _matching(each, selected, labels) for each in narrow):
        return f"matchResources of the binding {', '.join(binding.name for binding in bindings)}"
    return ""


def _matching(
    constraints: MatchResources, requests: Sequence[AdmissionRequest], labels: NamespaceLabels
) -> list[AdmissionRequest]:
    matcher = Matcher(constraints)
    return [request for request in requests if _matches(matcher, request, labels)]


def _matches(matcher: Matcher, request: AdmissionRequest, labels: NamespaceLabels) -> bool:
    try:
        return matcher.matches(request, labels)
    except MatchError:
        return True  # nobody knows; the policy's own failure is told elsewhere


def _names(binding: Binding, policy: Policy) -> bool:
    return (binding.kind, binding.policy_name) == (f"{policy.kind}Binding", policy.name)


def _hint(constraints: MatchResources) -> str:
    """The names of resources that stand for those that do not exist in a built-in group; empty if there are none."""
    meant = []
    for rule in constraints.resource_rules:
        known = {each.name for each in resource.built_in() if each.group in rule.api_groups}
        meant += [closest(name, known) for name in rule.resources if known and "*" not in name and name not in known]
    return ", ".join(filter(None, dict.fromkeys(meant)))
