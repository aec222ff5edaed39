"""Node selector terms for the placements of a template, and `spec.affinity`, to which they are added.

Requirements in a term are ANDed, terms are ORed. A term without expressions matches no Node. The scheduler adds up the
weights of the preferred terms that a Node meets. Malformed affinity is left to the API server, which refuses it.
Sources: NodeSelector and NodeSelectorTerm in the Kubernetes API reference; "Node affinity weight" in the Kubernetes
documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from policies.engine.match import EVERYTHING, LabelSelector, SelectorRequirement, Term
from policies.engine.request import JsonObject
from policies.podspec import PREFERRED, REQUIRED, TERMS, NodeDemand
from policies.topology.placement import Domain, Placement
from policies.topology.topology import Topology, label_value
from policies.vocabulary import FLAVOR, IB_FABRIC, equivalent

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
    terms = [(*newer, *_excluding(requirement))]
    if older and old is not None:
        terms.append((*older[0], *old.requirements))
    return tuple(_without_redundant([_without_existence(term) for term in terms if term]))


def required_terms(topology: Topology, required: Placement | None) -> tuple[Term, ...]:
    """The terms of which a Node must meet one for a required placement and what its topology requires."""
    return alternatives(() if required is None else required.domains, topology.requirement)


def preferred_terms(topology: Topology, required: Placement | None, preferred: Placement | None) -> list[JsonObject]:
    """PreferredSchedulingTerms for named domains, nearest first, each within those above it.

    Those of the required level or above are left out, as all of its Nodes are in them. A Node in the nearest domain
    meets all of them and gets a score of 100. A domain has a term for each way of labelling Nodes; no Node meets two.
    """
    domains = () if preferred is None else tuple(domain for domain in preferred.domains if domain.values)
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


def _excluding(selector: LabelSelector) -> Iterator[SelectorRequirement]:
    """A selector with the newer names of labels. Its exclusions also apply to the older names."""
    for requirement in selector.requirements:
        yield from _under(requirement, requirement.key)
        if requirement.key == FLAVOR and requirement.operator == "NotIn" and not requirement.matches(_INFINIBAND):
            yield SelectorRequirement(IB_FABRIC, "DoesNotExist")


def _under(requirement: SelectorRequirement, key: str) -> list[SelectorRequirement]:
    """A requirement with another key. An exclusion is repeated for every equivalent key instead."""
    keys = equivalent(requirement.key) if requirement.operator in ("NotIn", "DoesNotExist") else (key,)
    return [replace(requirement, key=key) for key in keys]


def _without_existence(term: Term) -> Term:
    """The term without requirements that a label exists of which another says the value."""
    named = {requirement.key for requirement in term if requirement.operator == "In"}
    return tuple(r for r in dict.fromkeys(term) if r.operator != "Exists" or r.key not in named)


def combined(written: Any, terms: Sequence[Term]) -> list[Any]:
    """A user's term combined with each alternative. A term that says one already, or matches no Node, stays unchanged.

    `matchFields` and all other fields are kept.
    """
    expressions, fields = _parts(written)
    if not (expressions or fields):
        return [written]
    missing = [tuple(r for r in term if r.to_json() not in expressions) for term in terms]
    if not terms or not all(missing):
        return [written]
    return [{**written, "matchExpressions": [*expressions, *to_json(extra)]} for extra in _without_redundant(missing)]


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


def _parts(written: Any) -> tuple[list[Any], list[Any]]:
    """The expressions and fields of a user's term; empty if it is malformed."""
    if not isinstance(written, dict):
        return [], []
    expressions, fields = written.get("matchExpressions") or [], written.get("matchFields") or []
    return (expressions, fields) if isinstance(expressions, list) and isinstance(fields, list) else ([], [])


def _without_redundant(missing: Sequence[Term]) -> list[Term]:
    """The terms without those that contain all requirements of another one."""
    kept = list(missing)
    for index in reversed(range(len(missing))):
        if any(set(other) <= set(missing[index]) for other in (*kept[:index], *kept[index + 1 :])):
            del kept[index]
    return kept


NODE_AFFINITY: Final = "nodeAffinity"
POD_AFFINITY: Final = "podAffinity"


def with_terms(affinity: Any, required: Sequence[Term], preferred: Sequence[JsonObject]) -> Any:
    """The affinity with alternatives of which a Node must meet one, and preferences; each only where it is missing."""
    node = _part(affinity, NODE_AFFINITY)
    if node is None:
        return affinity
    changed = dict(node)
    holder = node.get(REQUIRED)
    if required and holder is None:
        changed[REQUIRED] = {TERMS: [{"matchExpressions": to_json(term)} for term in required]}
    elif required and isinstance(holder, dict) and isinstance(holder.get(TERMS), list):
        changed[REQUIRED] = {**holder, TERMS: [made for own in holder[TERMS] for made in combined(own, required)]}
    _extend(changed, PREFERRED, preferred)
    return affinity if changed == node else {**(affinity or {}), NODE_AFFINITY: changed}


def with_peers(affinity: Any, required: Sequence[JsonObject], preferred: Sequence[JsonObject]) -> Any:
    """The affinity with terms of Pod affinity, each only where it is missing."""
    pods = _part(affinity, POD_AFFINITY)
    if pods is None:
        return affinity
    changed = dict(pods)
    _extend(changed, REQUIRED, required)
    _extend(changed, PREFERRED, preferred)
    return affinity if changed == pods else {**(affinity or {}), POD_AFFINITY: changed}


def _extend(holder: JsonObject, field: str, terms: Sequence[JsonObject]) -> None:
    own = holder.get(field) or []
    more = [term for term in terms if term not in own] if isinstance(own, list) else []
    if more:
        holder[field] = [*own, *more]


def _part(affinity: Any, name: str) -> JsonObject | None:
    """A part of the affinity; empty if absent, None if malformed."""
    part = affinity.get(name) if isinstance(affinity, dict) else affinity
    return {} if part is None else part if isinstance(part, dict) else None
