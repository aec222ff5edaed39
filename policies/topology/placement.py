"""Placements: the annotations that ask for them, what these say, and the node selector terms that this means.

An annotation names a level, optionally its domain, and optionally domains of levels above it: `superpod`,
`backend.coreweave.cloud/superpod`, `superpod=3`, `superpod in (3,4)`, `fabric=f1,superpod=3,rack=12`.

Requirements in a term are ANDed, terms are ORed. A term without expressions matches no Node. The scheduler adds up the
weights of the preferred terms that a Node meets. Malformed affinity is left to the API server, which refuses it.
Sources: NVIDIA's documentation of topology-aware scheduling in Run:ai; "Pod Scheduling Readiness" and "Node affinity
weight" in the Kubernetes documentation; NodeSelector and NodeSelectorTerm in the Kubernetes API reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policies import podspec
from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement, Term
from policies.engine.request import JsonObject
from policies.engine.violation import quote
from policies.kubernetes.spelling import closest
from policies.podspec import TERMS, NodeDemand
from policies.topology.topology import Level, Topology, label_value, no_level, value_problem
from policies.vocabulary import FLAVOR, IB_FABRIC, TOPOGRAPH, equivalent

TOPOLOGY: Final = "kai.scheduler/topology"
REQUIRED: Final = "kai.scheduler/topology-required-placement"
PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
ANNOTATIONS: Final = (TOPOLOGY, REQUIRED, PREFERRED)
PREFIX: Final = "kai.scheduler/"
MISSPELT: Final = "kai-scheduler/"
WORDS: Final = ("top", "plac")
"""A key of PREFIX with one of these parts is one of the annotations, or a misspelt one. Of MISSPELT all are."""

GATE: Final = "cks-admission.dev/topology"
"""The scheduling gate that admission adds to a Pod with a placement, and that the placer removes.

Behind it the Pods of a gang wait until one domain is chosen for all of them."""

PLACEMENT: Final = "cks-admission.dev/placement"
"""The annotation of an opened Pod that says in a sentence, for people, where it belongs and with whom."""

WAY: Final = "cks-admission.dev/placement-way"
"""The annotation of a template, and so of its Pods, that asks for another way than the gate."""

AFFINITY: Final = "affinity"
"""The value of WAY: Pod affinity of the gang to itself, without a gate."""

GANG: Final = "cks-admission.dev/gang"
"""The label of a Pod that Pod affinity keeps with the others that have the same value."""


FORMS = "Write LEVEL, LEVEL=DOMAIN or LEVEL in (DOMAIN, …); domains above it may follow."
# Far more than anybody needs: 16 levels, each with the long names of many switches.
LONGEST = 16_384
_PART = re.compile(r"\s*(?:[^,(]|\([^)]*\))*")
_REQUIREMENT = re.compile(
    r"(?P<name>[^\s=!(),<>]+)(?:\s*==?\s*(?P<value>[^\s=,()]*)|\s+in\s*\((?P<values>[^()]*)\))?\Z"
)


class PlacementError(Exception):
    """A placement is invalid. problem: continues a sentence that starts with the text. remedy: how to fix it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy


class Domain(Struct, frozen=True):
    """Domains of a level, by the values of their Nodes' label; without values, all domains of the level."""

    level: Level
    values: tuple[str, ...] = ()


class Placement(Struct, frozen=True):
    """The domains of a placement, farthest first. The last one is that of the level itself."""

    domains: tuple[Domain, ...]

    @property
    def level(self) -> Level:
        """The level of the placement, which is the nearest of its domains."""
        return self.domains[-1].level

    @property
    def named(self) -> tuple[Domain, ...]:
        """The domains that have a name."""
        return tuple(domain for domain in self.domains if domain.values)

    @property
    def is_open(self) -> bool:
        """Whether a domain of the level is still to be chosen."""
        return not self.domains[-1].values

    def called(self, topology: Topology) -> str:
        """The placement as people write it, with short names: `fabric=f1,superpod=3`."""
        texts = []
        for domain in self.domains:
            values = f" in ({', '.join(domain.values)})" if len(domain.values) > 1 else f"={''.join(domain.values)}"
            texts.append(topology.called(domain.level) + (values if domain.values else ""))
        return ",".join(texts)


