"""The translation of constraints to node affinity: which templates get which affinity, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.request import JsonObject
from policies.topology.affinity import (
    NOTHING,
    RecordEntry,
    are_alike,
    node_affinity,
    remembering,
    with_node_affinity,
    with_terms,
    without_terms,
)
from policies.topology.annotation import Template
from policies.topology.constraint import Constraint, Submission
from policies.topology.term import Term


class Translation(Struct, frozen=True):
    """The new `spec.affinity` of a template, or None, and the entry for the record."""

    template: Template
    affinity: Any
    entry: RecordEntry

    @property
    def changes(self) -> bool:
        """Whether the affinity changes."""
        return bool(self.affinity != self.template.affinity)


def translations(submission: Submission) -> Iterator[Translation]:
    """The translations of a submission. An update leaves a template alone unless its constraint has changed."""
    for constraint in submission.constraints:
        if constraint.differs and (translation := _translation(constraint, submission)) is not None:
            yield translation


def translate(constraint: Constraint) -> Translation:
    """The translation of a template: the user's own affinity, with the terms for the current annotations."""
    template = constraint.template
    required: Sequence[Term] = ()
    preferred: Sequence[JsonObject] = ()
    if not constraint.obstacle and constraint.is_usable:
        required, preferred = constraint.terms, constraint.preferences
    own = without_terms(template.affinity, template.entry)
    return Translation(template, *with_terms(own, required, preferred))


def _translation(constraint: Constraint, submission: Submission) -> Translation | None:
    """The translation of a template that differs; None if it stays unchanged.

    If neither the annotations nor the user's own terms have changed, the terms that were written before stay, even if
    the new object lacks them: applying a manifest again, or rolling a template back, requests no change.
    """
    translation = translate(constraint)
    template, earlier = constraint.template, constraint.earlier
    if earlier is not None and not constraint.is_new:
        own, was_own = (without_terms(version.affinity, version.entry) for version in (template, earlier))
        if earlier.entry != NOTHING and are_alike(was_own, own):
            return Translation(template, with_node_affinity(own, node_affinity(earlier.affinity)), earlier.entry)
        if not constraint.is_usable:
            return None  # the user changed nothing; the topology is gone
    if not submission.may_change and not (earlier and are_alike(translation.affinity, earlier.affinity)):
        return None
    # Without annotations, the terms that were written before are forgotten.
    if earlier is None or not submission.is_revised or not constraint.annotations.anything:
        return translation
    return replace(translation, entry=remembering(translation.entry, earlier.entry))
