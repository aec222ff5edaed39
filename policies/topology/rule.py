"""The rule for topology annotations: it checks them and turns them into node affinity when an object is written.

Sources: NVIDIA's documentation of topology-aware scheduling in Run:ai, which defines the annotations; for the changes
that an update allows, the validation of each kind in Kubernetes and in the project that defines the kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET

from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, mapping
from policies.engine.rule import NO_MUTATION, Mutation, MutationRefusedError
from policies.engine.violation import WARNING_COUNT, Violation
from policies.objects import patch
from policies.objects.accelerator import READS as ACCELERATOR_READS
from policies.objects.fieldpath import Location, lookup, parse, render
from policies.objects.workload import Workload
from policies.topology import pool, refusal, warning
from policies.topology.affinity import (
    DECISION,
    NODE_AFFINITY,
    RECORD,
    Record,
    are_alike,
    requires,
    selector_terms,
    without_terms,
    write_record,
)
from policies.topology.annotation import Template
from policies.topology.catalog import Catalog
from policies.topology.constraint import NO_ACCELERATOR, REPIN, TOO_LARGE, Constraint, Options, Submission, read
from policies.topology.refusal import RULE
from policies.topology.scheduling import podgroup
from policies.topology.schemes import fields, trainjob
from policies.topology.schemes import warning as schemes
from policies.topology.term import clash
from policies.topology.topology import Topology
from policies.topology.translation import Translation, is_due, may_change, translate, translations
from policies.topology.way import copies, domain, ladder, workload
from policies.topology.way.assignment import NO_PLAN, Edit, Plan
from policies.topology.way.podaffinity import POD_AFFINITY
from policies.topology.way.scene import Scene

__all__ = ["RULE", "TopologyPlacement", "reads"]

_POD = (
    *("metadata.annotations", "metadata.labels"),
    *(f"spec.{name}" for name in ("affinity", "nodeName", "nodeSelector", "schedulerName", "tolerations")),
    *(f"spec.{name}" for name in ("overhead", "preemptionPolicy", "priority", "priorityClassName", "resources")),
    "spec.schedulingGroup",
    *(f"spec.{path}" for path in (*ACCELERATOR_READS, "initContainers[*].restartPolicy")),
)
_PARSED = tuple(map(parse, _POD))
_WORKLOAD = ("spec.suspend", "spec.selector", "spec.mlPolicy", "spec.completionMode", "spec.scheduling")
# What says beside or above a template how many Pods there are of it.
_COUNTS = (
    *("completions", "groupName", "maxReplicas", "minReplicas", "name", "numOfHosts"),
    *("parallelism", "replicas", "size", "suspend"),
)
_RECORD = ("metadata", "annotations", RECORD)
_DECISION = ("metadata", "annotations", DECISION)
_BROKEN_RECORD = f"{render(_RECORD)} cannot be read and is dropped; node affinity that it noted stays"
_NO_REPIN = f"{REPIN} has no effect: the placement of a {{0}} is fixed; delete the {{0}} and create it again"
_FULL_RECORD = "{}: node affinity is too long to be noted, so it stays when the annotations change"


def reads(rows: Sequence[Workload]) -> frozenset[str]:
    """The paths that the rule reads in objects of these kinds."""
    paths = set(_WORKLOAD)
    for row in rows:
        paths |= {f"{render(job)}.metadata.annotations" for job in row.jobs}
        paths |= {render((*t, *row.shape.place(path))) for t in row.templates for path in _PARSED}
        paths |= {render(place) for _, place in row.containers}
        above = {t[:depth] for t in row.templates for depth in range(1, len(t)) if isinstance(t[depth], str)}
        paths |= {f"{render(holder)}.{field}" for holder in above for field in _COUNTS}
    return frozenset(paths | trainjob.READS | {render(place) for places in fields.PLACES.values() for place in places})


class Explained(NamedTuple):
    """The constraints of an object's templates, and the plan for them; no plan if the object is refused."""

    constraints: tuple[Constraint, ...]
    plan: Plan

    @property
    def translations(self) -> Iterator[tuple[Constraint, Translation]]:
        """Each constraint with the translation of its template."""
        for constraint in self.constraints:
            yield constraint, translate(constraint, self.plan.assignments.get(constraint.template.path))