def parse(text: str, topology: Topology) -> Placement:
    """The placement in a text. Raises PlacementError."""
    if not text.strip():
        raise PlacementError("is empty.", _choose(topology))
    if len(text) > LONGEST:
        raise PlacementError(f"has {len(text)} characters, and a placement has {LONGEST} at most.", FORMS)
    domains: dict[str, Domain] = {}
    position = 0
    while position <= len(text):
        match = _PART.match(text, position)
        end = match.end() if match else position
        if end < len(text) and text[end] != ",":
            raise PlacementError("has a parenthesis that does not close.", FORMS)
        domain = _domain(text[position:end].strip(), topology, text)
        if before := domains.get(domain.level.keys[0]):
            raise PlacementError(
                f"names the level {topology.called(before.level)} twice.", "Name several domains as LEVEL in (A, B)."
            )
        domains[domain.level.keys[0]] = domain
        position = end + 1
    placement = Placement(tuple(sorted(domains.values(), key=lambda domain: topology.position(domain.level))))
    for domain in placement.domains[:-1]:
        if not domain.values:
            name = topology.called(domain.level)
            raise PlacementError(
                f"names {name}, a level above {topology.called(placement.level)}, without a domain.",
                f"Name the domain, as {name}=DOMAIN, or leave it out.",
            )
    return placement


def _domain(part: str, topology: Topology, text: str) -> Domain:
    """The domain in one part of the text. Raises PlacementError, also for a value that no Node's label can have."""
    match = _REQUIREMENT.match(part)
    if match is None:
        raise PlacementError(f"has a part that cannot be read, {quote(part)}." if part else "has an empty part.", FORMS)
    level = _level(match["name"], topology, text)
    written = match["values"] if match["value"] is None else match["value"]
    if written is None:
        return Domain(level)
    name, values = topology.called(level), tuple(dict.fromkeys(value.strip() for value in written.split(",")))
    is_shortened = level.shortened or all(key.startswith(TOPOGRAPH) for key in level.keys)
    for value in values:
        if not value:
            raise PlacementError(f"names an empty domain of {name}.", f"Name the domain, as {name}=DOMAIN.")
        if why := value_problem(label_value(level, level.keys[0], value) if is_shortened else value):
            raise PlacementError(
                f"names a domain of {name}, {quote(value)}, that {why}.", "Copy the value of the Nodes' label."
            )
    return Domain(level, values)


def _level(name: str, topology: Topology, text: str) -> Level:
    """The level with a name. Raises PlacementError."""
    level = topology.find(name)
    if level is not None:
        return level
    sharing = [candidate.name for candidate in topology.levels if candidate.short == name]
    if len(sharing) > 1:
        keys = " and ".join(sharing)
        raise PlacementError(f"names {name}, which stands for several levels.", f"Write the whole key: {keys}.")
    # The message starts with the text, so it does not repeat a name that is the whole text.
    whose = "" if text == name else f"names {quote(name)}, which "
    prefixes = dict.fromkeys(key.rpartition("/")[0] for known in topology.levels for key in known.keys)
    for key in (name, *(f"{prefix}/{name}" for prefix in prefixes)):
        if why := no_level(key):
            # The name is spelled correctly, so a similar name would be no help.
            raise PlacementError(f"{whose}{why}.", _choose(topology))
    problem = f"{whose}is no level of topology {quote(topology.name)}."
    raise PlacementError(problem, _choose(topology, closest(name, topology.names)))


def _choose(topology: Topology, near: str = "") -> str:
    return f"  {topology.in_order}\n{f'Did you mean {near}?' if near else 'Name one of them.'}"


HIGHEST_WEIGHT = 100
_INFINIBAND = {FLAVOR: "infiniband"}


