"""The rule for what people write by hand to choose Nodes: warnings about what selects nothing, or not what it says.

It looks at the keys that clouds, Topograph and Kubernetes put on Nodes, at what they mean and at what Nodes carry, and
leaves all other labels alone. Sources: NodeSelector, PodAffinity and TopologySpreadConstraint in the Kubernetes API
reference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from policies import vocabulary
from policies.engine.facts import Facts, Node
from policies.engine.match import SelectorRequirement, Term
from policies.engine.request import AdmissionRequest, JsonObject, is_being_deleted, is_owned, mapping, mappings
from policies.engine.safety import CONTROL_PLANE_LABEL
from policies.engine.violation import Violation
from policies.objects.fieldpath import lookup, parse, render
from policies.objects.workload import Workload
from policies.podspec import PREFERRED, REQUIRED, node_demand, read_term
from policies.topology.placement import GANG
from policies.topology.topology import natural
from policies.vocabulary import (
    ALL,
    CLIQUE,
    CONTROL_PLANE,
    FLAVOR,
    HOSTNAME,
    IB,
    IB_FABRIC,
    INSTANCE_TYPE,
    NO_WORKLOADS,
    OLD_TYPE,
    PRODUCTION,
    REGION,
    RESERVED,
    STATE,
    TIERS,
    ZONE,
    Key,
    concerns,
)  # fmt: skip

RULE = "selectors"
SUMMARY = "A node selector does not select what it says."
FIELDS = ("nodeSelector", "affinity", "topologySpreadConstraints")
"""The fields of a Pod's spec that are read."""

# Every Node is looked at for each key: some milliseconds for 10,000 Nodes and so many keys. So a review has only so
# many counted, and what was counted is kept for later ones.
MOST_KEYS, MOST_KEPT = 32, 256
# Requirements and values times Nodes: some hundredths of a second.
MOST_COMPARED = 200_000
_EVERYWHERE = frozenset({REGION, ZONE, HOSTNAME})


# What a template asks of Nodes ---------------------------------------------------------------------------------------


class _Grouping(NamedTuple):
    """A topology key: Pods on Nodes with the same value of it are grouped. path: the steps within the Pod's spec.

    effect: whether Pods are kept together or apart, or spread. is_required: whether Pods wait where it cannot be met.
    is_own: whether the Pods that count are those of the same template.
    """

    path: tuple[str, ...]
    key: str
    effect: Literal["together", "apart", "spread"]
    is_required: bool
    is_own: bool = False


class _Selection:
    """What a template asks of Nodes. A term on the names of Nodes, or a malformed one, is None."""

    def __init__(self, template: JsonObject) -> None:
        spec, labels = mapping(template, "spec"), mapping(mapping(template, "metadata"), "labels")
        if GANG in labels:  # the service wrote the affinity: its terms name labels that only some Nodes have
            spec = {**spec, "affinity": None}
        affinity, demand = mapping(spec, "affinity"), node_demand(spec)
        preferences = mappings(mapping(affinity, "nodeAffinity"), PREFERRED)
        self.selector: Term = tuple(one for one in demand.selector if one.values)
        self.required = tuple(map(_by_labels, demand.terms or ()))
        self.preferred = tuple(_by_labels(read_term(weighted.get("preference"))) for weighted in preferences)
        self.groupings = tuple(_groupings(spec, labels))
        terms = (self.selector, *self.required, *self.preferred)
        self.keys = {requirement.key for term in terms for requirement in term or ()}


def _by_labels(term: Term | None) -> Term | None:
    return None if term is None or any(not one.key for one in term) else term