class TopologyPlacement:
    """The rule for workloads and Pods. catalog: the topologies that do not come from a cluster."""

    def __init__(self, catalog: Catalog, options: Options) -> None:
        self.options = options
        self._static = catalog
        self._joined: tuple[tuple[Topology, ...], Catalog] = ((), catalog)

    def catalog(self, facts: Facts) -> Catalog:
        """All topologies, including those of the cluster."""
        own = facts.topologies()
        if own is not self._joined[0]:  # facts return the same tuple until a topology changes
            self._joined = (own, self._static.joined(own, self.options.topograph))
        return self._joined[1]

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Write the node affinity for the annotations, and the record of it, or remove both again."""
        if request.kind.group_kind == podgroup.KIND:
            return podgroup.mutate(request, facts)
        obj = request.object
        submission = read(request, self.catalog(facts), self.options, facts)
        if obj is None or submission is None:
            return NO_MUTATION
        warnings = [_BROKEN_RECORD] if submission.now.record is None else []
        scene = Scene(request, submission, self.options, facts)
        plan = _plan(scene)
        made = list(translations(scene, plan))
        warnings += plan.warnings
        if submission.repins and not submission.may_change:
            warnings.append(_NO_REPIN.format(request.kind.kind))
        edits = [*plan.edits, *workload.restored(scene)]
        for translation in made:
            edits += (*_affinity(translation), *copies.edits(translation.template, translation.entry))
        edits += _names(submission, request)
        if made or warnings:
            entries = _entries(submission, made)
            text, lost = _record(submission, entries)
            edits += (*_record_edit(submission, text), *_decision_edit(request, plan, entries))
            warnings += [_FULL_RECORD.format(render(template.at("spec"))) for template in lost]
        operations = [
            operation
            for location, value in edits
            for operation in ((patch.remove(location),) if value is UNSET else patch.put(obj, location, value))
        ]
        if not (operations or warnings):
            return NO_MUTATION
        return Mutation(tuple(operations), tuple(warnings), notes=plan.notes, ways=plan.ways)

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """Refusals, and warnings about unexpected effects. Problems that were there before only cause warnings."""
        catalog = self.catalog(facts)
        row = self.options.workloads.get(request.kind.group_kind)
        violations = [] if row is None else list(warning.misspelt(request, row))
        violations += schemes.warnings(request, row, catalog, facts.nodes())
        submission = read(request, catalog, self.options, facts)
        if submission is None:
            return violations
        compared: set[object] = set()
        for constraint in submission.constraints:
            if constraint.is_new:
                violations += constraint.violations
                if constraint.is_usable:
                    # Nodes are compared with as many placements as an answer has room for, and once with each.
                    placement = (constraint.annotations.places, constraint.reader)
                    nodes = facts.nodes() if placement not in compared and len(compared) < WARNING_COUNT else ()
                    compared.add(placement)
                    violations += warning.warnings(constraint, catalog, self.options.schedulers, nodes)
                    violations += _contradictions(constraint)
            else:
                violations += (refusal.as_warning(violation.line) for violation in constraint.violations)
            violations += self._without_effect(constraint, submission, request.kind.kind)
        violations += _lost(request, submission, facts)
        if any(constraint.annotations.anything for constraint in submission.constraints):
            keys = self.options.pool_keys
            earlier = frozenset(pool.violations(submission.earlier, catalog, keys))
            pools = pool.violations((constraint.template for constraint in submission.constraints), catalog, keys)
            violations += (refusal.as_warning(v.line) if v in earlier else v for v in pools)
            violations += () if pools else _elsewhere(submission, catalog)
        return list(dict.fromkeys(violations))

    def explain(self, request: AdmissionRequest, facts: Facts) -> Explained:
        """The constraint of each template of a new object, with what it gets. Raises Missing or FactUnavailable."""
        submission = read(request, self.catalog(facts), self.options, facts)
        if submission is None:
            return Explained((), NO_PLAN)
        try:
            plan = _plan(Scene(request, submission, self.options, facts))
        except MutationRefusedError:
            plan = NO_PLAN  # the answer to the request has the refusal
        return Explained(submission.constraints, plan)

    def _without_effect(self, constraint: Constraint, submission: Submission, kind: str) -> Iterator[Violation]:
        """Violations for a placement that was changed too late to have an effect, or that is not in the affinity."""
        if constraint.reader or not constraint.is_usable:
            return
        template, earlier, topology = constraint.template, constraint.earlier, constraint.topology
        if earlier is not None and not may_change(constraint, submission):
            # A default from the configuration is no change by the user, so only the template's annotations count.
            now, before = template.annotations, earlier.annotations
            is_same = constraint.is_same or are_alike(translate(constraint).affinity, earlier.affinity)
            if before.values != now.values and not is_same:
                yield refusal.fixed(kind, now, before)
                return
        required = constraint.required
        if topology is None or required is None or constraint.obstacle == NO_ACCELERATOR:
            return
        if submission.is_suspended and constraint.requires_level:
            return  # its domain is chosen when it is resumed
        if template.entry.annotations and constraint.requires_level:
            return  # its Pods are placed when they are created, or by another scheduler
        if constraint.obstacle != TOO_LARGE and requires(template.affinity, constraint.terms):
            return
        placement = required.called(topology)
        if self.options.unapplied == "deny" and submission.may_change and constraint.differs:
            yield refusal.unapplied(template, placement, constraint.obstacle)
        else:
            yield warning.unapplied(constraint, placement)


def _lost(request: AdmissionRequest, submission: Submission, facts: Facts) -> Iterator[Violation]:
    """The warnings of an update about domains that were chosen and have no Nodes any more."""
    placed = [template for template in submission.now.templates if template.entry.domain]
    if request.operation != "UPDATE" or submission.is_suspended or not placed:
        return
    again = f"set {REPIN} to a new value" if submission.may_change else "delete it and create it again"
    for template in placed:
        yield from warning.lost(template, f"bring them back, or {again}", facts.nodes())


def _contradictions(constraint: Constraint) -> Iterator[Violation]:
    """The refusals of placements that leave no Node."""
    topology, required, preferred, template = (
        constraint.topology, constraint.required, constraint.preferred, constraint.template,
    )  # fmt: skip
    if topology is None or required is None:
        return
    named = {domain.level: domain.values for domain in required.domains if domain.values}
    outside = [
        domain
        for domain in (preferred.domains if preferred else ())
        if domain.values and domain.level in named and set(domain.values).isdisjoint(named[domain.level])
    ]
    if preferred is not None and outside:
        yield refusal.outside(constraint.annotations.preferred, preferred.called(topology), required.called(topology))
    own = without_terms(template.affinity, template.entry)
    if not constraint.obstacle and clash(mapping(template.spec, "nodeSelector"), selector_terms(own), constraint.terms):
        yield refusal.contradiction(template, required.called(topology))


def _elsewhere(submission: Submission, catalog: Catalog) -> Iterator[Violation]:
    """The refusals of topologies that are for other Nodes than a template may run on."""
    for constraint in submission.constraints:
        is_placed = constraint.is_new and constraint.is_usable and (constraint.reader or not constraint.obstacle)
        if constraint.topology is not None and is_placed and not constraint.is_default:
            yield from pool.outside(constraint.template, constraint.topology, catalog)


def _plan(scene: Scene) -> Plan:
    """What the templates get whose domains are to be chosen now. Raises MutationRefusedError."""
    due = [constraint for constraint in scene.submission.constraints if is_due(constraint, scene)]
    return ladder.plan(due, scene).joined(domain.growth(scene))


def _affinity(translation: Translation) -> Iterator[Edit]:
    """The edits of a template's affinity. They change no more of it than necessary."""
    at, affinity = translation.template.at("spec", "affinity"), translation.affinity
    if not translation.changes:
        return
    if affinity is None:
        yield at, UNSET
    elif translation.template.affinity is None:
        yield at, affinity
    else:
        for key in (NODE_AFFINITY, POD_AFFINITY):
            if affinity.get(key) != translation.template.affinity.get(key):
                yield (*at, key), affinity.get(key, UNSET)


