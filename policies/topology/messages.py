"""What is said of placements: refusals of those that no Node or no scheduler can keep, and one-line warnings.

Source: Run:ai's documentation. A workload for node pools of different topologies stays pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from policies import vocabulary
from policies.engine.facts import Node
from policies.engine.match import EVERYTHING, LabelSelector, Term
from policies.engine.request import AdmissionRequest, JsonObject, is_owned, mapping
from policies.engine.violation import Violation, listed, quote, shortened
from policies.objects.fieldpath import Location, locate, render
from policies.objects.workload import Workload
from policies.podspec import node_demand
from policies.topology.nodes.tree import flaws
from policies.topology.placement import (
    ANNOTATIONS,
    GATE,
    PREFERRED,
    PREFIX,
    REQUIRED,
    TOPOLOGY,
    WORDS,
    Placement,
    alternatives,
    clash,
    meets,
)
from policies.topology.template import NO_ACCELERATOR, RULE, Annotation, Case, Template, as_warning, strays
from policies.topology.topology import NVL_DOMAIN, Topology, level
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
_LEAFGROUP = level(vocabulary.LEAFGROUP)
_FLAW, _OTHERS, _REASON = 80, 100, 90
_CLIQUES = f"{vocabulary.CLIQUE}, whose part before the dot is the NVL Domain"
_GATE_IS_OURS = "The scheduling gate belongs to cks-admission."


def fixed(kind: str, template: Template) -> Violation:
    """A placement that was changed too late to have an effect. Shows the first annotation that differs."""
    for at in (1, 2, 0):
        new, old = template.annotations[at], template.before[at]
        if (new and new.value) != (old and old.value):
            break
    if new is None and template.earlier is not None:
        old = template.earlier.above[at] or old  # what the template has is a copy
    place, gone = new or old, "" if new else ", and is gone"
    problem = f"was {quote(old.value)} before{gone}." if old else "was not there before."
    return Violation(
        RULE, place.path if place else "", quote(new.value) if new else "", problem,
        f"The placement of a {kind} is fixed when it is created.", f"Delete the {kind} and create it again.",
    )  # fmt: skip


def gated(template: Template, kind: str) -> Violation:
    """Our scheduling gate in a template, or in a Pod that nobody will place."""
    problem = "is never opened for a Pod without a placement."
    remedy = f"Remove the gate, or add the annotation {REQUIRED}."
    if template.location:
        problem = f"is added to the Pods of a {kind} when they are created."
        remedy = "Remove the gate, and write the annotations."
    path = render(template.at("spec", "schedulingGates"))
    return Violation(RULE, path, quote(GATE), problem, _GATE_IS_OURS, remedy)


def unapplied(template: Template) -> Violation:
    """A placement that the Pods do not carry, or that nobody keeps: the mutation was skipped, or undone."""
    if template.location:
        path, problem = render(template.at("metadata", "annotations")), f"lack what keeps the {template.asked}."
        remedy = "Create the object again, or write the annotations into the template yourself."
    else:
        path, problem = render(template.at("spec", "schedulingGates")), f"lacks {GATE} for the {template.asked}."
        remedy = "Create the Pod again; if it happens again, another webhook removes the gate."
    return Violation(RULE, path, "", problem, "The placement is not applied, so the Pods may run anywhere.", remedy)


def never(template: Template, problem: str, kind: str, wider: str) -> Violation:
    """A gang that no domain can hold, where no more Nodes come. wider: a level that could hold it."""
    annotation = template.annotations.required
    path, value = (annotation.path, quote(annotation.value)) if annotation else ("", "")
    remedy = f"Require {wider}, or ask for less." if wider else "Ask for less."
    return Violation(
        RULE, path, value, f"asks for what is not there: {problem}.", f"The {kind} can never be placed.", remedy
    )


def contradictions(template: Template) -> Iterator[Violation]:
    """The refusals of a placement that leaves no Node, by its domains and the selectors of the template."""
    topology, required, preferred = template.topology, template.required, template.preferred
    if topology is None or template.placement is None:
        return
    if preferred is not None and required is not None:
        named = {domain.level: domain.values for domain in required.named}
        if any(one.level in named and set(one.values).isdisjoint(named[one.level]) for one in preferred.named):
            annotation = template.annotations.preferred
            yield Violation(
                RULE, annotation.path if annotation else "", quote(preferred.called(topology)),
                f"is not in the required {quote(required.called(topology))}.",
                "The preferred placement must be inside the required one.",
                "Prefer a domain of it, or the level alone.",
            )  # fmt: skip
    if not template.obstacle and clash(node_demand(template.spec), template.terms):
        yield Violation(
            RULE, render(template.at("spec")), "nodeSelector and affinity",
            f"exclude every Node of the {template.asked}.",
            "No Node can take the Pods.", "Change the placement, or the node selector and node affinity.",
        )  # fmt: skip


def of_pools(case: Case) -> Iterator[Violation]:
    """What is said of pools that do not go together, or not with a topology."""
    templates, catalog, keys = case.templates, case.catalog.by_name, case.options.pool_keys
    if not any(template.annotations.anything for template in templates):
        return
    former = [template.earlier for template in templates if template.earlier is not None]
    earlier = frozenset(conflicts(case.request.old_object, former, catalog, keys))
    pools = conflicts(case.obj, templates, catalog, keys)
    yield from (as_warning(one.line) if one in earlier else one for one in pools)
    if pools:
        return
    for_pools = {t.topology.name: t.topology.pool for t in templates if t.topology is not None and t.is_placed}
    given = [name for name, pool in for_pools.items() if pool is not None]
    if any(template.is_new for template in templates) and len({for_pools[name] for name in given}) > 1:
        yield as_warning(
            f"its templates name topologies of different node pools, {' and '.join(map(quote, given[:2]))}: "
            "their Pods start apart from each other"
        )
    for template in templates:
        is_placed = template.is_new and template.is_usable and (template.reader or not template.obstacle)
        if template.topology is None or not is_placed or template.is_default:
            continue
        # What the template says of its Nodes may exclude all that its topology is for.
        labels = {**mapping(mapping(case.obj, "metadata"), "labels"), **mapping(template.metadata, "labels")}
        selector = {**{key: labels[key] for key in keys if key in labels}, **mapping(template.spec, "nodeSelector")}
        demand = node_demand({**template.spec, "nodeSelector": selector})
        own = template.topology.pool
        if own is not None and clash(demand, (own.requirements,)):
            others = ((name, one.pool) for name, one in catalog.items() if one.pool is not None)
            open_to = [name for name, pool in others if not clash(demand, (pool.requirements,))]
            remedy = f"Name the topology of these Nodes ({', '.join(open_to)})" if open_to else "Name another topology"
            yield Violation(
                RULE, render(template.at("spec")), "nodeSelector, affinity and pool labels",
                f"exclude every Node of topology {quote(template.topology.name)}.",
                "The topology is for other Nodes.", f"{remedy}, or change the node selector and node affinity.",
            )  # fmt: skip


def conflicts(
    obj: JsonObject | None, templates: Iterable[Template], catalog: Mapping[str, Topology], keys: Sequence[str]
) -> list[Violation]:
    """A violation for each pool whose topologies differ from those of the first pool that is named."""
    first: tuple[str, tuple[str, ...]] | None = None  # a pool as KEY=VALUE, with the names of its topologies
    found = []
    for template in templates:
        for key, value, path in _named_pools(obj, template, keys):
            names = tuple(sorted(n for n, topology in catalog.items() if _is_for(topology.pool, key, value)))
            pool = (f"{key}={value}", names)
            first = first or (pool if names else None)
            if names and first is not None and names != first[1]:
                other, named = (f"{one} ({', '.join(topologies)})" for one, topologies in (first, pool))
                found.append(
                    Violation(
                        RULE, path, named, f"has another topology than {other}.",
                        "A workload cannot be placed in node pools of different topologies; its Pods would stay "
                        "pending.",
                        "Choose one of the pools, or split the workload.",
                    )
                )  # fmt: skip
    return list(dict.fromkeys(found))


def _named_pools(obj: JsonObject | None, template: Template, keys: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    maps: list[tuple[Location, JsonObject]] = [(("metadata", "labels"), mapping(mapping(obj, "metadata"), "labels"))]
    if template.location:
        maps.append((template.at("metadata", "labels"), mapping(template.metadata, "labels")))
    maps.append(((*template.at("spec"), "nodeSelector"), mapping(template.spec, "nodeSelector")))
    for place, labels in maps:
        for key in keys:
            if isinstance(labels.get(key), str):
                yield key, labels[key], render((*place, key))
    for requirement in (one for term in node_demand(template.spec).terms or () for one in term or ()):
        if requirement.key in keys and requirement.operator == "In":
            for value in requirement.values:
                yield requirement.key, value, render((*template.at("spec"), "affinity", "nodeAffinity"))


def _is_for(pool: LabelSelector | None, key: str, value: str) -> bool:
    """Whether a selector requires the label of a pool. Its other requirements only make the pool smaller."""
    about = [requirement for requirement in pool.requirements if requirement.key == key] if pool is not None else []
    is_asked_for = any(requirement.operator in ("In", "Exists") for requirement in about)
    return is_asked_for and all(requirement.matches({key: value}) for requirement in about)


def warnings(template: Template, case: Case, nodes: Sequence[Node], absent: str) -> Iterator[Violation]:
    """The warnings about one template. nodes: those of the cluster; empty if they are not known.

    absent: what `absence` says.
    """
    topology, reader, named = template.topology, template.reader, template.annotations.topology
    if topology is None:
        return
    for one in case.catalog.clashes:
        if one.first.name == topology.name:
            yield as_warning(
                f"topology {quote(topology.name)} has two definitions that differ: "
                f"{one.first.source} counts, {one.second.source} does not"
            )
    if reader and nodes and not topology.in_cluster:
        yield as_warning(
            f"topology {quote(topology.name)} is no object of the cluster, "
            f"and the scheduler knows only those ({reader})"
        )
    if named is not None and template.annotations[1:] == (None, None):
        yield as_warning(f"topology alone places nothing: add a required or a preferred placement{_where(named)}")
    elif template.obstacle and not reader and template.obstacle != NO_ACCELERATOR:
        yield as_warning(f"{template.asked} has no effect: {template.obstacle}")
        return
    if absent:
        yield as_warning(absent)
    elif nodes:
        yield from _about_nodes(template, topology, nodes)


def absence(template: Template, nodes: Sequence[Node]) -> str:
    """Why no Node is for what decides where a template starts, in a warning's words; empty if one is.

    nodes: see `warnings`.
    """
    topology = template.topology
    if topology is None or template.placement is None or not nodes or (template.obstacle and not template.reader):
        return ""
    pool, requirement = topology.pool, topology.requirement
    if pool is not None and not any(pool.matches(node.labels) for node in nodes):
        return f"topology {quote(topology.name)}: its node pool has no Nodes now"
    if requirement != EVERYTHING and not _any_meets(alternatives((), requirement), nodes):
        return f"topology {quote(topology.name)}: no Node has what it requires, {_required(requirement)}"
    annotation, placement = next(template.placements)
    problem = _problem(placement, topology, nodes)
    return _about(annotation, problem) if problem else ""


def kept(template: Template, keeper: Keeper) -> Iterator[Violation]:
    """What is to be said of who keeps the Pods of a template together; nothing where their gates do."""
    asked, why = template.asked, f" ({shortened(keeper.reason, _REASON)})" if keeper.reason else ""
    if not template.is_placed or template.is_default or keeper.of_kueue:
        return
    required, preferred = template.required, template.preferred
    if keeper.way == "workload" and template.topology and required:
        name = template.topology.called(required.level)
        yield as_warning(f"{asked}: kube-scheduler starts all Pods in one {name}, or none of them", is_outcome=True)
    elif keeper.way == "affinity" and required is not None and required.is_open:
        yield as_warning(
            f"{asked}: Pod affinity keeps its Pods together{why}; they are placed one by one, and some may wait while "
            "others run",
            is_outcome=True,
        )
    elif keeper.way == "affinity" and preferred is not None and preferred.is_open:
        yield as_warning(
            f"{asked}: Pod affinity draws its Pods together{why}; they are placed one by one", is_outcome=True
        )
    elif not keeper.way:
        yield as_warning(f"{asked} has no effect{why}")


def changed(template: Template) -> Iterator[Violation]:
    """The warning about a template that says something else than its workload, after an update that changed one."""
    earlier = template.earlier
    if earlier is None:
        return
    places = zip(ANNOTATIONS, template.own, template.above, earlier.own, earlier.above, strict=True)
    for key, own, above, was_own, was_above in places:
        if own is None or above is None or own.value == above.value:
            continue
        if (own.value, above.value) != (was_own and was_own.value, was_above and was_above.value):
            yield as_warning(
                f"{template.path or 'the Pod'} says {quote(own.value)}, and what is around it {quote(above.value)}, as "
                f"{key.removeprefix('kai.scheduler/')}: the template counts; write the same in both"
            )


def deadline(case: Case) -> Iterator[Violation]:
    """The warning about a deadline that runs while Pods wait for their domain."""
    jobs = [at for pattern in case.row.jobs for at in locate(case.obj, pattern)]
    holders = [((*at, "spec"), mapping(job, "spec")) for at, job in [((), case.obj), *jobs] if case.row.kind != "Pod"]
    holders.append((("spec", "runPolicy"), mapping(mapping(case.obj, "spec"), "runPolicy")))
    for location, holder in holders:
        seconds = holder.get("activeDeadlineSeconds")
        if isinstance(seconds, int):
            path = render((*location, "activeDeadlineSeconds"))
            waits = f"{path}: {seconds} s, which pass while its Pods wait for a domain."
            yield as_warning(f"{waits} Leave it out, or add the time to wait.", is_outcome=True)


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
    now = {str(location[-1]): location for location in reversed(list(strays(row, request.object)))}
    before = {str(location[-1]) for location in strays(row, request.old_object)} if now else set()
    for key, location in sorted(now.items()):
        if key not in before:
            right = TOPOLOGY if any(word in key for word in WORDS) else PREFIX + key.partition("/")[2]
            right = next((one for one in (REQUIRED, PREFERRED) if one[len(TOPOLOGY) + 1 :][:4] in key), right)
            field = "annotation" if right in ANNOTATIONS else str(location[-2]).removesuffix("s")
            yield as_warning(f"{render(location)} has no effect. Did you mean the {field} {right}?")


def _about_nodes(template: Template, topology: Topology, nodes: Sequence[Node]) -> Iterator[Violation]:
    for annotation, placement in template.placements:
        if problem := _problem(placement, topology, nodes) or _ambiguity(placement, topology, nodes):
            yield as_warning(_about(annotation, problem))
            return
    required, preferred = template.required, template.preferred
    if required is not None and preferred is not None and required.named and preferred.named:
        domains = (*required.named, *preferred.named)
        is_many = sum(len(domain.values) for domain in domains) * len(nodes) > MOST_COMPARED
        if not (is_many or _any_meets(alternatives(domains, topology.requirement), nodes)):
            inside = quote(required.called(topology))
            yield as_warning(
                f"preferred {quote(preferred.called(topology))}: no Node of the required {inside} is in it"
            )
    for annotation, placement in template.placements:
        if problem := _flawed(placement, topology, nodes):
            yield as_warning(_about(annotation, problem))
            return


def _problem(placement: Placement, topology: Topology, nodes: Sequence[Node]) -> str:
    """The problem of a placement on these Nodes: they lack a level, or none is in the domains. Empty if it fits."""
    for domain in placement.domains:
        keys = domain.level.keys
        if not any(key in node.labels for node in nodes for key in keys):
            labels = _CLIQUES if NVL_DOMAIN in keys else " or ".join(keys)
            lacking = f"{quote(topology.called(domain.level))}: no Node carries the label {labels}"
            return f"{lacking}; name another level, or label the Nodes"
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
    there = f"; name one that Nodes are in: {_listed(values, ', ')}" if values else ""
    return f"{quote(placement.called(topology))}: no Node is in it{there}"


def _ambiguity(placement: Placement, topology: Topology, nodes: Sequence[Node]) -> str:
    """What is said of a domain that there is several times; empty if there is one of each."""
    named = placement.named
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
    # Of the levels around it, those in which its places differ.
    differ = [len(set(values)) > 1 for values in zip(*several, strict=True)]
    around = {
        ",".join(
            f"{topology.called(farther)}={name}"
            for farther, name, tells in zip(above, place, differ, strict=True)
            if tells and name
        )
        for place in several
    }
    ways = _listed(around - {""}, " or ")
    return f"{quote(placement.called(topology))}: {topology.called(level)} {value} is in several places: add {ways}"


def _flawed(placement: Placement, topology: Topology, nodes: Sequence[Node]) -> str:
    """What is said of named domains whose Nodes have flaws of the network; empty if they have none."""
    named = placement.named
    size = sum(len(domain.values) for domain in named)
    is_wide = named and named[-1].level.name in (vocabulary.REGION, vocabulary.ZONE)
    if not named or is_wide or size * len(nodes) > MOST_COMPARED:
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
    words = {"In": "in", "NotIn": "not in", "Exists": "is there", "DoesNotExist": "is not there"}
    return " and ".join(
        f"{one.key} {words[one.operator]} ({', '.join(one.values)})"
        if one.values
        else f"{one.key} {words[one.operator]}"
        for one in selector.requirements
    )


def _listed(texts: Iterable[str], between: str) -> str:
    return listed(sorted(texts, key=lambda text: (len(text), text)), between=between)


def _any_meets(terms: Sequence[Term], nodes: Sequence[Node]) -> bool:
    return any(meets(node.labels, terms) for node in nodes)


def _about(annotation: Annotation, problem: str) -> str:
    return f"{'required' if annotation.key == REQUIRED else 'preferred'} {problem}{_where(annotation)}"


def _where(annotation: Annotation) -> str:
    return f" ({render(annotation.holder)})" if annotation.holder else ""
