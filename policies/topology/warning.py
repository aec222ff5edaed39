"""One-line warnings about placements that are valid, but may not do what their author intends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from policies.engine.facts import Node
from policies.engine.match import EVERYTHING
from policies.engine.request import AdmissionRequest, is_owned
from policies.engine.violation import Violation, quote, shortened
from policies.objects.fieldpath import render
from policies.objects.workload import Workload
from policies.topology.annotation import PREFERRED, REQUIRED, TOPOLOGY, Annotation, Schedulers, Template, strays
from policies.topology.catalog import Catalog
from policies.topology.constraint import Constraint
from policies.topology.gang.address import called, is_within
from policies.topology.gang.evidence import binding
from policies.topology.nodes.fabric import flaws
from policies.topology.nodes.obstacle import obstacles
from policies.topology.placement import Placement
from policies.topology.refusal import as_warning
from policies.topology.term import Term, alternatives, meets
from policies.topology.topology import Topology, level
from policies.vocabulary import keys
from policies.vocabulary.nvlink import NVL_DOMAIN

# Domains times Nodes. Beyond it nothing is said about the domains, which would take a second.
MOST_COMPARED = 1_000_000
_LEAFGROUP = level(keys.LEAFGROUP)
_FLAW = 80
_OTHERS = 100
_CHANGING = (
    "an NVL Domain is written as the cliques that there are now, which may change when a Node restarts: "
    "create the workload again then"
)
_SHORT_TOPOLOGY = TOPOLOGY.removeprefix("kai.scheduler/")


def warnings(
    constraint: Constraint, catalog: Catalog, schedulers: Schedulers, nodes: Sequence[Node]
) -> Iterator[Violation]:
    """The warnings about one template. nodes: those of the cluster; empty if they are not known."""
    topology, reader = constraint.topology, constraint.reader
    if topology is None:
        return
    for clash in catalog.clashes:
        if clash.first.name == topology.name:
            yield as_warning(
                f"topology {quote(topology.name)} has two definitions that differ: "
                f"{clash.first.source} counts, {clash.second.source} does not"
            )
    if not reader:
        yield from _about_effect(constraint, topology, schedulers)
    elif nodes and not topology.in_cluster:
        yield as_warning(
            f"topology {quote(topology.name)} is no object of the cluster, "
            f"and the scheduler knows only those ({reader})"
        )
    if nodes:
        yield from _about_nodes(constraint, topology, nodes)
    if not reader and any(NVL_DOMAIN in placement.level.keys for _, placement in constraint.placements):
        yield as_warning(_CHANGING)


def unapplied(constraint: Constraint, placement: str) -> Violation:
    """The warning that a required placement is not in the node affinity."""
    why = constraint.obstacle or "the Pods may run anywhere; create it again"
    path = constraint.template.path
    return as_warning(f"required {quote(placement)} is not in the node affinity: {why}{f' ({path})' if path else ''}")


def misspelt(request: AdmissionRequest, row: Workload) -> Iterator[Violation]:
    """Warnings about new keys that begin like the annotations and are none."""
    if request.sub_resource or is_owned(request.object):
        return  # nobody reads what a controller is told
    now = list(strays(row, request.object))
    before = frozenset(strays(row, request.old_object)) if now else frozenset()
    for location in now:
        if location not in before:
            field, key = str(location[-2]).removesuffix("s"), str(location[-1])
            right = next((one for one in (REQUIRED, PREFERRED) if one[len(TOPOLOGY) + 1 :][:4] in key), TOPOLOGY)
            yield as_warning(f"{field} {quote(key)} places nothing: write the annotation {right}")


def lost(template: Template, remedy: str, nodes: Sequence[Node]) -> Iterator[Violation]:
    """The warning about a template whose domain has no Node that takes Pods. nodes: empty if they are not known."""
    address = binding(template.entry, template.affinity) if nodes else ()
    if not address or any(is_within(address, node.labels) and not obstacles(node) for node in nodes):
        return
    yield as_warning(f"no Node of {called(address)} takes Pods now, where those of this placement must run: {remedy}")


def _about_effect(constraint: Constraint, topology: Topology, schedulers: Schedulers) -> Iterator[Violation]:
    """Warnings about placements that node affinity cannot fulfil, or not completely."""
    annotations, required = constraint.annotations, constraint.required
    if annotations.topology is not None and annotations.required is None and annotations.preferred is None:
        yield as_warning(
            f"{_SHORT_TOPOLOGY} alone places nothing: add a required or a preferred placement"
            f"{_where(annotations.topology)}"
        )
    if annotations.required is None or required is None or constraint.obstacle:
        return
    name, scheduler = topology.called(required.level), constraint.template.scheduler
    if schedulers.ignores_affinity(scheduler):
        yield as_warning(f"required {quote(name)} has no effect: the scheduler {scheduler} ignores node affinity")


def _about_nodes(constraint: Constraint, topology: Topology, nodes: Sequence[Node]) -> Iterator[Violation]:
    pool, requirement = topology.pool, topology.requirement
    if pool is not None and not any(pool.matches(node.labels) for node in nodes):
        yield as_warning(f"topology {quote(topology.name)}: its node pool has no Nodes now")
    if requirement != EVERYTHING and not _any_meets(alternatives((), requirement), nodes):
        listed = ", ".join(f"{r.key} {r.operator} {list(r.values)}" for r in requirement.requirements)
        yield as_warning(f"topology {quote(topology.name)}: no Node has what it requires, {listed}")
        return
    for annotation, placement in constraint.placements:
        if problem := _problem(placement, topology, nodes) or _ambiguity(placement, topology, nodes):
            kind = annotation.key.removeprefix(f"{TOPOLOGY}-").removesuffix("-placement") or "preferred"
            yield as_warning(f"{kind} {problem}{_where(annotation)}")
            return
    yield from _about_both(constraint, topology, nodes)
    for annotation, placement in constraint.placements:
        if problem := _flawed(placement, topology, nodes):
            kind = annotation.key.removeprefix(f"{TOPOLOGY}-").removesuffix("-placement") or "preferred"
            yield as_warning(f"{kind} {problem}{_where(annotation)}")
            return


def _about_both(constraint: Constraint, topology: Topology, nodes: Sequence[Node]) -> Iterator[Violation]:
    """The warning about a preferred domain that is in none of the required ones, as Nodes are now."""
    required, preferred = constraint.required, constraint.preferred
    if required is None or preferred is None or not (required.is_named and preferred.is_named):
        return
    domains = [domain for domain in (*required.domains, *preferred.domains) if domain.values]
    is_many = sum(len(domain.values) for domain in domains) * len(nodes) > MOST_COMPARED
    if not (is_many or _any_meets(alternatives(domains, topology.requirement), nodes)):
        inside = quote(required.called(topology))
        yield as_warning(f"preferred {quote(preferred.called(topology))}: no Node of the required {inside} is in it")


def _problem(placement: Placement, topology: Topology, nodes: Sequence[Node]) -> str:
    """The problem of a placement on these Nodes: they lack a level, or none is in the domains. Empty if it fits."""
    for domain in placement.domains:
        keys = domain.level.keys
        if not any(key in node.labels for node in nodes for key in keys):
            return f"{quote(topology.called(domain.level))}: no Node carries the label {' or '.join(keys)}"
    named = sum(len(domain.values) for domain in placement.domains)
    if (
        not named
        or named * len(nodes) > MOST_COMPARED
        or _any_meets(alternatives(placement.domains, topology.requirement), nodes)
    ):
        return ""
    keys = placement.level.keys
    around = alternatives(placement.domains[:-1], topology.requirement)
    values = {node.labels[key] for node in nodes if meets(node.labels, around) for key in keys if key in node.labels}
    there = f"; Nodes are in {_listed(values, ', ')}" if values else ""
    return f"{quote(placement.called(topology))}: no Node is in it{there}"


def _ambiguity(placement: Placement, topology: Topology, nodes: Sequence[Node]) -> str:
    """What is said of a domain that there is several times; empty if there is one of each.

    The levels above it in which they differ are those to add.
    """
    named = [domain for domain in placement.domains if domain.values]
    if not named or len(named[-1].values) * len(nodes) > MOST_COMPARED:
        return ""
    level, terms = named[-1].level, alternatives(named, topology.requirement)
    above = topology.above(level)
    places: dict[str | None, set[tuple[str, ...]]] = {}
    for node in nodes:
        if meets(node.labels, terms):
            place = tuple(farther.value(node.labels) or "" for farther in above)
            places.setdefault(level.value(node.labels), set()).add(place)
    value, several = max(places.items(), key=lambda item: len(item[1]), default=("", set[tuple[str, ...]]()))
    if len(several) < 2:
        return ""
    ways = _listed(_around(several, [topology.called(farther) for farther in above]), " or ")
    return f"{quote(placement.called(topology))}: {topology.called(level)} {value} is in several places: add {ways}"


def _around(places: Collection[tuple[str, ...]], names: Sequence[str]) -> set[str]:
    """For each place, the domains in which it differs from others, as people write them."""
    differ = [len(set(values)) > 1 for values in zip(*places, strict=True)]
    return {
        ",".join(f"{name}={value}" for name, value, tells in zip(names, place, differ, strict=True) if tells and value)
        for place in places
    } - {""}


def _flawed(placement: Placement, topology: Topology, nodes: Sequence[Node]) -> str:
    """What is said of named domains whose Nodes have flaws of the network; empty if they have none."""
    named = [domain for domain in placement.domains if domain.values]
    size = sum(len(domain.values) for domain in named)
    if not named or named[-1].level.name in (keys.REGION, keys.ZONE) or size * len(nodes) > MOST_COMPARED:
        return ""
    inside = alternatives(placement.domains, topology.requirement)
    there = [node for node in nodes if meets(node.labels, inside)]
    groups = {_LEAFGROUP.value(node.labels) for node in there}
    of_network = ((node, _LEAFGROUP.value(node.labels)) for node in nodes)
    grouped = [(node, group) for node, group in of_network if group is not None]
    # Those of the same leafgroups tell where else these are, some others which labels there are.
    peers = [node for node, group in grouped if group in groups]
    flawed = flaws({node.name: node for node in (*there, *peers, *(node for node, _ in grouped[:_OTHERS]))}.values())
    names = [node.name for node in there if node.name in flawed]
    if not names:
        return ""
    first, *others = names
    more = f" and {len(others)} more" if others else ""
    problem = f"{quote(placement.called(topology))}: the network has flaws at {len(names)} of {len(there)} Nodes"
    return f"{problem}: {first} ({shortened(flawed[first][0].text, _FLAW)}){more}; topology doctor lists them"


def _listed(texts: Iterable[str], between: str) -> str:
    """The first texts in natural order, and how many more there are."""
    ordered = sorted(texts, key=lambda text: (len(text), text))
    more = f" and {len(ordered) - 3} more" if len(ordered) > 3 else ""
    return f"{between.join(ordered[:3])}{more}"


def _any_meets(terms: Sequence[Term], nodes: Sequence[Node]) -> bool:
    return any(meets(node.labels, terms) for node in nodes)


def _where(annotation: Annotation) -> str:
    return f" ({render(annotation.holder)})" if annotation.holder else ""
