"""What became of a pod template's topology annotations, and why: as values, before they are put into words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from policies.engine.match import EVERYTHING
from policies.engine.request import JsonObject
from policies.objects.fieldpath import render
from policies.objects.nodeaffinity import allows
from policies.topology.affinity import NOTHING, RecordEntry, node_affinity
from policies.topology.annotation import ANNOTATIONS
from policies.topology.constraint import Constraint
from policies.topology.nodes.machine import Machine
from policies.topology.nodes.tree import Count, Path, Reservation, count, natural, path
from policies.topology.placement import Placement
from policies.topology.term import old_names, required_terms
from policies.topology.topology import Level, Topology
from policies.topology.translation import Translation
from policies.vocabulary.keys import IB_FABRIC
from webhook.cli.output import counted
from webhook.cli.topology import requirement


class AddedRequirement(Struct, frozen=True):
    """A requirement of an added term. own: whether the user wrote it."""

    requirement: str
    own: bool


class PreferredTerm(Struct, frozen=True):
    """A preferred term and its weight."""

    weight: int
    term: str


class Landing(Struct, frozen=True):
    """On how many Nodes the Pods may land, as far as labels decide. domains: these by the placement's level."""

    nodes: int
    all: int
    level: Level | None = None
    domains: tuple[tuple[Path, Count], ...] = ()


class Explanation(Struct, frozen=True):
    """Of one template. annotations: key, value and path of each. required: alternatives.

    nothing: why nothing is added; empty where something is.
    """

    path: str
    annotations: tuple[tuple[str, str, str], ...]
    topology: Topology | None
    placements: tuple[tuple[str, Placement], ...]
    required: tuple[tuple[AddedRequirement, ...], ...]
    preferred: tuple[PreferredTerm, ...]
    nothing: str
    reasons: tuple[str, ...]
    landing: Landing | None


def explain(
    constraint: Constraint,
    translation: Translation,
    machines: Sequence[Machine] | None,
    reservations: Sequence[Reservation] = (),
) -> Explanation:
    """The explanation of a template. machines: None where Nodes are not known. reservations: on them."""
    entry = translation.entry
    nothing = "" if entry != NOTHING else _why_nothing(constraint, translation)
    placements = [("required", constraint.required), ("preferred", constraint.preferred)]
    return Explanation(
        constraint.template.path,
        tuple(_annotations(constraint)),
        constraint.topology,
        tuple((name, placement) for name, placement in placements if placement is not None),
        tuple(_alternatives(entry)),
        tuple(PreferredTerm(preference["weight"], _joined(preference["preference"])) for preference in entry.preferred),
        nothing,
        () if nothing else tuple(_reasons(constraint, translation)),
        None if machines is None else _landing(constraint, translation, machines, reservations),
    )


def _annotations(constraint: Constraint) -> Iterator[tuple[str, str, str]]:
    for annotation, key in zip(constraint.annotations.all, ANNOTATIONS, strict=True):
        if annotation is not None:
            path = render((*annotation.holder, "metadata", "annotations")) if annotation.key else annotation.path
            yield key, str(annotation.value), path


def _alternatives(entry: RecordEntry) -> Iterator[tuple[AddedRequirement, ...]]:
    for replacement in entry.required:
        own = _expressions(replacement.origin)
        for term in replacement.terms:
            yield tuple(AddedRequirement(requirement.requirement(e), e in own) for e in _expressions(term))


def _expressions(term: Any) -> list[Any]:
    return [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())] if isinstance(term, dict) else []


def _joined(term: JsonObject) -> str:
    return " and ".join(map(requirement.requirement, _expressions(term)))


def _why_nothing(constraint: Constraint, translation: Translation) -> str:
    if not constraint.annotations.anything:
        return "nothing is asked for"
    if not constraint.is_usable:
        return "what is asked for cannot be used"
    if constraint.obstacle:
        return constraint.obstacle
    if constraint.required is None and constraint.preferred is None:
        return "a topology alone places nothing"
    if node_affinity(translation.affinity) is None:
        return "the node affinity that is there is malformed, which the API server refuses"
    return "the node affinity that is there requires as much already, or matches no Node"


def _reasons(constraint: Constraint, translation: Translation) -> Iterator[str]:
    topology = constraint.topology
    if topology is None:
        return
    if not translation.changes:
        yield "it stands there already: an earlier translation is on record"
    if topology.requirement != EVERYTHING:
        yield f'the topology "{topology.name}" is for Nodes with {requirement.selector(topology.requirement)} only'
    if translation.entry.domain:
        yield "this domain was chosen for all Pods of the gang; topology place says what else was considered"
    else:
        yield from _why_alternatives(constraint, topology)
    yield from _why_combined(translation)
    yield from _why_weights(constraint, translation)


def _why_alternatives(constraint: Constraint, topology: Topology) -> Iterator[str]:
    """Why there are two terms, or one where there could be two."""
    domains = [d for placement in (constraint.required, constraint.preferred) if placement for d in placement.domains]
    older = old_names(topology.requirement)
    renamed = [d.level for d in domains if len(d.level.keys) > 1 and not d.level.distinct]
    unions = [d.level for d in domains if d.level.distinct]
    is_double = len(required_terms(topology, constraint.required, constraint.preferred)) > 1
    keys = ", ".join(dict.fromkeys(level.keys[-1] for level in renamed))
    if renamed and older is None:
        yield f"there is one alternative, since Nodes that carry {keys} only are InfiniBand Nodes"
    elif renamed:
        yield f"there are two alternatives, since older InfiniBand Nodes carry {keys} only"
    if is_double and older is not None and older != topology.requirement:
        yield f"older InfiniBand Nodes have no flavor; they are told by {IB_FABRIC}"
    for level in dict.fromkeys(unions):
        first, *others = level.keys
        yield f"{level.name} is {first}, and {' or '.join(others)} on Nodes without that"


def _why_combined(translation: Translation) -> Iterator[str]:
    combined = sum(replacement.origin is not None for replacement in translation.entry.required)
    if combined:
        terms = counted(combined, "term")
        yield f"each alternative is combined with {terms} of your own: a Node must meet both"


def _why_weights(constraint: Constraint, translation: Translation) -> Iterator[str]:
    steps = translation.entry.preferred
    if not steps or constraint.preferred is None:
        return
    if len({step["weight"] for step in steps}) > 1:
        yield "the weights add up to 100 on a Node in the nearest domain"
    expressions = [expression for step in steps for expression in _expressions(step["preference"])]
    if any(expression.get("operator") == "DoesNotExist" for expression in expressions):
        yield "an older label counts only where the newer one is absent, so that no Node counts twice"


def _landing(
    constraint: Constraint, translation: Translation, machines: Sequence[Machine], reservations: Sequence[Reservation]
) -> Landing:
    spec = {**constraint.template.spec, "affinity": translation.affinity}
    allowed = [machine for machine in machines if allows(spec, machine.node)]
    placement = constraint.required or constraint.preferred
    if placement is None or constraint.topology is None or constraint.obstacle or not constraint.is_usable:
        return Landing(len(allowed), len(machines))
    levels = (*constraint.topology.above(placement.level), placement.level)
    inside: dict[Path, list[Machine]] = {}
    for machine in allowed:
        inside.setdefault(path(levels, machine.node.labels), []).append(machine)
    ordered = sorted(inside.items(), key=lambda item: [natural(value) for _, value in item[0]])
    counts = tuple((around, count(those, reservations)) for around, those in ordered)
    return Landing(len(allowed), len(machines), placement.level, counts)