def alternatives(domains: Sequence[Domain], requirement: LabelSelector, *, disjoint: bool = False) -> tuple[Term, ...]:
    """The terms of which a Node meets one if it is in the domains and meets a topology's node requirement.

    There is one term for each way in which Nodes may be labelled; without terms, every Node qualifies. disjoint:
    whether a Node may meet only one of them, because the weights of preferred terms add up.
    """
    old = old_names(requirement)
    ways = 2 if old != requirement or any(len(domain.level.keys) > 1 for domain in domains) else 1
    newer, *older = (_term(domains, way, disjoint=disjoint) for way in range(ways))
    # The requirement with the newer names of labels; its exclusions also apply to the older names.
    own: list[SelectorRequirement] = []
    for one in requirement.requirements:
        own += _under(one, one.key)
        if one.key == FLAVOR and one.operator == "NotIn" and not one.matches(_INFINIBAND):
            own.append(SelectorRequirement(IB_FABRIC, "DoesNotExist"))
    terms = [(*newer, *own)]
    if older and old is not None:
        terms.append((*older[0], *old.requirements))
    # That a label exists need not be said where another requirement says its value.
    named = [{requirement.key for requirement in term if requirement.operator == "In"} for term in terms]
    short = [
        tuple(one for one in dict.fromkeys(term) if one.operator != "Exists" or one.key not in keys)
        for term, keys in zip(terms, named, strict=True)
    ]
    return tuple(_without_redundant([term for term in short if term]))


def preferred_terms(topology: Topology, required: Placement | None, preferred: Placement | None) -> list[JsonObject]:
    """PreferredSchedulingTerms for named domains, nearest first, each within those above it.

    Those of the required level or above are left out, as all of its Nodes are in them. A Node in the nearest domain
    meets all of them and gets a score of 100. A domain has a term for each way of labelling Nodes; no Node meets two.
    """
    domains = () if preferred is None else preferred.named
    floor = -1 if required is None else topology.position(required.level)
    counts = [count for count, domain in enumerate(domains, start=1) if topology.position(domain.level) > floor]
    preferences = []
    for count, weight in zip(reversed(counts), weights(len(counts)), strict=True):
        terms = alternatives(domains[:count], EVERYTHING, disjoint=True)
        if old_names(topology.requirement) is None:
            terms = terms[:1]
        if weight:
            preferences += [{"weight": weight, "preference": {"matchExpressions": to_json(term)}} for term in terms]
    return preferences


