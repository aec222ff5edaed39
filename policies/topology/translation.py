"""From readings to changes: which templates get which affinity, and when they may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from policies.topology.affinity import affinity_of, node_affinity, with_node_affinity, with_terms, without_terms
from policies.topology.annotation import Template
from policies.topology.before import Before
from policies.topology.preference import preferences
from policies.topology.reading import Reading
from policies.topology.record import NOTHING, Entry, Record
from policies.topology.term import Term, alternatives


class Translation(Struct, frozen=True):
    """What a template's `spec.affinity` becomes, None for none, and what to note of that."""

    template: Template
    affinity: Any
    entry: Entry

    @property
    def changes(self) -> bool:
        """Whether that is another affinity than there is."""
        return bool(self.affinity != affinity_of(self.template.value))


def required_terms(reading: Reading) -> Sequence[Term]:
    """The terms one of which a Node must meet for the placement of a template; none for no placement."""
    if reading.topology is None or (reading.required is None and reading.preferred is None):
        return ()
    domains = () if reading.required is None else reading.required.domains
    return alternatives(domains, reading.topology.requirement)


def translate(reading: Reading, own: Any) -> Translation:
    """What the affinity of a template becomes: as the user wrote it (`own`), with what its annotations ask for now."""
    topology = reading.topology
    if reading.left or not reading.is_usable or topology is None:
        return Translation(reading.template, own, NOTHING)
    floor = None if reading.required is None else reading.required.level
    preferred = [] if reading.preferred is None else preferences(reading.preferred, floor, topology)
    return Translation(reading.template, *with_terms(own, required_terms(reading), preferred))


def translations(readings: Sequence[Reading], record: Record, before: Before | None) -> Iterator[Translation]:
    """Those that are made. On an update a template stays as it is unless what it depends on has changed.

    Where what is asked and the user's own terms are as they were, what was written stays, even if it arrives without:
    a manifest that is applied again, or a template that is rolled back, asks for no change.
    """
    for reading in readings:
        if before is not None and not before.differs(reading):
            continue
        template = reading.template
        noted = record.get(template.path, NOTHING)
        own = without_terms(affinity_of(template.value), noted)
        same = None if before is None else before.asks_the_same(reading, own)
        if same is not None:
            yield Translation(template, with_node_affinity(own, node_affinity(same.affinity)), same.entry)
            continue
        if before is not None and not reading.is_usable and not before.asks_otherwise(reading):
            continue  # nobody asked for anything new; it is the topology that is gone
        made = translate(reading, own)
        if before is None or before.may_change or keeps(made, before):
            yield made if before is None else replace(made, entry=before.remembering(reading, made.entry))


def keeps(made: Translation, before: Before) -> bool:
    """Whether a template gets the node affinity that it had."""
    known = before.known(made.template)
    return known is not None and node_affinity(made.affinity) == node_affinity(known.affinity)
