"""The way `kueue`: Kueue chooses the domain when it admits a workload, by an annotation of its own in the template."""

from __future__ import annotations

from collections.abc import Sequence

from policies.engine.request import is_owned
from policies.topology.constraint import Constraint
from policies.topology.scheduling import kueue
from policies.topology.way.assignment import NO_PLAN, Assignment, Plan, named
from policies.topology.way.scene import Scene


def assign(constraints: Sequence[Constraint], scene: Scene) -> Plan:
    """Kueue's annotations for the templates of a workload that it manages; nothing for other workloads.

    A Pod that a controller made from such a template has the annotation already, and nothing is chosen for it.
    """
    if scene.row.kind == "Pod" and is_owned(scene.object):
        return named("kueue", (constraint for constraint in constraints if kueue.has_own(constraint)))
    if not constraints or not kueue.is_queued(scene.object):
        return NO_PLAN
    flavored = scene.facts.look_up(kueue.FlavorsKey())
    told = [violation.warning for constraint in constraints for violation in kueue.warnings(constraint, flavored)]
    assignments = {
        constraint.template.path: Assignment(
            "kueue", constraint.terms, constraint.own_preferences, annotations=(own,) if own else ()
        )
        for constraint in constraints
        if (own := kueue.annotation(constraint)) or kueue.has_own(constraint)
    }
    return Plan(assignments, warnings=tuple(dict.fromkeys(told)))
