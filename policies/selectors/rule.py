"""The rule for what people write by hand to choose Nodes: warnings about what selects nothing, or not what it says.

It looks at the keys that clouds, Topograph and Kubernetes put on Nodes, and leaves all other labels alone. Sources:
NodeSelector, PodAffinity and TopologySpreadConstraint in the Kubernetes API reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from policies.engine.facts import Facts
from policies.engine.match import SelectorRequirement, Term
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_owned, mapping, mappings
from policies.engine.safety import CONTROL_PLANE_LABEL
from policies.engine.violation import Violation
from policies.objects.fieldpath import lookup, parse, render
from policies.objects.workload import Workload
from policies.podspec import PREFERRED, REQUIRED, node_demand, read_term
from policies.selectors.fault import (
    Census,
    Effect,
    Fault,
    Grouping,
    Judge,
    by_key,
    by_nodes,
    called,
    meets_all,
    older,
)
from policies.topology.annotation import GANG
from policies.vocabulary import RESERVED, concerns

FIELDS = ("nodeSelector", "affinity", "topologySpreadConstraints")
"""The fields of a Pod's spec that are read."""


class Selection(Struct, frozen=True):
    """What a template asks of Nodes. A term on the names of Nodes, or a malformed one, is None."""

    selector: Term
    required: tuple[Term | None, ...]
    preferred: tuple[Term | None, ...]
    groupings: tuple[Grouping, ...]

    @property
    def keys(self) -> Iterator[str]:
        """The keys of all requirements."""
        terms = (self.selector, *self.required, *self.preferred)
        return (requirement.key for term in terms for requirement in term or ())


def selection(template: JsonObject) -> Selection:
    """What a template asks of Nodes."""
    spec, labels = mapping(template, "spec"), mapping(mapping(template, "metadata"), "labels")
    demand = node_demand(spec)
    preferences = mappings(mapping(spec.get("affinity"), "nodeAffinity"), PREFERRED)
    return Selection(
        tuple(one for one in demand.selector if one.values),
        _by_labels(demand.terms or ()),
        _by_labels(read_term(weighted.get("preference")) for weighted in preferences),
        tuple(_groupings(spec, labels)),
    )


def _by_labels(terms: Iterable[Term | None]) -> tuple[Term | None, ...]:
    return tuple(None if term is None or any(not one.key for one in term) else term for term in terms)


def _groupings(spec: JsonObject, labels: JsonObject) -> Iterator[Grouping]:
    kinds: tuple[tuple[str, Effect], ...] = (("podAffinity", "together"), ("podAntiAffinity", "apart"))
    for kind, effect in kinds:
        path, rules = ("affinity", kind), mapping(spec.get("affinity"), kind)
        for term in mappings(rules, REQUIRED):
            if isinstance(key := term.get("topologyKey"), str):
                own = mapping(mapping(term, "labelSelector"), "matchLabels")
                is_own = bool(own) and own.items() <= labels.items()
                yield Grouping(path, key, effect, is_required=True, is_own=is_own)
        for weighted in mappings(rules, PREFERRED):
            if isinstance(key := mapping(weighted, "podAffinityTerm").get("topologyKey"), str):
                yield Grouping(path, key, effect, is_required=False)
    for constraint in mappings(spec, "topologySpreadConstraints"):
        if isinstance(key := constraint.get("topologyKey"), str):
            waits = constraint.get("whenUnsatisfiable") != "ScheduleAnyway"
            yield Grouping(("topologySpreadConstraints",), key, "spread", is_required=waits)


RULE = "selectors"
SUMMARY = "A node selector does not select what it says."
_ITSELF = ((),)
_SELECTOR, _AFFINITY = ("nodeSelector",), ("affinity", "nodeAffinity")
# Requirements and values times Nodes: some hundredths of a second.
MOST_COMPARED = 200_000


def reads(rows: Iterable[Workload]) -> frozenset[str]:
    """The paths that the rule reads in objects of these kinds."""
    fields = ("metadata.labels", *(f"spec.{field}" for field in FIELDS))
    return frozenset(
        render((*template, *row.shape.place(parse(field))))
        for row in rows for template in row.templates for field in fields
    )  # fmt: skip


class NodeSelectors:
    """The rule. organization: the id of the organization whose cluster it is; empty if not configured.

    told: keys about whose values somebody else tells what they mean, so that it is not said twice.
    """

    def __init__(
        self, workloads: Mapping[tuple[str, str], Workload], organization: str, told: frozenset[str] = frozenset()
    ) -> None:
        self._workloads = workloads
        self._organization = organization
        self._told = told
        self._census = Census(())

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """A warning for each fault in what is new."""
        obj, row = request.object, self._workloads.get(request.kind.group_kind)
        if obj is None or row is None or request.sub_resource:
            return ()
        if row.templates == _ITSELF and not _selects(obj):  # nearly every Pod
            return ()
        if is_being_deleted(obj) or is_owned(obj):
            return ()
        old = request.old_object
        templates = [
            (location, asked) for location, template in row.pods(obj)
            if _selects(template) and _is_concerned(asked := selection(_own(template)))
            and (old is None or not _is_same(template, row.shape.view(lookup(old, location))))
        ]  # fmt: skip
        if not templates:
            return ()
        self._census = self._census.renewed(facts.nodes(), facts.nodes_to_come())
        violations: list[Violation] = []
        for location, asked in templates:
            judge = Judge(self._census, self._organizations(asked, request, facts), self._told)
            for field, fault in _judged(asked, judge):
                path, found = render((*location, *row.shape.spec, *field)), f"{fault.shown} {fault.problem}".strip()
                # All of it is the problem: a key that is shortened, as values are, would not be found again.
                violations.append(Violation(RULE, path, "", found, SUMMARY, fault.remedy))
        return list(dict.fromkeys(violations))

    def _organizations(self, asked: Selection, request: AdmissionRequest, facts: Facts) -> tuple[str, ...]:
        """Whose Nodes may be selected, as configured and as the Namespace says; only looked up where it matters."""
        if RESERVED not in asked.keys:
            return ()
        namespace = request.scope_namespace
        own = facts.namespace_labels(namespace).get(CONTROL_PLANE_LABEL, "") if namespace else ""
        return tuple(dict.fromkeys(name for name in (self._organization, own) if name))