def _names(submission: Submission, request: AdmissionRequest) -> Iterator[Edit]:
    """Edits of annotations for a scheduler that reads them itself: full keys replace short names; aliases stay.

    An annotation that templates need with different names stays unchanged. So does one in a template that may no longer
    change, unless the edit restores its old value.
    """
    names: dict[Location, list[str]] = {}
    for constraint in submission.constraints:
        if constraint.reader and constraint.is_usable and constraint.differs:
            for location, name in _full_names(constraint):
                names.setdefault(location, []).append(name)
    for location, (name, *others) in names.items():
        may_change = submission.may_change or location[:1] == ("metadata",)
        if any(other != name for other in others) or lookup(request.object, location) == name:
            continue
        if may_change or lookup(request.old_object, location) == name:
            yield location, name


def _full_names(constraint: Constraint) -> Iterator[tuple[Location, str]]:
    """The locations of a template's annotations, with the values that its scheduler understands."""
    topology, annotations = constraint.topology, constraint.annotations
    if topology is None:
        return
    if annotations.topology is not None and annotations.topology.key:
        yield annotations.topology.location, topology.name
    for annotation, placement in constraint.placements:
        if annotation.key:
            level = placement.level
            yield annotation.location, level.alias if annotation.value == level.alias else level.name


def _entries(submission: Submission, made: Sequence[Translation]) -> Record:
    """The record that describes the templates as they are now."""
    present = {template.path for template in submission.now.templates}
    entries = {path: entry for path, entry in (submission.now.record or {}).items() if path in present}
    return entries | {translation.template.path: translation.entry for translation in made}


def _record(submission: Submission, entries: Record) -> tuple[str, list[Template]]:
    """The record as it is written, and the templates that it has no room for."""
    text, lost = write_record(entries)
    gone = frozenset(lost)
    return text, [template for template in submission.now.templates if template.path in gone]


def _decision_edit(request: AdmissionRequest, plan: Plan, entries: Record) -> Iterator[Edit]:
    """The edit of the annotation that says in a sentence what was chosen. It stands as long as the choice does."""
    now, before = (lookup(obj, _DECISION) for obj in (request.object, request.old_object))
    text = "; ".join(plan.decisions)
    if not text and any(entry.is_settled for entry in entries.values()):
        text = before if isinstance(before, str) else now
    if text and text != now:
        yield _DECISION, text
    elif not text and now is not None:
        yield _DECISION, UNSET


def _record_edit(submission: Submission, text: str) -> Iterator[Edit]:
    """The edit of the record, if it changes."""
    if text and text != submission.now.text:
        yield _RECORD, text
    elif not text and submission.now.text is not None:
        yield _RECORD, UNSET
