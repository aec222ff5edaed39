"""Which way a placement goes: the first one that is permitted and can keep the promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from policies.topology.constraint import Constraint
from policies.topology.way import domain, inheritance, kueue, notice, peers, replica, workload
from policies.topology.way.assignment import Assignment, Plan, named
from policies.topology.way.permission import Way, permitted
from policies.topology.way.podaffinity import APART
from policies.topology.way.scene import Scene
from policies.vocabulary.nvlink import NVL_DOMAIN

Step = Callable[[Sequence[Constraint], Scene], Plan]
"""A way: the plan for those constraints that it can keep, and reasons for others."""


def plan(constraints: Sequence[Constraint], scene: Scene) -> Plan:
    """The plan for constraints with open levels. Raises MutationRefusedError, Missing or FactUnavailable."""
    ways = {constraint.template.path: _permitted(constraint, scene) for constraint in constraints}
    made = inheritance.assign(constraints, scene)
    left = [constraint for constraint in constraints if constraint.template.path not in made.assignments]
    for way, step in _STEPS:
        if due := [constraint for constraint in left if way in ways[constraint.template.path]]:
            made = made.joined(step(due, scene))
            left = [constraint for constraint in left if constraint.template.path not in made.assignments]
    made = made.joined(named("", left, is_makeshift=True))
    lines = [line for constraint in constraints for line in _told(constraint, made, is_left=constraint in left)]
    return made.joined(Plan(warnings=tuple(dict.fromkeys(lines))))


def _permitted(constraint: Constraint, scene: Scene) -> tuple[Way, ...]:
    topology = "" if constraint.topology is None else constraint.topology.name
    namespace = scene.request.scope_namespace
    labels = partial(scene.facts.namespace_labels, namespace) if namespace else dict[str, str]
    ways = permitted(scene.options.placement, topology, labels)
    levels = [placement.level for placement in (constraint.required, constraint.preferred) if placement is not None]
    # No label names an NVL Domain: others who place Pods cannot be told of it.
    is_named = all(NVL_DOMAIN not in level.keys for level in levels)
    return ways if is_named else tuple(way for way in ways if way in ("domain", "labels"))


def _told(constraint: Constraint, made: Plan, *, is_left: bool) -> Iterator[str]:
    """The warning about a template for which no domain was chosen."""
    assignment = made.assignments[constraint.template.path]
    reason = made.reasons.get(constraint.template.path, "")
    if constraint.is_default:
        return
    if assignment.together != APART:
        yield notice.together(constraint, reason)
    elif is_left or assignment.way == "labels":
        yield notice.apart(constraint, reason)


def _labels(constraints: Sequence[Constraint], _scene: Scene) -> Plan:
    """The way `labels`: Nodes must, or should, have the labels."""
    return Plan({c.template.path: Assignment("labels", c.terms, c.preferences) for c in constraints})


_STEPS: tuple[tuple[Way, Step], ...] = (
    ("kueue", kueue.assign),
    ("workload", workload.assign),
    ("domain", replica.assign),
    ("domain", domain.assign),
    ("affinity", replica.assign),
    ("affinity", peers.assign),
    ("labels", _labels),
)
