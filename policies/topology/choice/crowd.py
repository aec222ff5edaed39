"""Whether Pods fit in whatever order they are bound: a scheduler puts each on any Node that its affinity allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct

from policies.topology.gang.gang import Member
from policies.topology.nodes.table import Integers, Mask


class Crowd(Struct, frozen=True):
    """Pods that are alike and not bound yet. where: the Nodes on which they may be, by row."""

    member: Member
    count: int
    where: Mask


def is_safe(crowds: Sequence[Crowd], free: Callable[[str], Integers]) -> bool:
    """Whether each Pod of these crowds finds a Node, in whatever order. False also where that is not certain.

    free: what each Node has of a resource without any of these Pods. A Pod finds no Node if each one on which it may be
    lacks a resource for it. Of others that ask for the same each takes one of the places that there are for it; for
    others it is counted how many Nodes they can fill at most, resource by resource.
    """
    together = _joined(crowds)
    return all(_finds(crowd, [other for other in together if other is not crowd], free) for crowd in together)


def _joined(crowds: Iterable[Crowd]) -> list[Crowd]:
    """The crowds, those that ask for the same and may be on the same Nodes as one."""
    joined: dict[object, Crowd] = {}
    for crowd in crowds:
        key = (crowd.member.requests, crowd.member.alone, crowd.where.tobytes())
        count = crowd.count + (joined[key].count if key in joined else 0)
        joined[key] = Crowd(crowd.member, count, crowd.where)
    return list(joined.values())


def _finds(crowd: Crowd, others: Sequence[Crowd], free: Callable[[str], Integers]) -> bool:
    """Whether the last Pod of a crowd finds a Node."""
    asked = {name: amount for name, amount in crowd.member.requests if amount}
    columns = {name: free(name) for name in asked}
    fit = np.where(crowd.where, 1 if crowd.member.alone else crowd.count + sum(other.count for other in others), 0)
    for name, amount in asked.items():
        np.minimum(fit, columns[name] // amount, out=fit)
    nodes = fit > 0
    rest = [(dict(other.member.requests), other.count) for other in others if (other.where & nodes).any()]
    rest.append((dict(crowd.member.requests), crowd.count - 1))
    if all(requests == rest[-1][0] for requests, _ in rest):
        return int(fit.sum()) > sum(count for _, count in rest)
    full = crowd.count - 1 if crowd.member.alone else 0
    for name, amount in asked.items():
        costs = columns[name][nodes] - amount + 1
        full += _most_filled(costs, [(requests.get(name, 0), count) for requests, count in rest])
    return full < int(nodes.sum())


def _most_filled(costs: Integers, pods: Iterable[tuple[int, int]]) -> int:
    """How many Nodes at most lack a resource for a Pod. costs: what has to be taken of each for that."""
    asked = [(amount, number) for amount, number in pods if amount and number]
    if not asked:
        return 0
    largest, number = max(amount for amount, _ in asked), sum(number for _, number in asked)
    total = sum(amount * count for amount, count in asked)
    ordered = np.sort(costs)
    by_amount = int(np.searchsorted(np.cumsum(ordered), total, side="right"))
    by_number = int(np.searchsorted(np.cumsum(-(-ordered // largest)), number, side="right"))
    return min(by_amount, by_number)
