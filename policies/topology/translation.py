"""From constraints to node affinity: which templates get which affinity, and when they may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from policies.topology.affinity import (
    NOTHING,
    Entry,
    node_affinity,
    remembering,
    with_node_affinity,
    with_terms,
    without_terms,
)
from policies.topology.annotation import Template
from policies.topology.constraint import Constraint, Submission
from policies.topology.term import Term, alternatives, preferences


class Translation(Struct, frozen=True):
    """What a template's `spec.affinity` becomes, None for none, and what to note of that."""

    template: Template
    affinity: Any
    entry: Entry

    @property
    def changes(self) -> bool:
        """Whether that is another affinity than there is."""
        return bool(self.affinity != self.template.affinity)


def translations(submission: Submission) -> Iterator[Translation]:
    """Those that are made. On an update a template stays as it is unless what it depends on has changed."""
    for constraint in submission.constraints:
        translation = _translation(constraint, submission) if constraint.differs else None
        if translation is not None:
            yield translation


def translate(constraint: Constraint) -> Translation:
    """What the affinity of a template becomes: as the user wrote it, with what its annotations ask for now."""
    template, topology = constraint.template, constraint.topology
    own = without_terms(template.affinity, template.entry)
    if constraint.obstacle or not constraint.is_usable or topology is None:
        return Translation(template, own, NOTHING)
    floor = None if constraint.required is None else constraint.required.level
    preferred = [] if constraint.preferred is None else preferences(constraint.preferred, floor, topology)
    return Translation(template, *with_terms(own, required_terms(constraint), preferred))


def required_terms(constraint: Constraint) -> Sequence[Term]:
    """The terms one of which a Node must meet for the placement of a template; none for no placement."""
    topology, required = constraint.topology, constraint.required
    if topology is None or (required is None and constraint.preferred is None):
        return ()
    return alternatives(() if required is None else required.domains, topology.requirement)


def keeps(translation: Translation, earlier: Template | None) -> bool:
    """Whether a template gets the node affinity that it had."""
    return earlier is not None and node_affinity(translation.affinity) == node_affinity(earlier.affinity)


def _translation(constraint: Constraint, submission: Submission) -> Translation | None:
    """The translation of a template that differs, None where it stays as it is.

    Where what is asked and the user's own terms are as they were, what was written stays, even if it arrives without:
    a manifest that is applied again, or a template that is rolled back, asks for no change.
    """
    template, earlier = constraint.template, constraint.earlier
    if earlier is not None and not constraint.is_new:
        own = without_terms(template.affinity, template.entry)
        if _wrote_as_much(earlier, own):
            return Translation(template, with_node_affinity(own, node_affinity(earlier.affinity)), earlier.entry)
        if not constraint.is_usable:
            return None  # nobody asked for anything new; it is the topology that is gone
    translation = translate(constraint)
    if not submission.may_change and not keeps(translation, earlier):
        return None
    # Once nothing is asked any more, what was written before is forgotten.
    if earlier is None or not submission.is_revised or not constraint.annotations.anything:
        return translation
    return replace(translation, entry=remembering(translation.entry, earlier.entry))


def _wrote_as_much(earlier: Template, own: Any) -> bool:
    """Whether a template was translated before from the same terms of the user's own."""
    was_own = without_terms(earlier.affinity, earlier.entry)
    return earlier.entry != NOTHING and node_affinity(was_own) == node_affinity(own)
