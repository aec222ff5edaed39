"""Policies that match none of the requests on which they were tried, and what keeps them from it.

A policy that matches nothing is as silent as one that everything satisfies, so its author has to hear of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from policies.admissionpolicy.builtin.table import served_resources
from policies.admissionpolicy.derivation import derive, is_derived
from policies.admissionpolicy.model import Binding, Policy
from policies.admissionpolicy.rules.policyrule import Matcher, MatchError, NamespaceLabels
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
        by_policy: dict[tuple[str, str], list[Binding]] = {}
        for binding in bindings:
            by_policy.setdefault((binding.kind.removesuffix("Binding"), binding.policy_name), []).append(binding)
        self._bound = {(one.kind, one.name): (one, by_policy.get((one.kind, one.name), [])) for one in policies}
        self._labels = labels
        self._workloads = workloads
        self.reach: dict[tuple[str, str], Reach] = dict.fromkeys(self._bound, Reach.NOTHING)

    def add(self, request: AdmissionRequest) -> None:
        """Take a request into account."""
        rest = {identity: bound for identity, bound in self._bound.items() if self.reach[identity] < Reach.MATCHED}
        derives = any(is_derived(policy) for policy, _ in rest.values())
        pods = [pod for item in derive(request, self._workloads) for pod in item.requests] if derives else []
        for identity, (policy, bindings) in rest.items():
            asked = (request, *pods) if is_derived(policy) else (request,)
            self.merge({identity: max(self._reach(policy, bindings, one) for one in asked)})

    def merge(self, reach: Mapping[tuple[str, str], Reach]) -> None:
        """Take into account what came of other requests for the same policies."""
        for identity, value in reach.items():
            self.reach[identity] = max(value, self.reach[identity])

    def idle(self) -> Iterator[Idle]:
        """The policies that match none of the requests."""
        for identity, (policy, bindings) in self._bound.items():
            rules, reach = policy.match_constraints.resource_rules, self.reach[identity]
            if reach == Reach.MATCHED:
                continue
            reason = f"matchResources of the binding {', '.join(binding.name for binding in bindings)}"
            if reach == Reach.NOTHING:
                reason = ", ".join(dict.fromkeys(name for rule in rules for name in rule.resources))
            elif reach == Reach.RESOURCE:
                reason = "the selectors of its matchConstraints"
            # Resources that stand for those that do not exist in a built-in group.
            meant = []
            for rule in rules:
                served = {one.name for one in served_resources() if one.group in rule.api_groups}
                wrong = [name for name in rule.resources if served and "*" not in name and name not in served]
                meant += [closest(name, served) for name in wrong]
            yield Idle(policy.name, reason, ", ".join(filter(None, dict.fromkeys(meant))))

    def _reach(self, policy: Policy, bindings: Iterable[Binding], request: AdmissionRequest) -> Reach:
        def matches(matcher: Matcher) -> bool:
            try:
                return matcher.matches(request, self._labels)
            except MatchError:
                return True  # unknown: the policy's own failure shows elsewhere

        constraints = Matcher(policy.match_constraints)
        if not constraints.covers(request):
            return Reach.NOTHING
        if not matches(constraints):
            return Reach.RESOURCE
        narrow = [binding.match_resources for binding in bindings]
        is_matched = not narrow or any(one is None or matches(Matcher(one)) for one in narrow)
        return Reach.MATCHED if is_matched else Reach.SELECTED
