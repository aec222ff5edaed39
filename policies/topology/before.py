"""What an update changes: the old object's templates, and what was asked for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from policies.engine.request import AdmissionRequest, JsonObject, mapping
from policies.objects.fieldpath import Location
from policies.objects.workload import REVISED, Workload
from policies.topology import record
from policies.topology.affinity import affinity_of, node_affinity, without_terms
from policies.topology.annotation import Asked, Template, asked, templates
from policies.topology.reading import Reading
from policies.topology.record import NOTHING, Entry
from policies.topology.scheduling import Schedulers


class Known(Struct, frozen=True):
    """A template as it was, with what its annotations asked for, who read them, and what was written into it."""

    value: JsonObject
    asked: Asked
    reader: str
    entry: Entry

    @property
    def affinity(self) -> Any:
        """Its affinity; None for none."""
        return affinity_of(self.value)


class Before(Struct, frozen=True):
    """The templates by their locations, whether their affinity may change, and whether earlier ones may come back."""

    templates: Mapping[Location, Known]
    may_change: bool
    is_revised: bool

    def known(self, template: Template) -> Known | None:
        """What stood where a template stands now."""
        return self.templates.get(template.location)

    def asks_otherwise(self, reading: Reading) -> bool:
        """Whether something else is asked for a template now, or of another scheduler."""
        template, known = reading.template, self.known(reading.template)
        if known is None:
            return True
        if known.asked.values != asked(template).values or Schedulers.name(known.value) != Schedulers.name(
            template.value
        ):
            return True
        return reading.asked.anything and known.reader != reading.reader

    def differs(self, reading: Reading) -> bool:
        """Whether anything has changed on which the affinity of a template depends."""
        known = self.known(reading.template)
        if known is None or self.asks_otherwise(reading):
            return True
        return node_affinity(known.affinity) != node_affinity(affinity_of(reading.template.value))

    def asks_the_same(self, reading: Reading, own: Any) -> Known | None:
        """What was translated there, where the annotations and the user's own terms (in `own`) are as they were."""
        known = self.known(reading.template)
        if known is None or known.entry == NOTHING or self.asks_otherwise(reading):
            return None
        was_own = without_terms(known.affinity, known.entry)
        return known if node_affinity(was_own) == node_affinity(own) else None

    def remembering(self, reading: Reading, entry: Entry) -> Entry:
        """What is written into a template now, with what was written before where that may come back.

        Once nothing is asked any more, it is forgotten.
        """
        known = self.known(reading.template)
        is_remembered = known is not None and self.is_revised and reading.asked.anything
        return record.remembering(entry, known.entry) if known is not None and is_remembered else entry


def before_of(request: AdmissionRequest, row: Workload, schedulers: Schedulers) -> Before | None:
    """What a request updates; None for a creation."""
    old = request.old_object
    if request.operation != "UPDATE" or old is None:
        return None
    noted = record.readable(old)
    found = {
        each.location: Known(each.value, asked(each), schedulers.reader(old, each.value), noted.get(each.path, NOTHING))
        for each in templates(old, row)
    }
    suspended = mapping(old, "spec").get("suspend") is True
    may_change = row.affinity == "always" or (row.affinity == "suspended" and suspended)
    return Before(found, may_change, row.group_kind in REVISED)