def _groupings(spec: JsonObject, labels: JsonObject) -> Iterator[_Grouping]:
    effects: tuple[tuple[str, Literal["together", "apart"]], ...] = (
        ("podAffinity", "together"),
        ("podAntiAffinity", "apart"),
    )
    for kind, effect in effects:
        path, rules = ("affinity", kind), mapping(mapping(spec, "affinity"), kind)
        for term in mappings(rules, REQUIRED):
            if isinstance(key := term.get("topologyKey"), str):
                own = mapping(mapping(term, "labelSelector"), "matchLabels")
                yield _Grouping(path, key, effect, is_required=True, is_own=bool(own) and own.items() <= labels.items())
        for weighted in mappings(rules, PREFERRED):
            if isinstance(key := mapping(weighted, "podAffinityTerm").get("topologyKey"), str):
                yield _Grouping(path, key, effect, is_required=False)
    for constraint in mappings(spec, "topologySpreadConstraints"):
        if isinstance(key := constraint.get("topologyKey"), str):
            waits = constraint.get("whenUnsatisfiable") != "ScheduleAnyway"
            yield _Grouping(("topologySpreadConstraints",), key, "spread", is_required=waits)


# What Nodes carry ----------------------------------------------------------------------------------------------------


class Census:
    """The labels of Nodes, and of those that an autoscaler would add. Without Nodes, nothing is known.

    One serves reviews in turn, as long as the Nodes are the same; a review begins with `renewed`.
    """

    def __init__(self, nodes: Sequence[Node], coming: Sequence[Mapping[str, str]] = ()) -> None:
        self.nodes = nodes
        self._coming = coming
        self._counts: dict[str, Counter[str]] = {}
        self._allowed: dict[tuple[Term, Sequence[Term]], Census] = {}
        self._new = 0

    def renewed(self, nodes: Sequence[Node], coming: Sequence[Mapping[str, str]]) -> Census:
        """The census for another review: this one with all that it has counted, unless the Nodes are others."""
        if nodes is not self.nodes or len(self._counts) > MOST_KEPT or len(self._allowed) > MOST_KEPT:
            return Census(nodes, coming)
        self._coming, self._new = coming, 0
        return self

    def knows(self, key: str) -> bool:
        """Whether anything can be said about a key."""
        return bool(self.nodes) and (key in self._counts or self._new < MOST_KEYS)

    def values(self, key: str) -> Counter[str]:
        """How many Nodes carry which value of a key."""
        counts = self._counts.get(key)
        if counts is None:
            self._new += 1
            counts = self._counts[key] = Counter(node.labels[key] for node in self.nodes if key in node.labels)
        return counts

    def allowed(self, selector: Term, terms: Sequence[Term]) -> Census:
        """The census of the Nodes that meet a node selector and one of the terms, if there are any."""
        asked = selector, terms
        census = self._allowed.get(asked)
        if census is None:
            nodes = list(self.nodes)
            for requirement in selector:
                nodes = [node for node in nodes if node.labels.get(requirement.key) == requirement.values[0]]
            nodes = [n for n in nodes if not terms or any(term and _meets_all(term, n.labels) for term in terms)]
            census = self._allowed[asked] = Census(nodes)
        return census

    def carries(self, key: str) -> bool:
        """Whether a Node carries a key, or one to come would."""
        return bool(self.values(key)) or any(key in labels for labels in self._coming)

    def meets(self, requirement: SelectorRequirement) -> bool:
        """Whether a Node meets a requirement by its label, or one to come might: of their labels, not all are known."""
        if self.comes(requirement):
            return True
        key, values = requirement.key, self.values(requirement.key)
        is_lacked = values.total() < len(self.nodes)
        return any(requirement.matches({key: value}) for value in values) or (is_lacked and requirement.matches({}))

    def comes(self, requirement: SelectorRequirement) -> bool:
        """Whether a Node to come may meet a requirement that it is explained to meet."""
        return any(requirement.matches(labels) for labels in self._coming if requirement.key in labels)

    @property
    def places(self) -> list[str]:
        """The known keys of places that Nodes carry, but for those that all clouds have."""
        carried = {key for node in self.nodes for key in node.labels} - _EVERYWHERE
        return sorted(key for key in carried if (known := vocabulary.key(key)) is not None and known.sort == "place")


def listed(texts: Iterable[str], shown: int = 3) -> str:
    """The first texts in natural order, and how many more there are: `1, 2, 3 and 4 more`."""
    ordered = sorted(texts, key=natural)
    if len(ordered) > shown + 1:
        return f"{', '.join(ordered[:shown])} and {len(ordered) - shown} more"
    *others, last = ordered
    return f"{', '.join(others)} and {last}" if others else last


