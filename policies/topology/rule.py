"""The rule for topology annotations: it checks them, copies them to where Pods carry them, and gates these Pods.

Sources: NVIDIA's documentation of topology-aware scheduling in Run:ai, which defines the annotations; for the changes
that an update allows, the validation of each kind in Kubernetes and in the project that defines the kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from policies.engine import patch
from policies.engine.facts import Facts, Node
from policies.engine.request import AdmissionRequest, GroupVersionKind, is_owned, mapping
from policies.engine.rule import NO_MUTATION, Mutation
from policies.engine.violation import WARNING_COUNT, Violation
from policies.objects.fieldpath import parse, render
from policies.objects.workload import Workload
from policies.podspec import READS as ACCELERATOR_READS
from policies.podspec import Accelerators
from policies.topology import messages, schemes, way
from policies.topology.gang import Gang, GangKey, Member, excess, tiers
from policies.topology.gang import member as demand_of
from policies.topology.membership import podcount
from policies.topology.placement import ANNOTATIONS, GANG, GATE, alternatives
from policies.topology.template import RULE, Case, Options, Template, as_warning, is_gated, read
from policies.topology.topology import Catalog, Topology
from policies.topology.way import Edit, FlavorsKey, Keeper

if TYPE_CHECKING:
    from policies.topology.choice import Shortfall
    from policies.topology.nodes.inventory import Inventory

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
_KEPT = 256
_WORKLOAD = (
    *("spec.suspend", "spec.selector", "spec.mlPolicy", "spec.completionMode", "spec.scheduling"),
    *("spec.activeDeadlineSeconds", "spec.runPolicy", ".".join(way.CONSTRAINTS)),
)
_JOB = ("metadata.annotations", "spec.activeDeadlineSeconds")
# What says beside or above a template how many Pods there are of it.
_COUNTS = (
    *("completions", "groupName", "maxReplicas", "minReplicas", "name", "numOfHosts"),
    *("parallelism", "replicas", "size", "suspend"),
)


def reads(rows: Sequence[Workload]) -> frozenset[str]:
    """The paths that the rule reads in objects of these kinds."""
    paths = {*_WORKLOAD, *schemes.READS}
    for row in rows:
        paths |= {f"{render(job)}.{field}" for job in row.jobs for field in _JOB}
        paths |= {render((*t, *row.shape.place(path))) for t in row.templates for path in _PARSED}
        paths |= {render(place) for _, place in row.containers}
        above = {t[:depth] for t in row.templates for depth in range(1, len(t)) if isinstance(t[depth], str)}
        paths |= {f"{render(holder)}.{field}" for holder in above for field in _COUNTS}
    return frozenset(paths)


class Shortage(Struct, frozen=True):
    """A gang that no domain can hold. templates: of its Pods. problem: in words. wider: a level that could hold it."""

    templates: tuple[Template, ...]
    problem: str
    wider: str

    @property
    def is_required(self) -> bool:
        """Whether its Pods would wait for ever."""
        return self.templates[0].required is not None


class Explained(NamedTuple):
    """A template of a new object, who keeps its Pods together, and the gang's shortage of room if there is one."""

    template: Template
    keeper: Keeper
    shortage: Shortage | None


class _Decision(NamedTuple):
    """What becomes of a request's templates. keepers: who keeps the Pods of each together, by its path.

    short: gangs that fit nowhere. marked: the paths of those templates of them that go by Pod affinity for this.
    """

    case: Case
    keepers: Mapping[str, Keeper]
    short: tuple[Shortage, ...]
    marked: frozenset[str]

    def edits(self, templates: Sequence[Template]) -> Iterator[Edit]:
        """The edits of templates, or of the Pod itself, which is written once."""
        for template in templates:
            if template.location or self.case.is_created:
                keeper, never = self.keepers[template.path], template.path in self.marked
                yield from way.template_edits(template, self.case, keeper, never=never)
                if not template.location:
                    yield from way.pod_edits(template, self.case, keeper)