def _is_concerned(asked: Selection) -> bool:
    """Whether what people wrote names a key that looks known."""
    return any(map(concerns, asked.keys)) or any(concerns(grouping.key) for grouping in asked.groupings)


def _selects(template: object) -> bool:
    spec = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict):
        return False
    selector, affinity, spread = FIELDS
    return bool(spec.get(selector) or spec.get(affinity) or spec.get(spread))  # any() takes three times as long


def _own(template: JsonObject) -> JsonObject:
    """A template without affinity that the service wrote: its terms name labels that only some Nodes have."""
    if GANG not in mapping(mapping(template, "metadata"), "labels"):
        return template
    return {**template, "spec": {**template["spec"], "affinity": None}}


def _is_same(template: object, before: object) -> bool:
    now, old = mapping(template, "spec"), mapping(before, "spec")
    return bool(old) and all(now.get(field) == old.get(field) for field in FIELDS)


def _judged(asked: Selection, judge: Judge) -> list[tuple[tuple[str, ...], Fault]]:
    """The faults of a template, each with its place in the spec."""
    census = judge.census
    faults: list[tuple[tuple[str, ...], Fault]] = [(_SELECTOR, one) for one in _faults(asked.selector, (), judge)]
    for terms in (asked.required, asked.preferred):
        faults += ((_AFFINITY, one) for one in _of_terms(terms, asked.selector, judge))
    allowed = _allowed(asked, census)
    for grouping in asked.groupings:
        fault = by_key(grouping, census, allowed) if concerns(grouping.key) else None
        if fault is not None:
            faults.append((grouping.path, fault))
    if allowed is not None and not allowed.nodes and not faults:
        faults += (((), fault) for fault in _together(asked, census))
    return faults


def _of_terms(terms: Sequence[Term | None], selector: Term, judge: Judge) -> Iterator[Fault]:
    """The faults of terms of which a Node has to meet one: that no Node meets a term counts if it is so for all."""
    absent: list[list[Fault]] = []
    for term in terms:
        faults = list(_faults(term or (), selector, judge, of_nodes=False))
        yield from faults
        found = () if faults or term is None else (_by_nodes(requirement, judge) for requirement in term)
        absent.append([fault for fault in found if fault is not None])
    if all(absent):
        yield from (faults[0] for faults in absent)


def _faults(term: Term, around: Term, judge: Judge, *, of_nodes: bool = True) -> Iterator[Fault]:
    """The faults of what a Node has to meet together with what stands around it; one for each requirement."""
    for requirement in term:
        if concerns(requirement.key):
            fault = judge.by_meaning(requirement, (*term, *around))
            fault = (
                fault or (_by_nodes(requirement, judge) if of_nodes else None) or older(requirement.key, judge.census)
            )
            if fault is not None and not judge.is_told(requirement):
                yield fault


def _by_nodes(requirement: SelectorRequirement, judge: Judge) -> Fault | None:
    is_judged = concerns(requirement.key) and not judge.is_told(requirement)
    return by_nodes(requirement, judge.census) if is_judged else None


def _allowed(asked: Selection, census: Census) -> Census | None:
    """The census of the Nodes that meet everything; None if that cannot be told, or would take long."""
    terms, nodes = asked.required, census.nodes
    is_asked = asked.groupings or len(asked.selector) + sum(len(term or ()) for term in terms) > 1
    size = sum(1 + len(requirement.values) for term in (asked.selector, *terms) for requirement in term or ())
    if not (nodes and is_asked) or None in terms or size * len(nodes) > MOST_COMPARED:
        return None
    return census.allowed(asked.selector, tuple(term for term in terms if term is not None))


def _together(asked: Selection, census: Census) -> Iterator[Fault]:
    """The fault that no Node has all that is required, though there is one for each part of it."""
    terms = [term or () for term in asked.required]
    possible = [term for term in terms if any(meets_all(term, node.labels) for node in census.nodes)]
    if terms and not possible:
        possible = terms[:1] if len(terms) == 1 else []
    requirements = [*asked.selector, *(possible[0] if len(possible) == 1 else ())]
    if any(census.comes(requirement) or not census.meets(requirement) for requirement in requirements):
        return
    for index, one in enumerate(requirements):
        for other in requirements[:index]:
            pair = (other, one)
            if any(concerns(r.key) for r in pair) and not any(meets_all(pair, node.labels) for node in census.nodes):
                yield Fault("", f"no Node has both {' and '.join(map(called, pair))}.", "Change one of them.")
                return
    if asked.selector and len(possible) > 1:
        yield Fault("", "no Node has what nodeSelector and node affinity require together.", "Change one of them.")
