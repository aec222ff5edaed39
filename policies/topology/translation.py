"""The translation of constraints to node affinity: which templates get which affinity, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from policies.topology.affinity import (
    NOTHING,
    RecordEntry,
    are_alike,
    remembering,
    restored,
    with_terms,
    without_terms,
)
from policies.topology.annotation import Template
from policies.topology.constraint import Constraint, Submission
from policies.topology.way import copies, replica
from policies.topology.way.assignment import Assignment, Plan
from policies.topology.way.party import demanded
from policies.topology.way.podaffinity import APART, with_together
from policies.topology.way.scene import Scene
from policies.vocabulary import nvlink


class Translation(Struct, frozen=True):
    """The new `spec.affinity` of a template, or None, and the entry for the record."""

    template: Template
    affinity: Any
    entry: RecordEntry

    @property
    def changes(self) -> bool:
        """Whether the affinity changes."""
        return bool(self.affinity != self.template.affinity)


def is_due(constraint: Constraint, scene: Scene) -> bool:
    """Whether domains are to be chosen for a template now."""
    if not constraint.is_open or not may_change(constraint, scene.submission):
        return False
    return differs(constraint, scene) and _standing(constraint, scene) is None


def may_change(constraint: Constraint, submission: Submission) -> bool:
    """Whether a template's affinity may change.

    In an existing object, neither Pod affinity that was written nor a constraint for Kubernetes' own scheduling may.
    """
    earlier = constraint.earlier
    is_fixed = earlier is not None and (earlier.entry.together != APART or bool(earlier.entry.scheduling))
    return submission.may_change and not is_fixed


def differs(constraint: Constraint, scene: Scene) -> bool:
    """Whether a template's affinity, or anything that it depends on, has changed."""
    is_placed_now = scene.submission.is_resumed and constraint.is_open
    earlier = constraint.earlier
    is_lost = earlier is not None and copies.are_lost(constraint.template, earlier.entry)
    is_lost = is_lost or replica.is_moved(constraint, scene) or (scene.submission.repins and constraint.is_open)
    return constraint.differs or is_placed_now or is_lost or _demands_other(constraint, scene)


def translations(scene: Scene, plan: Plan) -> Iterator[Translation]:
    """The translations of a submission. An update leaves a template alone unless its constraint has changed."""
    for constraint in scene.submission.constraints:
        assignment = plan.assignments.get(constraint.template.path)
        if differs(constraint, scene):
            translation = _standing(constraint, scene) or _unmoved(constraint, assignment)
            translation = translation or _translation(constraint, scene.submission, assignment)
            if translation is not None:
                yield translation


def translate(constraint: Constraint, assignment: Assignment | None = None) -> Translation:
    """The translation of a template: the user's affinity with what was assigned, else with the placements' terms."""
    template = constraint.template
    own = without_terms(template.affinity, template.entry)
    if constraint.obstacle or not constraint.is_usable:
        return Translation(template, own, NOTHING)
    given = assignment or Assignment(terms=constraint.terms, preferences=constraint.preferences)
    known = constraint.cliques
    terms = [tuple(nvlink.written(requirement, known) for requirement in term) for term in given.terms]
    affinity, entry = with_terms(own, terms, [nvlink.preference(weighted, known) for weighted in given.preferences])
    affinity, together = with_together(affinity, given.together)
    domain = given.domain if entry != NOTHING else ()
    entry = replace(
        entry, domain=domain, together=together, scheduling=given.scheduling, annotations=given.annotations
    )  # fmt: skip
    return Translation(template, affinity, entry)


def _standing(constraint: Constraint, scene: Scene) -> Translation | None:
    """The translation that keeps what was written before an update; None if the template is to be translated anew.

    If neither the annotations nor the user's own terms have changed, the terms that were written before stay, even if
    the new object lacks them: applying a manifest again, or rolling a template back, requests no change.
    """
    template, earlier = constraint.template, constraint.earlier
    if earlier is None or earlier.entry == NOTHING or (constraint.is_new and not constraint.is_same):
        return None
    if replica.is_moved(constraint, scene) or (scene.submission.repins and may_change(constraint, scene.submission)):
        return None
    if scene.submission.is_resumed and constraint.is_open and not earlier.entry.is_settled:
        return None
    own, was_own = (without_terms(version.affinity, version.entry) for version in (template, earlier))
    if not are_alike(was_own, own) or _demands_other(constraint, scene):
        return None
    return Translation(template, restored(own, earlier.affinity, earlier.entry), earlier.entry)


def _unmoved(constraint: Constraint, assignment: Assignment | None) -> Translation | None:
    """The translation that keeps a chosen domain because none can be chosen now; None if there is none to keep."""
    template, earlier = constraint.template, constraint.earlier
    if earlier is None or not earlier.entry.domain or assignment is None or not assignment.is_makeshift:
        return None
    own, was_own = (without_terms(version.affinity, version.entry) for version in (template, earlier))
    if (constraint.is_new and not constraint.is_same) or not are_alike(was_own, own):
        return None
    return Translation(template, restored(own, earlier.affinity, earlier.entry), earlier.entry)


def _demands_other(constraint: Constraint, scene: Scene) -> bool:
    """Whether the Pods of a template that has a chosen domain ask for something else than before an update."""
    earlier = constraint.earlier
    if earlier is None or not earlier.entry.domain or not constraint.is_open:
        return False
    return may_change(constraint, scene.submission) and demanded(constraint.template, scene) != demanded(earlier, scene)


def _translation(constraint: Constraint, submission: Submission, assignment: Assignment | None) -> Translation | None:
    """The new translation of a template; None if it stays unchanged."""
    earlier = constraint.earlier
    if earlier is not None and not constraint.is_new and not constraint.is_usable:
        return None  # the user changed nothing; the topology is gone
    translation = translate(constraint, assignment)
    if not may_change(constraint, submission) and not (earlier and are_alike(translation.affinity, earlier.affinity)):
        return None
    # Without annotations, the terms that were written before are forgotten.
    if earlier is None or not submission.is_revised or not constraint.annotations.anything:
        return translation
    return replace(translation, entry=remembering(translation.entry, earlier.entry))
