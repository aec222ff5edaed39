"""The node pools that a workload names in its node selector or required node affinity, and their topologies.

Source: Run:ai's documentation. A workload for node pools of different topologies stays pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from policies.engine.match import LabelSelector
from policies.engine.request import mapping
from policies.engine.violation import Violation, quote
from policies.objects.fieldpath import render
from policies.topology.affinity import selector_terms, without_terms
from policies.topology.annotation import Template
from policies.topology.catalog import Catalog
from policies.topology.refusal import RULE
from policies.topology.term import clash
from policies.topology.topology import Topology

Pool = tuple[str, tuple[str, ...]]
"""A node pool, as KEY=VALUE, with the names of its topologies."""


def violations(templates: Iterable[Template], catalog: Catalog, keys: Iterable[str]) -> list[Violation]:
    """A violation for each pool whose topologies differ from those of the first pool."""
    keys = tuple(keys)
    first: Pool | None = None
    conflicts = []
    for template in templates:
        for key, value, path in _named(template, keys):
            topologies = tuple(
                sorted(n for n, topology in catalog.by_name.items() if _is_for(topology.pool, key, value))
            )
            if not topologies:
                continue
            pool = (f"{key}={value}", topologies)
            first = first or pool
            if topologies != first[1]:
                conflicts.append(_violation(path, first, pool))
    return list(dict.fromkeys(conflicts))


def outside(template: Template, topology: Topology, catalog: Catalog) -> Iterator[Violation]:
    """The violation if a template's node selector or node affinity excludes all Nodes that a topology is for."""
    if not _excludes(template, topology.pool):
        return
    names = [
        name for name, one in catalog.by_name.items() if one.pool is not None and not _excludes(template, one.pool)
    ]
    path = render(template.at("spec"))
    remedy = f"Name the topology of these Nodes ({', '.join(names)})" if names else "Name another topology"
    yield Violation(
        RULE, path, "nodeSelector and affinity", f"exclude every Node of topology {quote(topology.name)}.",
        "The topology is for other Nodes.", f"{remedy}, or change the node selector and node affinity.",
    )  # fmt: skip


def _excludes(template: Template, pool: LabelSelector | None) -> bool:
    """Whether a template's own terms exclude all Nodes of a pool."""
    own = selector_terms(without_terms(template.affinity, template.entry))
    return pool is not None and clash(mapping(template.spec, "nodeSelector"), own, (pool.requirements,))


def _violation(path: str, first: Pool, second: Pool) -> Violation:
    named, other = (f"{pool} ({', '.join(names)})" for pool, names in (second, first))
    return Violation(
        RULE, path, named, f"has another topology than {other}.",
        "A workload cannot be placed in node pools of different topologies; its Pods would stay pending.",
        "Choose one of the pools, or split the workload.",
    )  # fmt: skip


def _named(template: Template, keys: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Key, value and path of each pool that a template names."""
    at = template.at("spec")
    selector = mapping(template.spec, "nodeSelector")
    for key in keys:
        if isinstance(selector.get(key), str):
            yield key, selector[key], render((*at, "nodeSelector", key))
    for term in selector_terms(template.affinity):
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
