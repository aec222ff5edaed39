"""Pods that were placed with their workload: a controller made them from a template that was translated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from policies.engine.request import is_owned, mapping
from policies.topology.affinity import PREFERRED, node_affinity, selector_terms
from policies.topology.constraint import Constraint
from policies.topology.topology import Level
from policies.topology.way import podaffinity, replica
from policies.topology.way.assignment import NO_PLAN, Plan, named
from policies.topology.way.scene import Scene


def assign(constraints: Sequence[Constraint], scene: Scene) -> Plan:
    """Nothing more for a Pod whose affinity names a domain of its level already, or keeps it with others in one.

    A replica of a LeaderWorkerSet is placed by its Pods, and not with the workload.
    """
    if scene.row.kind != "Pod" or not is_owned(scene.object) or replica.key(scene) is not None:
        return NO_PLAN
    placed = [c for c in constraints if any(key in _levels(c) for key in _keys(c.template.affinity))]
    return named("", placed)


def _levels(constraint: Constraint) -> tuple[str, ...]:
    levels: list[Level] = [p.level for p in (constraint.required, constraint.preferred) if p is not None]
    return tuple(key for level in levels for key in level.keys)


def _keys(affinity: Any) -> Iterator[str]:
    """The label keys by which an affinity names domains of Nodes, or keeps Pods together."""
    preferred = (node_affinity(affinity) or {}).get(PREFERRED)
    wishes = preferred if isinstance(preferred, list) else []
    for term in (*selector_terms(affinity), *(mapping(wish, "preference") for wish in wishes)):
        expressions = term.get("matchExpressions") if isinstance(term, dict) else None
        for expression in expressions if isinstance(expressions, list) else ():
            if isinstance(expression, dict) and expression.get("operator") == "In":
                yield str(expression.get("key"))
    yield from podaffinity.keys(affinity)
