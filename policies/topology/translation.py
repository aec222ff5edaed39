"""From readings to changes: which templates get which affinity, and when they may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from policies.fieldpath import Location
from policies.request import AdmissionRequest, JsonObject, mapping
from policies.topology.affinity import node_affinity, with_terms, without_terms
from policies.topology.annotation import Asked, Template, asked, templates
from policies.topology.preference import preferences
from policies.topology.reading import Reading
from policies.topology.record import NOTHING, Entry, Record
from policies.topology.scheduling import Schedulers
from policies.topology.term import Term, alternatives
from policies.workload import Workload


class Translation(Struct, frozen=True):
    """What a template's `spec.affinity` becomes, None for none, and what to note of that."""

    template: Template
    affinity: Any
    entry: Entry

    @property
    def changes(self) -> bool:
        """Whether that is another affinity than there is."""
        return bool(self.affinity != affinity_of(self.template.value))


class Before(Struct, frozen=True):
    """What an update changes: the old object's templates by their locations, with what was asked for them then."""

    templates: Mapping[Location, tuple[JsonObject, Asked, str]]
    may_change: bool

    @staticmethod
    def of(request: AdmissionRequest, row: Workload, schedulers: Schedulers) -> Before | None:
        """Of a request; None for a creation."""
        old = request.old_object
        if request.operation != "UPDATE" or old is None:
            return None
        found = {
            each.location: (each.value, asked(each), schedulers.reader(old, each.value)) for each in templates(old, row)
        }
        suspended = mapping(old, "spec").get("suspend") is True
        return Before(found, row.affinity == "always" or (row.affinity == "suspended" and suspended))

    def affinity(self, template: Template) -> Any:
        """The affinity that a template had; None for none."""
        known = self.templates.get(template.location)
        return None if known is None else affinity_of(known[0])

    def asks_otherwise(self, reading: Reading) -> bool:
        """Whether something else is asked for a template now, or of another scheduler."""
        template = reading.template
        known = self.templates.get(template.location)
        if known is None:
            return True
        value, earlier, reader = known
        if earlier.values != asked(template).values or Schedulers.name(value) != Schedulers.name(template.value):
            return True
        return reading.asked.anything and reader != reading.reader

    def differs(self, reading: Reading) -> bool:
        """Whether anything has changed on which the affinity of a template depends."""
        now = affinity_of(reading.template.value)
        return self.asks_otherwise(reading) or node_affinity(self.affinity(reading.template)) != node_affinity(now)


def affinity_of(template: JsonObject) -> Any:
    """The affinity of a Pod or a template; None for none."""
    return mapping(template, "spec").get("affinity")


def required_terms(reading: Reading) -> Sequence[Term]:
    """The terms one of which a Node must meet for the placement of a template; none for no placement."""
    if reading.topology is None or (reading.required is None and reading.preferred is None):
        return ()
    domains = () if reading.required is None else reading.required.domains
    return alternatives(domains, reading.topology.requirement)


def translate(reading: Reading, entry: Entry) -> Translation:
    """What the affinity of a template becomes: as the user wrote it, with what its annotations ask for now."""
    own = without_terms(affinity_of(reading.template.value), entry)
    topology = reading.topology
    if reading.left or not reading.is_usable or topology is None:
        return Translation(reading.template, own, NOTHING)
    floor = None if reading.required is None else reading.required.level
    preferred = [] if reading.preferred is None else preferences(reading.preferred, floor, topology)
    return Translation(reading.template, *with_terms(own, required_terms(reading), preferred))


def translations(readings: Sequence[Reading], record: Record, before: Before | None) -> Iterator[Translation]:
    """Those that are made. On an update a template stays as it is unless what it depends on has changed.

    Where the kind's affinity is fixed, what comes to the affinity that there was is made all the same: a manifest that
    is applied again asks for no change, though its affinity is without what was added to it.
    """
    for reading in readings:
        if before is not None and not before.differs(reading):
            continue
        made = translate(reading, record.get(reading.template.path, NOTHING))
        if before is None or before.may_change or keeps(made, before):
            yield made


def keeps(made: Translation, before: Before) -> bool:
    """Whether a template gets the node affinity that it had."""
    return made.template.location in before.templates and node_affinity(made.affinity) == node_affinity(
        before.affinity(made.template)
    )
