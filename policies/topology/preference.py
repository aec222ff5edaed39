"""The preferred terms that a placement comes to.

Preferred terms add up: the scheduler sums the weights of those that a Node meets. Source: "Node affinity weight" in
the Kubernetes documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.engine.match import EVERYTHING
from policies.engine.request import JsonObject
from policies.topology.level import Level
from policies.topology.placement import Placement
from policies.topology.term import alternatives, old_names, to_json
from policies.topology.topology import Topology

HIGHEST = 100


def preferences(placement: Placement, required: Level | None, topology: Topology) -> list[JsonObject]:
    """PreferredSchedulingTerms, the nearest first: one for each domain below the required level, in all those above it.

    A Node in the nearest domain meets all of them and gets a score of 100. A step that is worth less than 1 is left
    out. Of the terms for one step, which stand for different ways of labelling Nodes, no Node meets two.
    """
    floor = -1 if required is None else topology.position(required)
    counts = [
        count for count, domain in enumerate(placement.domains, start=1) if topology.position(domain.level) > floor
    ]
    found = []
    for count, weight in zip(reversed(counts), weights(len(counts)), strict=True):
        terms = alternatives(placement.domains[:count], EVERYTHING, disjoint=True)
        if old_names(topology.requirement) is None:
            terms = terms[:1]
        if weight:
            found += [{"weight": weight, "preference": {"matchExpressions": to_json(term)}} for term in terms]
    return found


def weights(steps: int) -> Sequence[int]:
    """Weights of steps, the nearest first: proportional to n … 1, rounded down; the nearest gets what is left over."""
    total = steps * (steps + 1) // 2
    found = [HIGHEST * share // total for share in range(steps, 0, -1)]
    return [found[0] + HIGHEST - sum(found), *found[1:]] if found else []