def _meets_all(requirements: Iterable[SelectorRequirement], labels: Mapping[str, str]) -> bool:
    return all(requirement.matches(labels) for requirement in requirements)


# What is wrong with a requirement or a topology key ------------------------------------------------------------------

_Fault = tuple[str, str]
"""What is wrong, and what to do."""

_POSITIVE = frozenset({"In", "Exists", "Gt", "Lt"})
_OLDER_TYPE = re.compile(r"[A-Z0-9]+(_[A-Za-z0-9]+)+(\.[A-Za-z0-9]+)*")
_INSTANCE = "gd-8xh100ib-i128"
# Prefixes under which others have labels of their own, or that appear on a Node only after it has come.
_SHARED = ("nvidia.com", "kubernetes.io", "node.kubernetes.io", "cloud.google.com", "beta.kubernetes.io")
SHORT = {key.short: key.name for key in reversed(ALL) if key.sort == "place" and not key.is_pattern}
"""Keys by their short names, which people write alone."""
_EFFECTS = {"together": "draws no Pods together", "apart": "keeps no Pods apart", "spread": "spreads no Pods"}


def _called(requirement: SelectorRequirement) -> str:
    """A requirement as people write it: `superpod=3`, `superpod in (3, 4)`, or the key alone."""
    if requirement.operator not in ("In", "NotIn"):
        return requirement.key
    several = ", ".join(requirement.values[:3]) + (", …" if len(requirement.values) > 3 else "")
    if requirement.operator == "In" and len(requirement.values) == 1:
        return f"{requirement.key}={several}"
    return f"{requirement.key} {'in' if requirement.operator == 'In' else 'not in'} ({several})"


def _is_of_nobody(requirement: SelectorRequirement) -> bool:
    """Whether all values say that Nodes take no workloads, rather than whose they are."""
    return all(value in (CONTROL_PLANE, *NO_WORKLOADS) for value in requirement.values)


def _by_meaning(
    requirement: SelectorRequirement, term: Term, census: Census, organizations: tuple[str, ...]
) -> Iterator[_Fault]:
    """The faults that are some on any Nodes. term: all that is required together. organizations: those known as own."""
    key, operator, values = requirement.key, requirement.operator, requirement.values
    shown = _called(requirement)
    yield from _misspelt(key, census)
    # A label of InfiniBand that is required of RoCE Nodes.
    twin = vocabulary.twin(key) if key.startswith(IB) and operator in _POSITIVE else ""
    if twin and any(other.key == FLAVOR and other.operator == "In" and other.values == ("roce",) for other in term):
        yield f"{shown} is carried by no RoCE Node, and flavor=roce is required.", f"Write {twin}."
    if operator not in ("In", "NotIn") or not values:
        return
    if operator == "In":
        # Nodes that take no workloads, or are reserved for others: whose is known where one's own id is.
        if key == STATE and all(value in NO_WORKLOADS for value in values):
            yield f"{shown} selects Nodes on which no workload lands.", f"Write {PRODUCTION}."
        is_known = bool(organizations) or _is_of_nobody(requirement)
        if key == RESERVED and is_known and not any(value in organizations for value in values):
            right = " or ".join(organizations) or "the id of your organization"
            yield f"{shown} selects Nodes that are not yours.", f"Write {right}."
        # A type as it was called before there were Instance IDs.
        if key in (OLD_TYPE, INSTANCE_TYPE) and all(_OLDER_TYPE.fullmatch(value) for value in values):
            there = census.values(INSTANCE_TYPE) if census.knows(INSTANCE_TYPE) else {}
            right = listed(there) if there else _INSTANCE
            yield f"{shown} is an older value, which no Node has.", f"Write an Instance ID, such as {right}."
        # A place that is named by what it is connected to. Nodes may well be chosen by their speed.
        known = vocabulary.key(key)
        if known is not None and known.sort == "measure" and not known.short.startswith("speed"):
            yield f"{shown} {vocabulary.no_place(key)}.", _place(known, census)
    yield from _of_form(requirement, census)


