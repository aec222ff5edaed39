"""The fewest nearer domains that hold a gang together."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from policies.topology.choice.pack.exact import Budget, packing
from policies.topology.choice.pack.greedy import beginnings, capacities, first, hopeful, pack
from policies.topology.choice.pack.room import Room
from policies.topology.choice.stock import Codes, Integers

_MOST_SETS = 64
# A greedy packing takes as long, for each member, as so many steps.
_PACK = 4


def packed(room: Room, budget: Budget) -> Integers | None:
    """A packing of the whole gang on these Nodes, by member and Node; None if none is known when the budget ends."""
    taken = most(room, budget)
    return taken if int(taken.sum()) == int(room.counts.sum()) else None


def most(room: Room, budget: Budget) -> Integers:
    """The packing of `packed`; if none is known, one of the Pods that find a place one after the other."""
    budget.steps -= _PACK * len(room.members)
    whole = np.zeros(len(room.rows), np.int32)
    if len(room.members) == 1:
        return first(room.fit[0], whole[:1], int(room.counts[0]))[None]
    taken = pack(room, whole)
    pods = int(room.counts.sum())
    if int(taken.sum()) == pods or not hopeful(room, whole, capacities(room, whole, 1))[0]:
        return taken
    better = packing(room, pods, budget)
    return taken if better is None else better


def fits(room: Room, budget: Budget) -> bool:
    """Whether the whole gang fits on these Nodes. False also where the budget ends before that is known."""
    return packed(room, budget) is not None


def fewest(room: Room, groups: Codes, budget: Budget) -> tuple[int, ...]:
    """The fewest of the domains that hold the gang; all of them if it does not fit. groups: by Node of the room.

    For Pods that are alike it is exact; for others too where there are few sets of domains to try, and else the domains
    with the most room are taken one after the other until the gang fits.
    """
    names, inverse = np.unique(groups, return_inverse=True)
    numbers = inverse.astype(np.int32)
    fit = capacities(room, numbers, len(names))
    if len(room.members) == 1:
        return tuple(int(names[number]) for number in _largest(fit[0], int(room.counts[0])))
    tries = 0
    sums = np.cumsum(np.sort(fit, axis=1)[:, ::-1], axis=1)
    least = 1 + int((sums < room.counts[:, None]).sum(axis=1).max())
    for size in range(least, len(names)):
        for chosen in combinations(range(len(names)), size):
            tries += 1
            if tries > _MOST_SETS or budget.steps <= 0:
                return _one_by_one(room, names, numbers, size, budget)
            enough = (fit[:, chosen].sum(axis=1) >= room.counts).all()
            if enough and fits(room.at(np.flatnonzero(np.isin(numbers, chosen))), budget):
                return tuple(int(names[number]) for number in chosen)
    return tuple(map(int, names))


def _largest(fit: Integers, count: int) -> list[int]:
    """The fewest domains that hold so many Pods: the largest, and as the last one the smallest that is enough."""
    order = np.lexsort((np.arange(len(fit)), -fit))
    sums = np.cumsum(fit[order])
    last = int(np.searchsorted(sums, count))
    if last >= len(order):
        return list(map(int, order))
    rest = count - (int(sums[last - 1]) if last else 0)
    enough = [int(number) for number in order[last:] if fit[number] >= rest]
    smallest = min(enough, key=lambda number: (int(fit[number]), number))
    return sorted([*order[:last].tolist(), smallest])


def _one_by_one(room: Room, names: Codes, numbers: Codes, least: int, budget: Budget) -> tuple[int, ...]:
    fit = capacities(room, numbers, len(names))
    shares = (fit / np.maximum(room.counts, 1)[:, None]).sum(axis=0)
    order = np.lexsort((np.arange(len(names)), -shares))
    for size in range(least, len(names)):
        if budget.steps <= 0:
            break
        chosen = order[:size]
        if fits(room.at(np.flatnonzero(np.isin(numbers, chosen))), budget):
            return tuple(sorted(int(names[number]) for number in chosen))
    return tuple(map(int, names))


def needed(fit: Integers, outer: Codes, size: int, count: int) -> Integers:
    """By outer domain, how many of the domains in it hold so many Pods that are alike. fit: by inner domain.

    outer: the outer domain of each. size: the number of outer domains.
    """
    fitting = np.flatnonzero(fit)
    if not len(fitting):
        return np.zeros(size, np.int64)
    order = fitting[np.lexsort((-fit[fitting], outer[fitting]))]
    sorted_outer = outer[order]
    taken = first(fit[order], beginnings(sorted_outer), count)
    return np.bincount(sorted_outer[taken > 0], minlength=size)
