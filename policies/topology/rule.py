"""The rule: annotations become node affinity when an object is written, and are judged.

Sources: NVIDIA's documentation of topology-aware scheduling in Run:ai, whose annotations these are; for what may
change on an update, the validation of each kind in Kubernetes and in the projects that define it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_mirror_pod, is_owned
from policies.engine.rule import NO_MUTATION, Mutation, PatchOperation
from policies.engine.violation import Violation
from policies.objects import patch
from policies.objects.accelerator import READS as ACCELERATOR_READS
from policies.objects.fieldpath import Location, lookup, render
from policies.objects.workload import Workload
from policies.topology import pool, record, wording
from policies.topology.advice import advice
from policies.topology.affinity import NODE_AFFINITY, affinity_of, requires, without_terms
from policies.topology.annotation import RECORD, Asked, Written, annotations_of, asked, mentions, templates
from policies.topology.before import Before, before_of
from policies.topology.catalog import Catalog
from policies.topology.reading import Options, Reading, is_distributed, read
from policies.topology.record import NOTHING, Record, RecordError
from policies.topology.topology import Topology
from policies.topology.translation import Translation, keeps, required_terms, translate, translations
from policies.topology.wording import RULE

__all__ = ["RULE", "TopologyPlacement", "reads"]

_POD = (
    *("metadata.annotations", "metadata.labels"),
    *("spec.affinity", "spec.nodeSelector", "spec.schedulerName"),
    *(f"spec.{path}" for path in ACCELERATOR_READS),
)
_WORKLOAD = ("spec.suspend", "spec.parallelism", "spec.completions")


def reads(rows: Sequence[Workload]) -> frozenset[str]:
    """What the rule looks at in objects of these kinds."""
    found = set(_WORKLOAD)
    for row in rows:
        found |= {f"{render(job)}.metadata.annotations" for job in row.jobs}
        found |= {".".join(part for part in (render(t), path) if part) for t in row.templates for path in _POD}
    return frozenset(found)


class TopologyPlacement:
    """The rule for workloads and Pods. catalog: the topologies that are known without a cluster."""

    def __init__(self, catalog: Catalog, options: Options) -> None:
        self.options = options
        self._static = catalog
        self._joined: tuple[tuple[Topology, ...], Catalog] = ((), catalog)

    def catalog(self, facts: Facts) -> Catalog:
        """All topologies: those of the cluster, too."""
        own = facts.topologies()
        if own is not self._joined[0]:  # the same tuple until something changes
            self._joined = (own, self._static.joined(own))
        return self._joined[1]

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Write the node affinity that the annotations ask for, and the record; or take both back."""
        row = self._row(request)
        obj = request.object
        if row is None or obj is None:
            return NO_MUTATION
        noted, warnings = _record(obj)
        readings = read(request, obj, row, self.catalog(facts), self.options, facts)
        before = before_of(request, row, self.options.schedulers)
        made = list(translations(readings, noted, before))
        operations = [*_affinities(obj, made), *_renamed(request, obj, readings, before)]
        if made or warnings:
            operations += _recorded(obj, noted, readings, made)
        return Mutation(tuple(operations), warnings) if operations or warnings else NO_MUTATION

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """What is wrong, and what may not do what its author thinks; what was there before is only warned of."""
        row = self._row(request)
        obj = request.object
        if row is None or obj is None:
            return ()
        catalog = self.catalog(facts)
        readings = read(request, obj, row, catalog, self.options, facts)
        before = before_of(request, row, self.options.schedulers)
        noted = record.readable(obj)
        found: list[Violation] = []
        for reading in readings:
            is_new = before is None or before.asks_otherwise(reading)
            found += [v if is_new else wording.as_warning(v) for v in reading.violations]
            if is_new and reading.is_usable:
                found += advice(reading, catalog, self.options.schedulers, facts.nodes())
            found += [*self._fixed(request, reading, noted, before)] or self._unapplied(reading, before)
        if any(reading.asked.anything for reading in readings):
            keys = self.options.pool_keys
            earlier = pool.violations(templates(request.old_object or {}, row), catalog, keys)
            pools = pool.violations((reading.template for reading in readings), catalog, keys)
            found += [wording.as_warning(each) if each in earlier else each for each in pools]
        return list(dict.fromkeys(found))

    def explain(self, request: AdmissionRequest, facts: Facts) -> list[tuple[Reading, Translation]]:
        """What is read off each template of a new object, and what comes of it."""
        row = self._row(request)
        obj = request.object
        if row is None or obj is None:
            return []
        noted = record.readable(obj)
        readings = read(request, obj, row, self.catalog(facts), self.options, facts)
        return [(reading, translate(reading, _own(reading, noted))) for reading in readings]

    def _row(self, request: AdmissionRequest) -> Workload | None:
        """Where the templates of an object are that is of interest."""
        obj = request.object
        row = self.options.workloads.get(request.kind.group_kind)
        if row is None or obj is None or request.sub_resource:
            return None
        if not (mentions(obj, row) or mentions(request.old_object, row) or self._has_default(request, obj)):
            return None
        if is_being_deleted(obj) or is_mirror_pod(obj):
            return None
        return row if request.kind.kind == "Pod" or not is_owned(obj) else None

    def _has_default(self, request: AdmissionRequest, obj: JsonObject) -> bool:
        chosen = self.options.default
        return bool(chosen.topology and chosen.preferred) and is_distributed(obj, request.kind.group_kind)

    def _fixed(
        self, request: AdmissionRequest, reading: Reading, noted: Record, before: Before | None
    ) -> Iterator[Violation]:
        """A placement that was changed where it cannot have an effect any more."""
        known = None if before is None else before.known(reading.template)
        if before is None or known is None or before.may_change or reading.reader or not reading.is_usable:
            return
        now = asked(reading.template)  # what the configuration asks for is nobody's change
        if known.asked.values == now.values or keeps(translate(reading, _own(reading, noted)), before):
            return
        yield wording.fixed(request.kind.kind, *_changed(known.asked, now))

    def _unapplied(self, reading: Reading, before: Before | None) -> Iterator[Violation]:
        """A required placement that the affinity does not have."""
        topology, required = reading.topology, reading.required
        if topology is None or required is None or not reading.is_usable or reading.reader:
            return
        if reading.left == wording.NO_ACCELERATOR or requires(
            affinity_of(reading.template.value), required_terms(reading)
        ):
            return
        name = required.called(topology)
        was_asked = before is None or (before.may_change and before.differs(reading))
        if self.options.unapplied == "deny" and was_asked:
            yield wording.unapplied(reading.template, name, reading.left)
        else:
            yield wording.unapplied_warning(reading.template, name, reading.left)