def _of_form(requirement: SelectorRequirement, census: Census) -> Iterator[_Fault]:
    """The faults that a value is none that the label has; a value that a Node carries is right."""
    key, known = requirement.key, vocabulary.key(requirement.key)
    carried = census.values(key) if census.knows(key) else {}
    for value in requirement.values:
        if known is None or value in carried or census.comes(SelectorRequirement(key, "In", (value,))):
            continue
        form, there = known.form, sorted(carried)
        right = next((other for other in (*form.choices, *carried) if other.lower() == value.lower()), value)
        if right != value:
            yield f"{_called(requirement)} is written in another way.", f"Write {right}."
        elif not form.fits(value):
            halves = [clique for clique in there if clique.startswith(f"{value}.")] if key == CLIQUE else []
            if halves:
                remedy = f"It is an NVL Domain: write {' or '.join(halves[:2])}{' …' if len(halves) > 2 else ''}."
            elif form.choices:
                remedy = f"Write {PRODUCTION if known.name == STATE else ' or '.join(form.choices)}."
            else:
                remedy = f"Nodes have {listed(there)}." if there else "Copy the value of the Nodes' label."
            yield f"{_called(requirement)} is not {form.called}.", remedy


def _misspelt(key: str, census: Census) -> Iterator[_Fault]:
    """The fault that a key is no label of Nodes, but nearly one; a key that a Node carries is right."""
    known = vocabulary.key(key)
    right = known.replaced if known is not None else vocabulary.near(key)
    if right and not (census.knows(key) and census.carries(key)) and (known is None or census.nodes):
        problem = "is an older name, which no Node carries." if known is not None else "is no label of Nodes."
        yield f"{key} {problem}", f"Write {right}."


def _older(key: str, census: Census) -> Iterator[_Fault]:
    """The fault that a key is the older name of one that Nodes carry as well."""
    right = vocabulary.twin(key) if key.startswith(IB) else ""
    if right and census.knows(right) and census.carries(key) and census.carries(right):
        same = census.values(key) == census.values(right)
        yield f"{key} is the older name.", f"Write {right}{'' if same else f' with {FLAVOR}=infiniband'}."


def _by_nodes(requirement: SelectorRequirement, census: Census) -> Iterator[_Fault]:
    """The fault that no Node meets a requirement; none without Nodes."""
    key = requirement.key
    if requirement.operator not in _POSITIVE or not census.knows(key) or census.meets(requirement):
        return
    # A label of another key may come to Nodes later.
    if not (vocabulary.key(key) or (vocabulary.belongs(key) and key.partition("/")[0] not in _SHARED)):
        return
    twin = vocabulary.twin(key)
    if not census.carries(key):
        remedy = _instead(key, census)
    elif twin and census.meets(SelectorRequirement(twin, requirement.operator, requirement.values)):
        remedy = f"Write {twin}, which Nodes carry."
    else:
        remedy = f"Nodes have {listed(census.values(key))}."
    yield f"{_called(requirement)} is carried by no Node.", remedy


def _instead(key: str, census: Census) -> str:
    if key == FLAVOR and census.carries(IB_FABRIC):
        return f"Write {IB_FABRIC} with the operator Exists."
    short, places = key.rpartition("/")[2], census.places
    tier = next((keys for keys in TIERS if key in keys), ())
    same = (place for place in places if place.rpartition("/")[2] == short)
    right = next((other for other in (vocabulary.twin(key), *tier, *same) if other and census.carries(other)), "")
    if right:
        return f"Write {right}, which Nodes carry."
    return f"Nodes carry {listed(places, 2)}." if places else "Leave it out: Nodes carry no label of a network."


def _place(key: Key, census: Census) -> str:
    """The place to name instead of what a label tells, under the name that Nodes carry."""
    other = vocabulary.twin(key.instead)
    return f"Write {other if other and census.carries(other) and not census.carries(key.instead) else key.instead}."


