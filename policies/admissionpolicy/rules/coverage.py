"""Policies that match none of the requests on which they were tried, and what keeps them from it.

A policy that matches nothing is as silent as one that everything satisfies, so its author should be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from policies.admissionpolicy.builtin.table import served_resources
from policies.admissionpolicy.derivation import derive, is_derived
from policies.admissionpolicy.evaluation.matching import Matcher, MatchError, NamespaceLabels
from policies.admissionpolicy.model import Binding, NamedRule, Policy
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
    """Which of some policies match requests, or the Pods that these would create. reach: how far they came."""

    def __init__(
        self,
        policies: Iterable[Policy],
        bindings: Iterable[Binding],
        labels: NamespaceLabels,
        workloads: Mapping[tuple[str, str], Workload],
    ) -> None:
        known = tuple(bindings)
        self._bound = [
            (
                policy,
                [each for each in known if (each.kind, each.policy_name) == (f"{policy.kind}Binding", policy.name)],
            )
            for policy in policies
        ]
        self._labels = labels
        self._workloads = workloads
        self.reach: dict[tuple[str, str], Reach] = {}

    def add(self, request: AdmissionRequest) -> None:
        """Take a request into account."""
        rest = [bound for bound in self._bound if self._reach(bound[0]) < Reach.MATCHED]
        derives = any(is_derived(policy) for policy, _ in rest)
        pods = [pod for item in derive(request, self._workloads) for pod in item.requests] if derives else []
        for policy, bindings in rest:
            asked = (request, *pods) if is_derived(policy) else (request,)
            self.merge({(policy.kind, policy.name): max(self._found(policy, bindings, each) for each in asked)})

    def merge(self, reach: Mapping[tuple[str, str], Reach]) -> None:
        """Take into account what came of other requests for the same policies."""
        for identity, value in reach.items():
            self.reach[identity] = max(value, self.reach.get(identity, Reach.NOTHING))

    def idle(self) -> Iterator[Idle]:
        """The policies that match none of the requests."""
        for policy, bindings in self._bound:
            reach = self._reach(policy)
            if reach < Reach.MATCHED:
                rules = policy.match_constraints.resource_rules
                reason = f"matchResources of the binding {', '.join(binding.name for binding in bindings)}"
                if reach == Reach.NOTHING:
                    reason = ", ".join(dict.fromkeys(name for rule in rules for name in rule.resources))
                elif reach == Reach.RESOURCE:
                    reason = "the selectors of its matchConstraints"
                yield Idle(policy.name, reason, _hint(rules))

    def _reach(self, policy: Policy) -> Reach:
        return self.reach.get((policy.kind, policy.name), Reach.NOTHING)

    def _found(self, policy: Policy, bindings: Iterable[Binding], request: AdmissionRequest) -> Reach:
        constraints = Matcher(policy.match_constraints)
        if not constraints.covers(request):
            return Reach.NOTHING
        if not self._matches(constraints, request):
            return Reach.RESOURCE
        narrow = [binding.match_resources for binding in bindings]
        if narrow and not any(each is None or self._matches(Matcher(each), request) for each in narrow):
            return Reach.SELECTED
        return Reach.MATCHED

    def _matches(self, matcher: Matcher, request: AdmissionRequest) -> bool:
        try:
            return matcher.matches(request, self._labels)
        except MatchError:
            return True  # nobody knows; the policy's own failure is told elsewhere


def _hint(rules: Iterable[NamedRule]) -> str:
    """The names of resources that stand for those that do not exist in a built-in group; empty if there are none."""
    meant = []
    for rule in rules:
        known = {each.name for each in served_resources() if each.group in rule.api_groups}
        meant += [closest(name, known) for name in rule.resources if known and "*" not in name and name not in known]
    return ", ".join(filter(None, dict.fromkeys(meant)))
