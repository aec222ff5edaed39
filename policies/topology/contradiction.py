"""Placements that leave no Node, by what else a workload says: pools, selectors, and the domains themselves.

Source: Run:ai's documentation. A workload for node pools of different topologies stays pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from policies.engine.match import LabelSelector
from policies.engine.request import JsonObject, mapping
from policies.engine.violation import Violation, quote
from policies.objects.fieldpath import render
from policies.topology import refusal
from policies.topology.affinity import selector_terms
from policies.topology.annotation import Template
from policies.topology.catalog import Catalog
from policies.topology.constraint import Constraint
from policies.topology.refusal import RULE
from policies.topology.term import clash
from policies.topology.topology import Topology

Pool = tuple[str, tuple[str, ...]]
"""A node pool, as KEY=VALUE, with the names of its topologies."""


def of_placement(constraint: Constraint) -> Iterator[Violation]:
    """The refusals of a placement that leaves no Node."""
    topology, required, preferred, template = (
        constraint.topology, constraint.required, constraint.preferred, constraint.template,
    )  # fmt: skip
    if topology is None or not any((required, preferred)):
        return
    named = {domain.level: domain.values for domain in required.domains if domain.values} if required else {}
    is_outside = preferred is not None and any(
        domain.values and domain.level in named and set(domain.values).isdisjoint(named[domain.level])
        for domain in preferred.domains
    )
    if preferred is not None and required is not None and is_outside:
        yield refusal.outside(constraint.annotations.preferred, preferred.called(topology), required.called(topology))
    own = selector_terms(template.spec.get("affinity"))
    if not constraint.obstacle and clash(mapping(template.spec, "nodeSelector"), own, constraint.terms):
        yield refusal.contradiction(template, constraint.asked)


def of_topology(
    obj: JsonObject | None, template: Template, topology: Topology, catalog: Catalog, keys: Sequence[str]
) -> Iterator[Violation]:
    """The violation if what a template says of its Nodes excludes all that a topology is for."""
    labels = {**mapping(mapping(obj, "metadata"), "labels"), **mapping(template.metadata, "labels")}
    selector = {**{key: labels[key] for key in keys if key in labels}, **mapping(template.spec, "nodeSelector")}
    if not _excludes(template, topology.pool, selector):
        return
    names = [
        name
        for name, one in catalog.by_name.items()
        if one.pool is not None and not _excludes(template, one.pool, selector)
    ]
    path = render(template.at("spec"))
    remedy = f"Name the topology of these Nodes ({', '.join(names)})" if names else "Name another topology"
    yield Violation(
        RULE, path, "nodeSelector, affinity and pool labels", f"exclude every Node of topology {quote(topology.name)}.",
        "The topology is for other Nodes.", f"{remedy}, or change the node selector and node affinity.",
    )  # fmt: skip


def of_pools(
    obj: JsonObject | None, found: Iterable[Template], catalog: Catalog, keys: Sequence[str]
) -> list[Violation]:
    """A violation for each pool whose topologies differ from those of the first pool that is named."""
    first: Pool | None = None
    conflicts = []
    for template in found:
        for key, value, path in (*_of_labels(obj, keys), *_named(template, keys)):
            topologies = tuple(
                sorted(n for n, topology in catalog.by_name.items() if _is_for(topology.pool, key, value))
            )
            if not topologies:
                continue
            pool = (f"{key}={value}", topologies)
            first = first or pool
            if topologies != first[1]:
                conflicts.append(_conflict(path, first, pool))
    return list(dict.fromkeys(conflicts))


def between(constraints: Sequence[Constraint]) -> Iterator[Violation]:
    """The warning about templates of one workload with topologies that are for different pools."""
    pools = {one.topology.name: one.topology.pool for one in constraints if one.topology is not None and one.is_placed}
    given = [name for name, pool in pools.items() if pool is not None]
    if len({pools[name] for name in given}) > 1:
        yield refusal.as_warning(
            f"its templates name topologies of different node pools, {' and '.join(map(quote, given[:2]))}: "
            "their Pods start apart from each other"
        )


def _excludes(template: Template, pool: LabelSelector | None, selector: JsonObject) -> bool:
    """Whether a template's own terms, and a node selector, exclude all Nodes of a pool."""
    return pool is not None and clash(selector, selector_terms(template.spec.get("affinity")), (pool.requirements,))


def _conflict(path: str, first: Pool, second: Pool) -> Violation:
    named, other = (f"{pool} ({', '.join(names)})" for pool, names in (second, first))
    return Violation(
        RULE, path, named, f"has another topology than {other}.",
        "A workload cannot be placed in node pools of different topologies; its Pods would stay pending.",
        "Choose one of the pools, or split the workload.",
    )  # fmt: skip


def _of_labels(obj: JsonObject | None, keys: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Key, value and path of each pool that a workload names by a label."""
    labels = mapping(mapping(obj, "metadata"), "labels")
    for key in keys:
        if isinstance(labels.get(key), str):
            yield key, labels[key], render(("metadata", "labels", key))


def _named(template: Template, keys: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Key, value and path of each pool that a template names."""
    labels = mapping(template.metadata, "labels")
    for key in keys:
        if template.location and isinstance(labels.get(key), str):
            yield key, labels[key], render(template.at("metadata", "labels", key))
    at = template.at("spec")
    selector = mapping(template.spec, "nodeSelector")
    for key in keys:
        if isinstance(selector.get(key), str):
            yield key, selector[key], render((*at, "nodeSelector", key))
    for term in selector_terms(template.spec.get("affinity")):
        expressions = term.get("matchExpressions") if isinstance(term, dict) else None
        for expression in expressions if isinstance(expressions, list) else ():
            if isinstance(expression, dict) and expression.get("key") in keys and expression.get("operator") == "In":
                values = expression.get("values")
                for value in values if isinstance(values, list) else ():
                    if isinstance(value, str):
                        yield expression["key"], value, render((*at, "affinity", "nodeAffinity"))


def _is_for(pool: LabelSelector | None, key: str, value: str) -> bool:
    """Whether a selector requires the label of a pool. Its other requirements only make the pool smaller."""
    about = [requirement for requirement in pool.requirements if requirement.key == key] if pool is not None else []
    is_asked_for = any(requirement.operator in ("In", "Exists") for requirement in about)
    return is_asked_for and all(requirement.matches({key: value}) for requirement in about)