def _by_key(grouping: _Grouping, census: Census, allowed: Census | None) -> Iterator[_Fault]:
    """The faults of a topology key. allowed: of the Nodes that the Pods may run on; None if that is not known."""
    key = grouping.key
    known = vocabulary.key(key)
    yield from _misspelt(key, census)
    if known is not None and known.sort == "measure":
        yield f"{key} {vocabulary.no_place(key)}.", _place(known, census)
    if not census.knows(key) or not (known is not None or vocabulary.belongs(key) or key in SHORT):
        return
    if not census.carries(key):
        waits = grouping.is_required and grouping.effect != "apart"
        effect = "so the Pods wait for ever" if waits else f"so it {_EFFECTS[grouping.effect]}"
        right = SHORT.get(key, "")
        remedy = f"Write {right}." if right and census.carries(right) else _instead(key, census)
        yield f"{key} is carried by no Node, {effect}.", remedy
    if allowed is not None and allowed.nodes:
        domains, count = allowed.values(key), len(allowed.nodes)
        if not domains:
            which = f"carried by none of the {count} Nodes" if count > 1 else "not carried by the one Node"
            yield f"{key} is {which} that the Pods may run on.", _instead(key, allowed)
        is_strict = grouping.effect == "together" and grouping.is_required and grouping.is_own and key != HOSTNAME
        if is_strict and count > 1 and max(domains.values()) == 1:
            wider = {wide: allowed.values(wide) for wide in allowed.places}
            fits = {
                w: len(held) for w, held in wider.items() if 0 < len(held) < len(domains) and max(held.values()) > 1
            }
            remedy = f"Write {max(fits, key=fits.__getitem__)}." if fits else "Write a wider one."
            yield f"{key} has one Node in each domain here, so all Pods have to fit on one Node.", remedy
    yield from _older(key, census)


# The rule ------------------------------------------------------------------------------------------------------------


def reads(rows: Iterable[Workload]) -> frozenset[str]:
    """The paths that the rule reads in objects of these kinds."""
    fields = ("metadata.labels", *(f"spec.{field}" for field in FIELDS))
    return frozenset(
        render((*template, *row.shape.place(parse(field))))
        for row in rows for template in row.templates for field in fields
    )  # fmt: skip


class NodeSelectors:
    """The rule. organization: the id of the organization whose cluster it is; empty if not configured.

    explained: keys whose values another policy explains.
    """

    def __init__(
        self, workloads: Mapping[tuple[str, str], Workload], organization: str, explained: frozenset[str] = frozenset()
    ) -> None:
        self._workloads = workloads
        self._organization = organization
        self._explained = explained
        self._census = Census(())

    def validate(self, request: AdmissionRequest, facts: Facts) -> Sequence[Violation]:
        """A warning for each fault in what is new."""
        obj, row = request.object, self._workloads.get(request.kind.group_kind)
        if obj is None or row is None or request.sub_resource:
            return ()
        if row.templates == ((),) and not _selects(obj):  # nearly every Pod
            return ()
        if is_being_deleted(obj) or is_owned(obj):
            return ()
        templates = []
        for location, template in row.pods(obj):
            old = request.old_object
            if not _selects(template) or (
                old is not None and _is_same(template, row.shape.view(lookup(old, location)))
            ):
                continue
            asked = _Selection(template)
            if any(map(concerns, (*asked.keys, *(grouping.key for grouping in asked.groupings)))):
                templates.append((location, asked))
        if not templates:
            return ()
        self._census = self._census.renewed(facts.nodes(), facts.nodes_to_come())
        violations: list[Violation] = []
        for location, asked in templates:
            organizations: tuple[str, ...] = ()
            if RESERVED in asked.keys:  # as configured and as the Namespace says, only looked up where it matters
                namespace = request.scope_namespace
                own = facts.namespace_labels(namespace).get(CONTROL_PLANE_LABEL, "") if namespace else ""
                organizations = tuple(dict.fromkeys(name for name in (self._organization, own) if name))
            for field, (problem, remedy) in self._faults(asked, organizations):
                path = render((*location, *row.shape.spec, *field))
                # All of it is the problem: a key that is shortened, as values are, would not be found again.
                violations.append(Violation(RULE, path, "", problem, SUMMARY, remedy))
        return list(dict.fromkeys(violations))

    def _faults(self, asked: _Selection, organizations: tuple[str, ...]) -> list[tuple[tuple[str, ...], _Fault]]:
        census = self._census
        of_selector = (self._fault(one, asked.selector, organizations) for one in asked.selector)
        faults: list[tuple[tuple[str, ...], _Fault]] = [(("nodeSelector",), fault) for fault in of_selector if fault]
        for terms in (asked.required, asked.preferred):
            of_terms = self._of_terms(terms, asked.selector, organizations)
            faults += ((("affinity", "nodeAffinity"), fault) for fault in of_terms)
        allowed = _allowed(asked, census)
        for grouping in asked.groupings:
            if concerns(grouping.key) and (fault := next(_by_key(grouping, census, allowed), None)):
                faults.append((grouping.path, fault))
        if allowed is not None and not allowed.nodes and not faults:
            faults += (((), fault) for fault in _together(asked, census))
        return faults

    def _of_terms(
        self, terms: Sequence[Term | None], selector: Term, organizations: tuple[str, ...]
    ) -> Iterator[_Fault]:
        """The faults of terms of which a Node has to meet one: that no Node meets a term counts if it is so for all."""
        absent: list[list[_Fault]] = []
        for term in terms:
            around, own = (*(term or ()), *selector), [one for one in term or () if self._is_judged(one)]
            faults = [f for one in own if (f := self._fault(one, around, organizations, of_nodes=False))]
            yield from faults
            absent.append([] if faults else [f for one in own for f in _by_nodes(one, self._census)])
        if all(absent):
            yield from (faults[0] for faults in absent)

    def _fault(
        self, requirement: SelectorRequirement, around: Term, organizations: tuple[str, ...], *, of_nodes: bool = True
    ) -> _Fault | None:
        """The first fault of what a Node has to meet together with what stands around it."""
        if not self._is_judged(requirement):
            return None
        of_all = _by_nodes(requirement, self._census) if of_nodes else ()
        meanings = _by_meaning(requirement, around, self._census, organizations)
        return next(chain(meanings, of_all, _older(requirement.key, self._census)), None)

    def _is_judged(self, requirement: SelectorRequirement) -> bool:
        """Whether nobody else tells of a fault, as nobody does of an organization that only the configuration knows."""
        key = requirement.key
        return concerns(key) and not (key in self._explained and (key != RESERVED or _is_of_nobody(requirement)))


