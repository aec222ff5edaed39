"""The rule for topology annotations: it checks them, copies them to where Pods carry them, and gates these Pods.

Sources: NVIDIA's documentation of topology-aware scheduling in Run:ai, which defines the annotations; for the changes
that an update allows, the validation of each kind in Kubernetes and in the project that defines the kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from policies.engine import patch
from policies.engine.facts import Facts
from policies.engine.request import AdmissionRequest, GroupVersionKind, is_owned
from policies.engine.rule import NO_MUTATION, Mutation
from policies.engine.violation import WARNING_COUNT, Violation
from policies.objects.fieldpath import parse, render
from policies.objects.workload import Workload
from policies.podspec import READS as ACCELERATOR_READS
from policies.topology import contradiction, refusal, warning, way
from policies.topology.catalog import Catalog
from policies.topology.constraint import Constraint, Options, Submission, is_same, previous, read
from policies.topology.gate import GATE
from policies.topology.refusal import RULE
from policies.topology.scheduling import kueue
from policies.topology.scheduling import workload as scheduling
from policies.topology.schemes import judgement, mention
from policies.topology.shortage import Shortage, Shortages
from policies.topology.topology import Topology
from policies.topology.way import Edit, Keeper

__all__ = ["RULE", "Explained", "TopologyPlacement", "reads"]

_POD = (
    *("metadata.annotations", "metadata.labels"),
    *(f"spec.{name}" for name in ("affinity", "nodeName", "nodeSelector", "schedulerName", "tolerations")),
    *(f"spec.{name}" for name in ("overhead", "preemptionPolicy", "priority", "priorityClassName", "resources")),
    *("spec.hostNetwork", "spec.schedulingGates", "spec.schedulingGroup"),
    *(f"spec.{path}" for path in (*ACCELERATOR_READS, "initContainers[*].restartPolicy")),
    *(f"spec.{containers}[*].ports" for containers in ("containers", "initContainers")),
)
_PARSED = tuple(map(parse, _POD))
_WORKLOAD = (
    *("spec.suspend", "spec.selector", "spec.mlPolicy", "spec.completionMode", "spec.scheduling"),
    *("spec.activeDeadlineSeconds", "spec.runPolicy", ".".join(scheduling.CONSTRAINTS)),
)
_JOB = ("metadata.annotations", "spec.activeDeadlineSeconds")
# What says beside or above a template how many Pods there are of it.
_COUNTS = (
    *("completions", "groupName", "maxReplicas", "minReplicas", "name", "numOfHosts"),
    *("parallelism", "replicas", "size", "suspend"),
)


def reads(rows: Sequence[Workload]) -> frozenset[str]:
    """The paths that the rule reads in objects of these kinds."""
    paths = {*_WORKLOAD, *mention.READS}
    for row in rows:
        paths |= {f"{render(job)}.{field}" for job in row.jobs for field in _JOB}
        paths |= {render((*t, *row.shape.place(path))) for t in row.templates for path in _PARSED}
        paths |= {render(place) for _, place in row.containers}
        above = {t[:depth] for t in row.templates for depth in range(1, len(t)) if isinstance(t[depth], str)}
        paths |= {f"{render(holder)}.{field}" for holder in above for field in _COUNTS}
    return frozenset(paths)


class Explained(NamedTuple):
    """A constraint of a new object, who keeps its Pods together, and the gang's shortage of room if there is one."""

    constraint: Constraint
    keeper: Keeper
    shortage: Shortage | None