def _own(reading: Reading, noted: Record) -> Any:
    """The affinity of a template as the user wrote it."""
    return without_terms(affinity_of(reading.template.value), noted.get(reading.template.path, NOTHING))


def _record(obj: JsonObject) -> tuple[Record, tuple[str, ...]]:
    try:
        return record.read(obj), ()
    except RecordError:
        return {}, (wording.unreadable_record(f"metadata.annotations[{RECORD}]"),)


def _affinities(obj: JsonObject, made: Sequence[Translation]) -> Iterator[PatchOperation]:
    for each in made:
        if not each.changes:
            continue
        at = (*each.template.location, "spec", "affinity")
        if each.affinity is None:
            yield patch.remove(at)
        elif affinity_of(each.template.value) is None:
            yield from patch.put(obj, at, each.affinity)
        elif NODE_AFFINITY in each.affinity:
            yield from patch.put(obj, (*at, NODE_AFFINITY), each.affinity[NODE_AFFINITY])
        else:
            yield patch.remove((*at, NODE_AFFINITY))


def _renamed(
    request: AdmissionRequest, obj: JsonObject, readings: Sequence[Reading], before: Before | None
) -> Iterator[PatchOperation]:
    """Names as a scheduler knows them that reads the annotations itself: full keys for short names; aliases stay.

    What templates need under different names is left as it is, and so is a template that may not change any more,
    unless the name is the one that stood there.
    """
    names: dict[Location, set[str]] = {}
    for reading in readings:
        if reading.reader and reading.is_usable and (before is None or before.differs(reading)):
            for location, name in _names(reading):
                names.setdefault(location, set()).add(name)
    for location, (name, *others) in names.items():
        on_workload = location[:1] == ("metadata",)
        may_change = before is None or before.may_change or on_workload
        if (
            not others
            and lookup(obj, location) != name
            and (may_change or lookup(request.old_object, location) == name)
        ):
            yield from patch.put(obj, location, name)


def _names(reading: Reading) -> Iterator[tuple[Location, str]]:
    """The annotations that hold for a template, and what they should say for its scheduler."""
    topology, wish = reading.topology, reading.asked
    if topology is None:
        return
    if wish.topology is not None and wish.topology.key:
        yield wish.topology.location, topology.name
    for written, placement in ((wish.required, reading.required), (wish.preferred, reading.preferred)):
        if written is not None and placement is not None and written.key:
            level = placement.level
            yield written.location, level.alias if level.alias and written.value == level.alias else level.name


def _recorded(
    obj: JsonObject, noted: Record, readings: Sequence[Reading], made: Sequence[Translation]
) -> Iterator[PatchOperation]:
    """The record of what stands in the templates now."""
    present = {reading.template.path for reading in readings}
    entries = {path: entry for path, entry in noted.items() if path in present}
    entries |= {each.template.path: each.entry for each in made}
    text = record.write(entries)
    found = annotations_of(obj).get(RECORD)
    if text and text != found:
        yield from patch.put(obj, ("metadata", "annotations", RECORD), text)
    elif not text and found is not None:
        yield patch.remove(("metadata", "annotations", RECORD))


def _changed(before: Asked, now: Asked) -> tuple[Written | None, Written | None]:
    """The first annotation that differs, as it is and as it was."""
    pairs = ((now.required, before.required), (now.preferred, before.preferred), (now.topology, before.topology))
    return next((new, old) for new, old in pairs if (new and new.value) != (old and old.value))
