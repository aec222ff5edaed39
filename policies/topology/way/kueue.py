"""The way `kueue`: Kueue chooses the domain when it admits a workload, by an annotation of its own in the template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from policies.engine.request import mapping
from policies.topology.affinity import RecordEntry
from policies.topology.annotation import Template
from policies.topology.constraint import Constraint
from policies.topology.scheduling import kueue
from policies.topology.way.assignment import NO_PLAN, Assignment, Edit, Plan
from policies.topology.way.scene import Scene


def assign(constraints: Sequence[Constraint], scene: Scene) -> Plan:
    """Kueue's annotations for the templates of a workload that it manages; nothing for other workloads."""
    if not constraints or not kueue.is_queued(scene.object):
        return NO_PLAN
    flavored = scene.facts.look_up(kueue.FlavorsKey())
    told = [violation.warning for constraint in constraints for violation in kueue.warnings(constraint, flavored)]
    assignments = {
        constraint.template.path: Assignment("kueue", constraint.terms, constraint.own_preferences, annotation=own)
        for constraint in constraints
        if (own := kueue.annotation(constraint)) or kueue.has_own(constraint)
    }
    return Plan(assignments, warnings=tuple(dict.fromkeys(told)))


def edits(template: Template, entry: RecordEntry) -> Iterator[Edit]:
    """The edits of a template's annotations that lead from its recorded annotation to that of a new entry."""
    before, now = template.entry.annotation, entry.annotation
    present = mapping(mapping(template.value, "metadata"), "annotations")
    at = (*template.location, "metadata", "annotations")
    if before and (now is None or before[0] != now[0]) and present.get(before[0]) == before[1]:
        yield (*at, before[0]), UNSET
    if now and present.get(now[0]) != now[1]:
        yield (*at, now[0]), now[1]