class TopologyPlacement:
    """The rule for workloads and Pods. catalog: the topologies that do not come from a cluster."""

    def __init__(self, catalog: Catalog, options: Options) -> None:
        self.options = options
        self._static = catalog
        self._joined: tuple[tuple[Topology, ...], Catalog] = ((), catalog)
        self._shortages = Shortages(options.accelerators)

    def catalog(self, facts: Facts) -> Catalog:
        """All topologies, including those of the cluster."""
        own = facts.topologies()
        if own is not self._joined[0]:  # facts return the same tuple until a topology changes
            self._joined = (own, self._static.joined(own, self.options.topograph))
        return self._joined[1]

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Copy annotations to the templates, and gate new Pods. Raises Missing or FactUnavailable."""
        if request.kind.group_kind == scheduling.POD_GROUP:
            return self._of_pod_group(request, facts)
        case = self._case(request, facts)
        if case is None:
            return NO_MUTATION
        submission = case.submission
        edits = [*self._edits(case, submission), *way.names(submission, request)]
        edits += way.job_edits(submission, case.keepers, request)
        placed = [c.template.path for c in submission.constraints if c.is_placed and not c.is_default]
        is_told = submission.is_created and not is_owned(request.object)
        ways = tuple(case.keepers[path].way or "none" for path in placed) if is_told else ()
        operations = patch.sequence(request.object or {}, edits)
        return Mutation(operations, ways=ways) if operations or ways else NO_MUTATION

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """Refusals, and warnings about unexpected effects. Problems that were there before only cause warnings."""
        catalog, kind = self.catalog(facts), request.kind.group_kind
        row = self.options.workloads.get(kind)
        violations = [] if row is None else list(warning.misspelt(request, row))
        violations += warning.unread(request) if row is None and kind in warning.UNREAD else ()
        violations += judgement.warnings(request, row, catalog, facts.nodes())
        case = self._case(request, facts)
        if case is None or row is None:
            return violations
        compared: set[object] = set()
        absent: set[object] = set()  # of placements, those for which there is no Node
        for constraint in case.submission.constraints:
            if not constraint.is_new:
                violations += (refusal.as_warning(violation.line) for violation in constraint.violations)
            else:
                violations += constraint.violations
                if constraint.is_usable:
                    # Nodes are compared with as many placements as an answer has room for, and once with each.
                    placement = (constraint.annotations, constraint.reader)
                    nodes = facts.nodes() if placement not in compared and len(compared) < WARNING_COUNT else ()
                    compared.add(placement)
                    none = warning.absence(constraint, nodes)
                    absent |= {_placement(constraint)} if none else set()
                    violations += warning.warnings(constraint, catalog, nodes, none)
                    violations += contradiction.of_placement(constraint)
            violations += self._of_template(constraint, case)
        if not is_owned(request.object):
            violations += self._told(case, row, absent)
        violations += self._unapplied(case)
        violations += self._of_pools(case)
        return list(dict.fromkeys(violations))

    def explain(self, request: AdmissionRequest, facts: Facts) -> tuple[Explained, ...]:
        """What becomes of each template of a new object. Raises Missing or FactUnavailable."""
        case = self._case(request, facts)
        if case is None:
            return ()
        of = {constraint.template.path: one for one in case.short for constraint in one.constraints}
        return tuple(
            Explained(constraint, case.keepers[constraint.template.path], of.get(constraint.template.path))
            for constraint in case.submission.constraints
        )

    def _case(self, request: AdmissionRequest, facts: Facts) -> _Case | None:
        """What there is to decide about; None if the rule does not apply to the request."""
        catalog, options = self.catalog(facts), self.options
        submission = read(request, catalog, options, facts)
        if submission is None:
            return None
        keepers = {
            constraint.template.path: way.keeper(constraint, submission, request, options, facts)
            for constraint in submission.constraints
        }
        # Of what is owned, the owner was told.
        short = () if is_owned(request.object) else tuple(self._shortages.find(submission, request, facts))
        marked = set()
        for one in short if options.autoscaling == "on" else ():
            for path in (constraint.template.path for constraint in one.constraints):
                if one.is_required and keepers[path].may_mark:
                    keepers[path] = Keeper("affinity", "an autoscaler sees no gated Pods", may_mark=True)
                    marked.add(path)
        return _Case(request, facts, catalog, submission, keepers, short, frozenset(marked))

    def _edits(self, case: _Case, submission: Submission) -> Iterator[Edit]:
        """The edits of templates, or of the Pod itself, which is written once."""
        for constraint in submission.constraints:
            template = constraint.template
            if not (template.location or submission.is_created):
                continue
            kept = case.keepers[template.path]
            before = previous(constraint, case.catalog, self.options) if submission.queued else None
            yield from way.template_edits(constraint, submission, kept, before, never=template.path in case.marked)
            if not template.location:
                yield from way.pod_edits(constraint, kept, case.request, case.facts.nodes())

    def _of_pod_group(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """The constraint of the Job for which a PodGroup is made, as the Job would get it."""
        obj = request.object
        key = scheduling.job_of(obj, request.namespace) if obj is not None and request.operation == "CREATE" else None
        job = facts.look_up(key) if key is not None else {}
        if obj is None or not job:
            return NO_MUTATION
        kind = GroupVersionKind(*scheduling.JOB_VERSION)
        created = replace(request, kind=kind, object=job, old_object=None, operation="CREATE")
        submission = read(created, self.catalog(facts), self.options, facts)
        support = facts.look_up(scheduling.SupportKey())
        for constraint in submission.constraints if submission is not None else ():
            if constraint.is_placed:
                offer = scheduling.offer(constraint, scheduling.JOB, job, support, facts.nodes())
                if offer.key:
                    value = scheduling.constraints(offer.key)
                    return Mutation(patch.put(obj, scheduling.CONSTRAINTS, value))
        return NO_MUTATION

    def _of_template(self, constraint: Constraint, case: _Case) -> Iterator[Violation]:
        """Violations for our gate where people wrote it, and for a placement that was changed too late."""
        template, earlier, kind = constraint.template, constraint.earlier, case.request.kind.kind
        is_new_gate = GATE in template.gates and (earlier is None or GATE not in earlier.gates)
        if is_new_gate and (template.location or not (constraint.placement or constraint.violations)):
            yield refusal.gated(template, kind)
        if earlier is None or constraint.reader:
            return
        if case.submission.may_change:
            yield from warning.changed(constraint)
        elif constraint.annotations.values != constraint.before.values and constraint.is_usable:
            before = previous(constraint, case.catalog, self.options)
            if before is None or not is_same(constraint, before):
                yield refusal.fixed(kind, constraint.annotations, constraint.before, earlier.above)

    def _told(self, case: _Case, row: Workload, absent: Collection[object]) -> Iterator[Violation]:
        """What is said of who keeps the Pods together, of gangs that fit nowhere, and of what happens meanwhile.

        absent: placements of which it is said already that no Node is for them.
        """
        submission, keepers, request = case.submission, case.keepers, case.request
        for one in case.short:
            first = one.constraints[0]
            if one.is_required and self.options.autoscaling == "off":
                remedy = f"Require {one.wider}, or ask for less." if one.wider else "Ask for less."
                yield refusal.never(first.annotations.required, one.problem, request.kind.kind, remedy)
            elif _placement(first) not in absent:
                wider = f"; {one.wider} could" if one.wider else ""
                yield refusal.as_warning(f"{first.asked}: {one.problem}{wider}")
        if not submission.may_change:
            return
        new = [(c, keepers[c.template.path]) for c in submission.constraints if c.is_new and c.is_placed]
        queued = [c for c, kept in new if submission.queued and (kept.way == "kueue" or kept.reason == kueue.UNKNOWN)]
        for constraint, kept in new:
            if constraint not in queued and not (
                constraint.template.path in case.marked and _placement(constraint) in absent
            ):
                yield from warning.kept(constraint, kept)
        if any(constraint.required is not None and kept.way == "gate" for constraint, kept in new):
            yield from warning.deadline(request.object, row)
        flavored = case.facts.look_up(kueue.FlavorsKey()) if queued else None
        for constraint in queued:
            yield from kueue.warnings(constraint, flavored)

    def _unapplied(self, case: _Case) -> Iterator[Violation]:
        """What lacks the mutation: it was skipped, or another webhook undid it."""
        submission = case.submission
        for constraint in submission.constraints:
            template = constraint.template
            if not constraint.is_placed or not (submission.is_created or template.location):
                continue
            edits = [*self._edits(case, replace(submission, constraints=(constraint,)))]
            if way.is_lacking(constraint, case.keepers[template.path], edits):
                lacking = refusal.unapplied(template, constraint.asked)
                is_denied = self.options.unapplied == "deny" and constraint.is_new
                yield lacking if is_denied else refusal.as_warning(lacking.warning)

    def _of_pools(self, case: _Case) -> Iterator[Violation]:
        """Violations for pools that do not go together, or not with a topology."""
        constraints, keys, request, catalog = (
            case.submission.constraints, self.options.pool_keys, case.request, case.catalog,
        )  # fmt: skip
        if not any(constraint.annotations.anything for constraint in constraints):
            return
        former = [one.earlier for one in constraints if one.earlier is not None]
        earlier = frozenset(contradiction.of_pools(request.old_object, former, catalog, keys))
        pools = contradiction.of_pools(request.object, [one.template for one in constraints], catalog, keys)
        yield from (refusal.as_warning(one.line) if one in earlier else one for one in pools)
        if pools:
            return
        if any(constraint.is_new for constraint in constraints):
            yield from contradiction.between(constraints)
        for one in constraints:
            is_placed = one.is_new and one.is_usable and (one.reader or not one.obstacle)
            if one.topology is not None and is_placed and not one.is_default:
                yield from contradiction.of_topology(request.object, one.template, one.topology, catalog, keys)


def _placement(constraint: Constraint) -> object:
    """The whole placement of a template."""
    return constraint.topology and constraint.topology.name, constraint.required, constraint.preferred


class _Case(NamedTuple):
    """A request, with what was found out about it.

    keepers: who keeps the Pods of each template together, by its path. short: gangs that fit nowhere. marked: the
    templates of those that go by Pod affinity for this.
    """

    request: AdmissionRequest
    facts: Facts
    catalog: Catalog
    submission: Submission
    keepers: Mapping[str, Keeper]
    short: tuple[Shortage, ...]
    marked: frozenset[str]