def _selects(template: object) -> bool:
    spec = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict):
        return False
    selector, affinity, spread = FIELDS
    return bool(spec.get(selector) or spec.get(affinity) or spec.get(spread))  # any() takes three times as long


def _is_same(template: object, before: object) -> bool:
    now, old = mapping(template, "spec"), mapping(before, "spec")
    return bool(old) and all(now.get(field) == old.get(field) for field in FIELDS)


def _allowed(asked: _Selection, census: Census) -> Census | None:
    """The census of the Nodes that meet everything; None if that cannot be explained, or would take long."""
    terms, nodes = asked.required, census.nodes
    is_asked = asked.groupings or len(asked.selector) + sum(len(term or ()) for term in terms) > 1
    size = sum(1 + len(requirement.values) for term in (asked.selector, *terms) for requirement in term or ())
    if not (nodes and is_asked) or None in terms or size * len(nodes) > MOST_COMPARED:
        return None
    return census.allowed(asked.selector, tuple(term for term in terms if term is not None))


def _together(asked: _Selection, census: Census) -> Iterator[_Fault]:
    """The fault that no Node has all that is required, though there is one for each part of it."""
    terms = [term or () for term in asked.required]
    possible = [term for term in terms if any(_meets_all(term, node.labels) for node in census.nodes)]
    if not possible and len(terms) == 1:
        possible = terms
    requirements = [*asked.selector, *(possible[0] if len(possible) == 1 else ())]
    if any(census.comes(requirement) or not census.meets(requirement) for requirement in requirements):
        return
    for pair in ((other, one) for index, one in enumerate(requirements) for other in requirements[:index]):
        if any(concerns(one.key) for one in pair) and not any(_meets_all(pair, node.labels) for node in census.nodes):
            yield f"no Node has both {' and '.join(map(_called, pair))}.", "Change one of them."
            return
    if asked.selector and len(possible) > 1:
        yield "no Node has what nodeSelector and node affinity require together.", "Change one of them."