class TopologyPlacement:
    """The rule for workloads and Pods. catalog: the topologies that do not come from a cluster."""

    def __init__(self, catalog: Catalog, options: Options) -> None:
        self.options = options
        self._static = catalog
        self._joined: tuple[tuple[Topology, ...], Catalog] = ((), catalog)
        self._shortages = _Shortages(options.accelerators)

    def catalog(self, facts: Facts) -> Catalog:
        """All topologies, including those of the cluster."""
        own = facts.topologies()
        if own is not self._joined[0]:  # facts return the same tuple until a topology changes
            self._joined = (own, self._static.joined(own, self.options.topograph))
        return self._joined[1]

    def mutate(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """Copy annotations to the templates, and gate new Pods. Raises Missing or FactUnavailable."""
        if request.kind.group_kind == way.POD_GROUP:
            return self._of_pod_group(request, facts)
        decision = self._decide(request, facts)
        if decision is None:
            return NO_MUTATION
        case, keepers = decision.case, decision.keepers
        edits = [*decision.edits(case.templates), *way.names(case), *_of_job(case, keepers)]
        is_told = case.is_created and not is_owned(case.obj)
        placed = [one.path for one in case.templates if is_told and one.is_placed and not one.is_default]
        ways = tuple(keepers[path].way or "none" for path in placed)
        operations = patch.sequence(case.obj, edits)
        return Mutation(operations, ways=ways) if operations or ways else NO_MUTATION

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """Refusals, and warnings about unexpected effects. Problems that were there before only cause warnings."""
        kind = request.kind.group_kind
        row, obj = self.options.workloads.get(kind), request.object
        if obj is None or not (
            row is None or self.options.default.topology or is_gated(obj, row)
            or schemes.is_mentioned(row, obj, request.old_object)
        ):  # fmt: skip
            return ()
        violations = [] if row is None else list(messages.misspelt(request, row))
        violations += messages.unread(request) if row is None and kind in messages.UNREAD else ()
        violations += schemes.warnings(request, row, self.catalog(facts), facts.nodes())
        decision = self._decide(request, facts)
        if decision is None:
            return violations
        case = decision.case
        compared: set[object] = set()
        absent: set[object] = set()  # placements for which there is no Node
        for template in case.templates:
            if not template.is_new:
                violations += (as_warning(violation.line) for violation in template.violations)
            else:
                violations += template.violations
                if template.is_usable:
                    # Nodes are compared with as many placements as an answer has room for, and once with each.
                    placement = (template.annotations, template.reader)
                    nodes = facts.nodes() if placement not in compared and len(compared) < WARNING_COUNT else ()
                    compared.add(placement)
                    absence = messages.absence(template, nodes)
                    absent |= {template.whole} if absence else set()
                    violations += messages.warnings(template, case, nodes, absence)
                    violations += messages.contradictions(template)
            violations += _of_template(template, case)
        if not is_owned(case.obj):
            violations += _of_gangs(decision, absent)
        violations += _unapplied(decision)
        violations += messages.of_pools(case)
        return list(dict.fromkeys(violations))

    def explain(self, request: AdmissionRequest, facts: Facts) -> tuple[Explained, ...]:
        """What becomes of each template of a new object. Raises Missing or FactUnavailable."""
        decision = self._decide(request, facts)
        if decision is None:
            return ()
        of = {template.path: short for short in decision.short for template in short.templates}
        return tuple(Explained(t, decision.keepers[t.path], of.get(t.path)) for t in decision.case.templates)

    def _decide(self, request: AdmissionRequest, facts: Facts) -> _Decision | None:
        case = read(request, self.catalog(facts), self.options, facts)
        if case is None:
            return None
        keepers = {template.path: way.keeper(template, case) for template in case.templates}
        # Of what is owned, the owner was told.
        short = () if is_owned(case.obj) else tuple(self._shortages.find(case))
        marked = set()
        for one in short if self.options.autoscaling == "on" else ():
            for path in (template.path for template in one.templates):
                if one.is_required and keepers[path].may_mark:
                    keepers[path] = Keeper("affinity", "an autoscaler sees no gated Pods", may_mark=True)
                    marked.add(path)
        return _Decision(case, keepers, short, frozenset(marked))

    def _of_pod_group(self, request: AdmissionRequest, facts: Facts) -> Mutation:
        """The constraint of the Job for which a PodGroup is made, as the Job would get it."""
        obj = request.object
        key = way.job_of(obj, request.namespace) if obj is not None and request.operation == "CREATE" else None
        job = facts.look_up(key) if key is not None else {}
        if obj is None or not job:
            return NO_MUTATION
        kind = GroupVersionKind(*way.JOB_VERSION)
        created = replace(request, kind=kind, object=job, old_object=None, operation="CREATE")
        case = read(created, self.catalog(facts), self.options, facts)
        support = facts.look_up(way.SupportKey())
        for template in case.templates if case is not None else ():
            if template.is_placed:
                label, _ = way.offer(template, way.JOB, job, support, facts.nodes())
                if label:
                    return Mutation(patch.put(obj, way.CONSTRAINTS, way.constraints(label)))
        return NO_MUTATION


def _of_job(case: Case, keepers: Mapping[str, Keeper]) -> Iterator[Edit]:
    """The edits of a Job for Kubernetes' own scheduling: its constraint, which no update and no manifest may clear."""
    obj, old = case.obj, case.request.old_object
    is_lost = mapping(obj, "spec").get("scheduling") is None and way.is_written(old)
    for template in case.templates:
        if key := keepers[template.path].key:
            yield way.FIELD, way.scheduling(key)
        elif template.is_placed and case.row.group_kind == way.JOB and not case.is_created and is_lost:
            yield way.FIELD, mapping(mapping(old, "spec"), "scheduling")


def _of_template(template: Template, case: Case) -> Iterator[Violation]:
    """Violations for our gate where people wrote it, and for a placement that was changed too late."""
    earlier, kind = template.earlier, case.request.kind.kind
    is_new_gate = GATE in template.gates and (earlier is None or GATE not in earlier.gates)
    if is_new_gate and (template.location or not (template.placement or template.violations)):
        yield messages.gated(template, kind)
    if earlier is None or template.reader:
        return
    if case.may_change:
        yield from messages.changed(template)
    elif template.annotations.values != template.before.values and template.is_usable:
        before = case.previous(template)
        asked, was_asked = (
            one and (one.topology, one.required, one.preferred, one.scheduler, one.handed) for one in (template, before)
        )
        # What asks for the same in other words changes nothing.
        if before is None or asked != was_asked or not before.is_usable or template.topology is None:
            yield messages.fixed(kind, template)


def _of_gangs(decision: _Decision, absent: Collection[object]) -> Iterator[Violation]:
    """What is said of who keeps Pods together and of gangs that fit nowhere. absent: placements without any Node."""
    case, keepers = decision.case, decision.keepers
    for one in decision.short:
        first = one.templates[0]
        if one.is_required and case.options.autoscaling == "off":
            yield messages.never(first, one.problem, case.request.kind.kind, one.wider)
        elif first.whole not in absent:
            wider = f"; {one.wider} could" if one.wider else ""
            yield as_warning(f"{first.asked}: {one.problem}{wider}")
    if not case.may_change:
        return
    new = [(template, keepers[template.path]) for template in case.templates if template.is_new and template.is_placed]
    for template, keeper in new:
        if template.path not in decision.marked or template.whole not in absent:
            yield from messages.kept(template, keeper)
    if any(template.required is not None and keeper.way == "gate" for template, keeper in new):
        yield from messages.deadline(case)
    queued = [template for template, keeper in new if case.queued and keeper.of_kueue]
    flavored = case.facts.look_up(FlavorsKey()) if queued else None
    for template in queued:
        yield from way.kueue_warnings(template, flavored)


def _unapplied(decision: _Decision) -> Iterator[Violation]:
    """What lacks the mutation: it was skipped, or another webhook undid it."""
    case = decision.case
    for template in case.templates:
        if not (template.is_placed and (case.is_created or template.location)):
            continue
        kept = decision.keepers[template.path].way
        if template.location or kept not in ("gate", "affinity"):
            places = [location for location, _ in decision.edits((template,))]
            is_lacking = any(place[-1] in ANNOTATIONS or place[-1] == "annotations" for place in places)
        elif kept == "gate":
            is_lacking = GATE not in template.gates
        else:
            is_lacking = GANG not in mapping(template.metadata, "labels")
        if is_lacking:
            lacking = messages.unapplied(template)
            is_denied = case.options.unapplied == "deny" and template.is_new
            yield lacking if is_denied else as_warning(lacking.warning, is_outcome=True)


class _Shortages:
    """Finds gangs that no domain of the Nodes that there are can hold, even if nothing else ran there.

    It keeps what is known of Nodes for as long as these are the same.
    """

    def __init__(self, accelerators: Accelerators) -> None:
        self._accelerators = accelerators
        self._nodes: Sequence[Node] = ()
        self._inventory: Inventory | None = None
        self._known: dict[Gang, Shortfall | None] = {}

    def find(self, case: Case) -> Iterator[Shortage]:
        """The gangs of what is new in a request that do not fit. Nothing is said where the Nodes are not known."""
        new = [template for template in case.templates if template.is_placed and template.is_new]
        if not new:
            return
        nodes = case.facts.nodes()
        if nodes is not self._nodes:
            self._nodes, self._inventory = nodes, None
            self._known.clear()
        if not any(node.allocatable for node in nodes):
            return
        from policies.topology.choice import shortfall  # noqa: PLC0415 - loads numpy, which few writes need
        from policies.topology.nodes.inventory import inventory_of  # noqa: PLC0415 - as above

        for templates in gangs(new):
            gang = self._gang(templates, case)
            if gang is None:
                continue
            self._inventory = self._inventory or inventory_of(self._nodes)
            if gang not in self._known:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[gang] = shortfall(self._inventory, gang)
            if (short := self._known[gang]) is not None:
                yield Shortage(tuple(templates), _problem(templates[0], short), short.wider)

    def _gang(self, together: Sequence[Template], case: Case) -> Gang | None:
        """The gang of templates with one placement; None if its size or what it asks for is not known."""
        first, request, kind = together[0], case.request, case.request.kind.group_kind
        topology, required = first.topology, first.required
        if topology is None:
            return None
        named = () if required is None else required.named
        pool = () if topology.pool is None else topology.pool.requirements
        terms = tuple((*term, *pool) for term in alternatives(named, topology.requirement) or ((),))
        members = []
        for template in together:
            count = podcount(kind, case.obj, template.location)
            if count is None:
                return None
            own = demand_of(
                template.value, template.path, count, case.facts, self._accelerators,
                namespace=request.namespace, terms=terms if any(terms) else (),
            )  # fmt: skip
            if not isinstance(own, Member) or own.claims:
                return None
            members += [own] if own.count else []
        if not members or excess(members):
            return None
        levels = [placement.level for _, placement in first.placements]
        wanted, preferred = (
            None if placement is None else topology.position(placement.level)
            for placement in (required, first.preferred)
        )
        key = GangKey(request.namespace, *kind, request.display_name)
        return Gang(key, topology.name, tiers(topology, *levels), tuple(members), wanted, preferred)


def gangs(templates: Sequence[Template]) -> list[list[Template]]:
    """The templates of the same whole placement together."""
    shared: dict[object, list[Template]] = {}
    for template in templates:
        shared.setdefault(template.whole, []).append(template)
    return list(shared.values())


def _problem(template: Template, short: Shortfall) -> str:
    required, topology = template.required, template.topology
    size = f"{short.pods} Pod{'' if short.pods == 1 else 's'}"
    if short.accelerators:
        size += f" with {short.accelerators} GPU{'' if short.accelerators == 1 else 's'}"
    if required is None or topology is None:
        held = f"there is room for {short.best_pods}" if short.best_pods else "no Node has room for one of its Pods"
        return f"the Nodes cannot hold {size} even if nothing else ran: {held}"
    called = required.called(topology)
    if short.best_pods >= short.pods:
        held = "not all of them find a place together"
    elif short.best_pods:
        gpus = f" ({short.best_accelerators} GPUs)" if short.best_accelerators and required.is_open else ""
        held = f"{'the largest' if required.is_open else 'it'}{gpus} holds {short.best_pods}"
    elif short.largest:
        held = "no Node has room for one of its Pods"
    else:
        where = "of one" if required.is_open else "of it"
        held = f"the Pods' node selector, node affinity and tolerations allow no Node {where}"
    holder = f"no {called} can" if required.is_open else f"{called} cannot"
    return f"{holder} hold {size} even if nothing else ran: {held}"
