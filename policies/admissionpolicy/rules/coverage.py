"""Policies that match none of the requests on which they were tried, and what keeps them from it.

A policy that matches nothing is as silent as one that everything satisfies, so its author should be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from policies.admissionpolicy.builtin import table
from policies.admissionpolicy.derivation import derive, is_derived
from policies.admissionpolicy.evaluation.matching import Matcher, MatchError, NamespaceLabels
from policies.admissionpolicy.model import Binding, MatchResources, Policy
from policies.engine.match import EVERYTHING
from policies.engine.request import AdmissionRequest
from policies.kubernetes.spelling import closest
from policies.objects.workload import Workload


class Idle(NamedTuple):
    """A policy that matched nothing. reason: what it looked for. hint: what was probably meant; empty if unknown."""

    policy: str
    reason: str
    hint: str = ""


class Reach(IntEnum):
    """How far the requests so far came towards a policy, each step further than the one before."""

    NOTHING = 0
    RESOURCE = 1
    SELECTED = 2
    MATCHED = 3


class Coverage:
    """Which of some policies match requests, or the Pods that these would create, one request after the other.

    labels: of Namespaces. workloads: the kinds whose templates are judged. reach: how far requests came towards each.
    """

    def __init__(
        self,
        policies: Iterable[Policy],
        bindings: Iterable[Binding],
        labels: NamespaceLabels,
        workloads: Mapping[tuple[str, str], Workload],
    ) -> None:
        self._bound = [(policy, [b for b in bindings if _names(b, policy)]) for policy in policies]
        self._labels = labels
        self._workloads = workloads
        self.reach: dict[tuple[str, str], Reach] = {}

    def add(self, request: AdmissionRequest) -> None:
        """Take a request into account."""
        rest = [bound for bound in self._bound if self._reach(bound[0]) < Reach.MATCHED]
        derives = any(is_derived(policy) for policy, _ in rest)
        pods = [pod for item in derive(request, self._workloads) for pod in item.requests] if derives else []
        for policy, bindings in rest:
            for asked in (request, *pods) if is_derived(policy) else (request,):
                self._raise(_identity(policy), _reach(policy, bindings, asked, self._labels))

    def merge(self, reach: Mapping[tuple[str, str], Reach]) -> None:
        """Take into account what came of other requests for the same policies."""
        for identity, value in reach.items():
            self._raise(identity, value)

    def idle(self) -> Iterator[Idle]:
        """The policies that match none of the requests."""
        for policy, bindings in self._bound:
            reach = self._reach(policy)
            if reach < Reach.MATCHED:
                yield Idle(policy.name, _reason(policy, bindings, reach), _hint(policy.match_constraints))

    def _reach(self, policy: Policy) -> Reach:
        return self.reach.get(_identity(policy), Reach.NOTHING)

    def _raise(self, identity: tuple[str, str], reach: Reach) -> None:
        self.reach[identity] = max(reach, self.reach.get(identity, Reach.NOTHING))


def _identity(policy: Policy) -> tuple[str, str]:
    return policy.kind, policy.name


def _reach(policy: Policy, bindings: Iterable[Binding], request: AdmissionRequest, labels: NamespaceLabels) -> Reach:
    constraints = policy.match_constraints
    anywhere = replace(constraints, namespace_selector=EVERYTHING, object_selector=EVERYTHING)
    if not _matches(anywhere, request, labels):
        return Reach.NOTHING
    if not _matches(constraints, request, labels):
        return Reach.RESOURCE
    narrow = [binding.match_resources for binding in bindings]
    if narrow and not any(each is None or _matches(each, request, labels) for each in narrow):
        return Reach.SELECTED
    return Reach.MATCHED


def _reason(policy: Policy, bindings: Iterable[Binding], reach: Reach) -> str:
    """What keeps requests from the policy."""
    if reach == Reach.NOTHING:
        rules = policy.match_constraints.resource_rules
        return ", ".join(dict.fromkeys(name for rule in rules for name in rule.resources))
    if reach == Reach.RESOURCE:
        return "the selectors of its matchConstraints"
    return f"matchResources of the binding {', '.join(binding.name for binding in bindings)}"


def _matches(constraints: MatchResources, request: AdmissionRequest, labels: NamespaceLabels) -> bool:
    try:
        return Matcher(constraints).matches(request, labels)
    except MatchError:
        return True  # nobody knows; the policy's own failure is told elsewhere


def _names(binding: Binding, policy: Policy) -> bool:
    return (binding.kind, binding.policy_name) == (f"{policy.kind}Binding", policy.name)


def _hint(constraints: MatchResources) -> str:
    """The names of resources that stand for those that do not exist in a built-in group; empty if there are none."""
    meant = []
    for rule in constraints.resource_rules:
        known = {each.name for each in table.served_resources() if each.group in rule.api_groups}
        meant += [closest(name, known) for name in rule.resources if known and "*" not in name and name not in known]
    return ", ".join(filter(None, dict.fromkeys(meant)))
