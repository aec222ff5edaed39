"""The warnings about levels that an object names in a way of its own; those of Kueue, Grove and others act on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policies.engine.facts import Node
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_owned, mapping
from policies.engine.violation import WARNING_COUNT, Violation, quote
from policies.objects.workload import Workload
from policies.topology.affinity import RECORD, read_record
from policies.topology.catalog import Catalog
from policies.topology.refusal import as_warning
from policies.topology.schemes import annotation, fields, trainjob
from policies.topology.schemes.judgement import Judge
from policies.topology.schemes.mention import Mention

# A long value is shown so far; what to do must have room.
_VALUE = 60


def mentions(obj: JsonObject | None, kind: tuple[str, str], row: Workload | None) -> Iterator[Mention]:
    """All that an object names. kind: its group and kind. row: of the table of workloads, or None."""
    if obj is None:
        return
    if row is not None:
        yield from annotation.mentions(obj, row)
    yield from fields.mentions(obj, kind)
    if kind == trainjob.KIND:
        yield from trainjob.mentions(obj)


def warnings(
    request: AdmissionRequest, row: Workload | None, catalog: Catalog, nodes: Sequence[Node]
) -> Iterator[Violation]:
    """What is wrong with what an object newly names. Nothing is said to a controller, which would not read it."""
    obj, kind = request.object, request.kind.group_kind
    if request.sub_resource or obj is None or is_owned(obj) or is_being_deleted(obj):
        return
    named = {mention.location: mention for mention in mentions(obj, kind, row)}
    if not named:
        return
    before = {mention.location: mention for mention in mentions(request.old_object, kind, row)}
    judge, told, written = Judge(catalog, nodes), 0, _written(obj)
    for location, mention in named.items():
        is_new = before.get(location) != mention and (location[-1], mention.value) not in written
        if told < WARNING_COUNT and is_new and (problem := judge.problem(mention)):
            told += 1
            yield as_warning(f"{mention.path}: {quote(mention.value, _VALUE)} {problem.strip()}")


def _written(obj: JsonObject) -> frozenset[tuple[object, object]]:
    """The annotations that stand in templates for a placement: of the placement it is told already."""
    record = read_record(mapping(mapping(obj, "metadata"), "annotations").get(RECORD)) or {}
    return frozenset(pair for entry in record.values() for pair in entry.annotations)