def weights(steps: int) -> Sequence[int]:
    """The weights of steps, nearest first: proportional to n … 1, rounded down. The nearest gets the remainder."""
    total = steps * (steps + 1) // 2
    shares = [HIGHEST_WEIGHT * share // total for share in range(steps, 0, -1)]
    return [shares[0] + HIGHEST_WEIGHT - sum(shares), *shares[1:]] if shares else []


def old_names(selector: LabelSelector) -> LabelSelector | None:
    """A selector with the older names of labels; None if no Node with these names can match.

    An InfiniBand Node with the older names has a fabric label, but no flavor label.
    """
    requirements = []
    for requirement in selector.requirements:
        if requirement.key == FLAVOR:
            if not requirement.matches(_INFINIBAND):
                return None
            requirements.append(SelectorRequirement(IB_FABRIC, "Exists"))
        else:
            requirements += _under(requirement, equivalent(requirement.key)[-1])
    return LabelSelector(tuple(requirements))


def _under(requirement: SelectorRequirement, key: str) -> list[SelectorRequirement]:
    """A requirement with another key. An exclusion is repeated for every equivalent key instead."""
    keys = equivalent(requirement.key) if requirement.operator in ("NotIn", "DoesNotExist") else (key,)
    return [replace(requirement, key=key) for key in keys]


def combined(written: Any, terms: Sequence[Term]) -> list[Any]:
    """A user's term combined with each alternative. A term that says one already, or matches no Node, stays unchanged.

    `matchFields` and all other fields are kept.
    """
    own = written if isinstance(written, dict) else {}
    expressions, fields = own.get("matchExpressions") or [], own.get("matchFields") or []
    is_usable = isinstance(expressions, list) and isinstance(fields, list) and (expressions or fields)
    missing = [tuple(r for r in term if r.to_json() not in expressions) for term in terms] if is_usable else []
    if not missing or not all(missing):
        return [written]
    return [{**own, "matchExpressions": [*expressions, *to_json(extra)]} for extra in _without_redundant(missing)]


def meets(labels: Mapping[str, str], terms: Sequence[Term]) -> bool:
    """Whether labels meet one of the terms, or there are no terms."""
    return not terms or any(all(requirement.matches(labels) for requirement in term) for term in terms)


def clash(demand: NodeDemand, terms: Sequence[Term]) -> bool:
    """Whether no Node can meet what a user demands, and one of `terms`."""
    own = [(*demand.selector, *(written or ())) for written in demand.terms or ((),)]
    return bool(terms) and all(
        any(mine.excludes(one) for mine in written for one in term) for written in own for term in terms
    )


def to_json(term: Term) -> list[JsonObject]:
    """The requirements in the API's form."""
    return [requirement.to_json() for requirement in term]


def _term(domains: Sequence[Domain], way: int, *, disjoint: bool) -> Term:
    requirements: list[SelectorRequirement] = []
    absent = ""
    for domain in domains:
        keys = domain.level.keys
        key, newest = keys[min(way, len(keys) - 1)], keys[0]
        values = tuple(dict.fromkeys(label_value(domain.level, key, value) for value in domain.values))
        requirements.append(SelectorRequirement(key, "In", values) if values else SelectorRequirement(key, "Exists"))
        if key != newest:
            absent = newest
            requirements += [SelectorRequirement(newest, "DoesNotExist")] if domain.level.distinct else []
    if disjoint and absent:
        requirements.append(SelectorRequirement(absent, "DoesNotExist"))
    return tuple(requirements)


def _without_redundant(missing: Sequence[Term]) -> list[Term]:
    """The terms without those that contain all requirements of another one."""
    kept = list(missing)
    for index in reversed(range(len(missing))):
        if any(set(other) <= set(missing[index]) for other in (*kept[:index], *kept[index + 1 :])):
            del kept[index]
    return kept


def with_terms(affinity: Any, required: Sequence[Term], preferred: Sequence[JsonObject]) -> Any:
    """The affinity with alternatives of which a Node must meet one, and preferences; each only where it is missing."""

    def with_alternatives(node: JsonObject) -> None:
        holder = node.get(podspec.REQUIRED)
        if required and holder is None:
            node[podspec.REQUIRED] = {TERMS: [{"matchExpressions": to_json(term)} for term in required]}
        elif required and isinstance(holder, dict) and isinstance(holder.get(TERMS), list):
            node[podspec.REQUIRED] = {
                **holder,
                TERMS: [made for own in holder[TERMS] for made in combined(own, required)],
            }

    return _changed(affinity, "nodeAffinity", with_alternatives, {podspec.PREFERRED: preferred})


def with_peers(affinity: Any, required: Sequence[JsonObject], preferred: Sequence[JsonObject]) -> Any:
    """The affinity with terms of Pod affinity, each only where it is missing."""
    return _changed(affinity, "podAffinity", lambda _: None, {podspec.REQUIRED: required, podspec.PREFERRED: preferred})


def _changed(
    affinity: Any, name: str, change: Callable[[JsonObject], None], more: Mapping[str, Sequence[JsonObject]]
) -> Any:
    """The affinity with a part of it changed, and with further terms in its lists; one that is malformed as it is."""
    part = affinity.get(name) if isinstance(affinity, dict) else affinity
    if not isinstance(part, dict | None):
        return affinity
    changed = dict(part or {})
    change(changed)
    for field, terms in more.items():
        own = changed.get(field) or []
        if isinstance(own, list) and (missing := [term for term in terms if term not in own]):
            changed[field] = [*own, *missing]
    return affinity if changed == (part or {}) else {**(affinity or {}), name: changed}
