"""One-line warnings about placements that are valid, but may not do what their author intends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from policies import vocabulary as keys
from policies.engine.facts import Node
from policies.engine.match import EVERYTHING, LabelSelector
from policies.engine.request import AdmissionRequest, JsonObject, is_owned, mapping
from policies.engine.violation import Violation, quote, shortened
from policies.nvlink import NVL_DOMAIN
from policies.objects.fieldpath import locate, render
from policies.objects.workload import Workload
from policies.topology.annotation import ANNOTATIONS, PREFERRED, REQUIRED, TOPOLOGY, Annotation, strays
from policies.topology.catalog import Catalog
from policies.topology.constraint import NO_ACCELERATOR, Constraint
from policies.topology.nodes.fabric import flaws
from policies.topology.placement import Placement
from policies.topology.refusal import as_warning
from policies.topology.term import Term, alternatives, meets
from policies.topology.topology import Topology, level
from policies.topology.way import Keeper

UNREAD: Final = frozenset(
    {
        ("nvidia.com", "DynamoGraphDeployment"),
        ("apps.nvidia.com", "NIMService"),
        ("serving.kserve.io", "InferenceService"),
    }
)
"""Kinds whose own annotations nobody reads, unless `workloads:` of the configuration says where their templates are."""

# Domains times Nodes. Beyond it nothing is said about the domains, which would take a second.
MOST_COMPARED = 1_000_000
_LEAFGROUP = level(keys.LEAFGROUP)
_FLAW = 80
_OTHERS = 100
_REASON = 90
_SHORT_TOPOLOGY = TOPOLOGY.removeprefix("kai.scheduler/")
_CLIQUES = f"{keys.CLIQUE}, whose part before the dot is the NVL Domain"


def warnings(constraint: Constraint, catalog: Catalog, nodes: Sequence[Node], absent: str = "") -> Iterator[Violation]:
    """The warnings about one template. nodes: those of the cluster; empty if they are not known.

    absent: what `absence` says.
    """
    topology, reader, annotations = constraint.topology, constraint.reader, constraint.annotations
    if topology is None:
        return
    for clash in catalog.clashes:
        if clash.first.name == topology.name:
            yield as_warning(
                f"topology {quote(topology.name)} has two definitions that differ: "
                f"{clash.first.source} counts, {clash.second.source} does not"
            )
    if reader and nodes and not topology.in_cluster:
        yield as_warning(
            f"topology {quote(topology.name)} is no object of the cluster, "
            f"and the scheduler knows only those ({reader})"
        )
    if annotations.topology is not None and annotations.required is None and annotations.preferred is None:
        yield as_warning(
            f"{_SHORT_TOPOLOGY} alone places nothing: add a required or a preferred placement"
            f"{_where(annotations.topology)}"
        )
    elif constraint.obstacle and not reader and constraint.obstacle != NO_ACCELERATOR:
        yield as_warning(f"{constraint.asked} has no effect: {constraint.obstacle}")
        return
    if absent:
        yield as_warning(absent)
    elif nodes:
        yield from _about_nodes(constraint, topology, nodes)


def absence(constraint: Constraint, nodes: Sequence[Node]) -> str:
    """Why no Node is for what decides where a template starts, in a warning's words; empty if one is.

    nodes: see `warnings`.
    """
    topology, placement = constraint.topology, constraint.placement
    if topology is None or placement is None or not nodes or (constraint.obstacle and not constraint.reader):
        return ""
    pool, requirement = topology.pool, topology.requirement
    if pool is not None and not any(pool.matches(node.labels) for node in nodes):
        return f"topology {quote(topology.name)}: its node pool has no Nodes now"
    if requirement != EVERYTHING and not _any_meets(alternatives((), requirement), nodes):
        return f"topology {quote(topology.name)}: no Node has what it requires, {_required(requirement)}"
    annotation = constraint.annotations.required or constraint.annotations.preferred
    problem = _problem(placement, topology, nodes)
    return f"{_kind(annotation)} {problem}{_where(annotation)}" if problem and annotation is not None else ""


def kept(constraint: Constraint, keeper: Keeper) -> Iterator[Violation]:
    """What is to be said of who keeps the Pods of a template together; nothing where their gates do."""
    asked, why = constraint.asked, f" ({shortened(keeper.reason, _REASON)})" if keeper.reason else ""
    if not constraint.is_placed or constraint.is_default or keeper.way in ("gate", "kueue"):
        return
    if keeper.way == "workload" and constraint.topology and constraint.required:
        name = constraint.topology.called(constraint.required.level)
        yield as_warning(f"{asked}: kube-scheduler starts all Pods in one {name}, or none of them")
    elif keeper.way == "affinity" and constraint.required is not None and constraint.required.is_open:
        yield as_warning(
            f"{asked}: Pod affinity keeps its Pods together{why}; they are placed one by one, and some may wait while "
            "others run"
        )
    elif keeper.way == "affinity" and constraint.preferred is not None and constraint.preferred.is_open:
        yield as_warning(f"{asked}: Pod affinity draws its Pods together{why}; they are placed one by one")
    elif not keeper.way:
        yield as_warning(f"{asked} has no effect{why}")


def changed(constraint: Constraint) -> Iterator[Violation]:
    """The warning about a template that says something else than its workload, after an update that changed one."""
    template, earlier = constraint.template, constraint.earlier
    if earlier is None:
        return
    places = zip(ANNOTATIONS, template.own.all, template.above.all, earlier.own.all, earlier.above.all, strict=True)
    for key, own, above, was_own, was_above in places:
        if own is None or above is None or own.value == above.value:
            continue
        if (own.value, above.value) != (was_own and was_own.value, was_above and was_above.value):
            yield as_warning(
                f"{template.path or 'the Pod'} says {quote(own.value)}, and what is around it {quote(above.value)}, as "
                f"{key.removeprefix('kai.scheduler/')}: the template counts; write the same in both"
            )


def deadline(obj: JsonObject | None, row: Workload) -> Iterator[Violation]:
    """The warning about a deadline that runs while Pods wait for their domain."""
    jobs = [at for pattern in row.jobs for at in locate(obj, pattern)]
    holders = [((*at, "spec"), mapping(job, "spec")) for at, job in [((), obj), *jobs] if row.kind != "Pod"]
    holders.append((("spec", "runPolicy"), mapping(mapping(obj, "spec"), "runPolicy")))
    for location, holder in holders:
        seconds = holder.get("activeDeadlineSeconds")
        if isinstance(seconds, int):
            path = render((*location, "activeDeadlineSeconds"))
            yield as_warning(
                f"{path} {seconds} runs while its Pods wait for a domain: leave it out, or add the time of waiting"
            )


def unread(request: AdmissionRequest) -> Iterator[Violation]:
    """The warning about annotations on a kind that nobody reads them from."""
    now, before = (mapping(mapping(obj, "metadata"), "annotations") for obj in (request.object, request.old_object))
    found = [key for key in ANNOTATIONS if key in now and now[key] != before.get(key)]
    if found and not request.sub_resource and not is_owned(request.object):
        kind = request.kind.kind
        yield as_warning(
            f"annotation {quote(found[0])} of a {kind} places nothing, as its operator does not copy it: name {kind} "
            "in workloads: of the configuration, or annotate its Pods"
        )


def misspelt(request: AdmissionRequest, row: Workload) -> Iterator[Violation]:
    """Warnings about new keys that look like the annotations and are none."""
    if request.sub_resource or is_owned(request.object):
        return  # nobody reads what a controller is told
    now = list(strays(row, request.object))
    before = frozenset(strays(row, request.old_object)) if now else frozenset()
    for location in now:
        if location not in before:
            field, key = str(location[-2]).removesuffix("s"), str(location[-1])
            right = next((one for one in (REQUIRED, PREFERRED) if one[len(TOPOLOGY) + 1 :][:4] in key), TOPOLOGY)
            yield as_warning(f"{field} {quote(key)} places nothing: write the annotation {right}")


def _about_nodes(constraint: Constraint, topology: Topology, nodes: Sequence[Node]) -> Iterator[Violation]:
    for annotation, placement in constraint.placements:
        if problem := _problem(placement, topology, nodes) or _ambiguity(placement, topology, nodes):
            yield as_warning(f"{_kind(annotation)} {problem}{_where(annotation)}")
            return
    yield from _about_both(constraint, topology, nodes)
    for annotation, placement in constraint.placements:
        if problem := _flawed(placement, topology, nodes):
            yield as_warning(f"{_kind(annotation)} {problem}{_where(annotation)}")
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
            labels = _CLIQUES if NVL_DOMAIN in keys else " or ".join(keys)
            return f"{quote(topology.called(domain.level))}: no Node carries the label {labels}"
    named = sum(len(domain.values) for domain in placement.domains)
    if (
        not named
        or named * len(nodes) > MOST_COMPARED
        or _any_meets(alternatives(placement.domains, topology.requirement), nodes)
    ):
        return ""
    if _any_meets(alternatives(placement.domains, EVERYTHING), nodes):
        lacking = f"its Nodes lack what topology {quote(topology.name)} requires, {_required(topology.requirement)}"
        return f"{quote(placement.called(topology))}: {lacking}"
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


def _required(selector: LabelSelector) -> str:
    """What labels must have that a selector chooses."""
    words = {"In": "in", "NotIn": "not in", "Exists": "is there", "DoesNotExist": "is not there"}
    parts = (
        f"{one.key} {words[one.operator]} ({', '.join(one.values)})"
        if one.values
        else f"{one.key} {words[one.operator]}"
        for one in selector.requirements
    )
    return " and ".join(parts)


def _listed(texts: Iterable[str], between: str) -> str:
    """The first texts in natural order, and how many more there are."""
    ordered = sorted(texts, key=lambda text: (len(text), text))
    more = f" and {len(ordered) - 3} more" if len(ordered) > 3 else ""
    return f"{between.join(ordered[:3])}{more}"


def _any_meets(terms: Sequence[Term], nodes: Sequence[Node]) -> bool:
    return any(meets(node.labels, terms) for node in nodes)


def _kind(annotation: Annotation) -> str:
    """Whether it says what is required or what is preferred."""
    return "required" if annotation.key == REQUIRED else "preferred"


def _where(annotation: Annotation) -> str:
    return f" ({render(annotation.holder)})" if annotation.holder else ""
