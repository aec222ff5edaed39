"""The packing of Pods into Nodes, in all domains of a level at once.

It is sound: what it places fits. For Pods that are alike it is exact. For others it takes the most demanding first and
fills the fullest Nodes first; where it leaves Pods over that might fit, `exact` can tell.
"""

from __future__ import annotations

import numpy as np

from policies.topology.choice.pack.room import Room, capacity
from policies.topology.choice.stock import Codes, Integers, Mask


def pack(room: Room, groups: Codes) -> Integers:
    """How many Pods of each member are placed on each Node, if each domain gets the whole gang.

    groups: the domain of each Node of the room, none of them negative. The result does not depend on the order of
    Nodes: Nodes that are equal in all that matters here can take each other's Pods.
    """
    taken = np.zeros((len(room.members), len(room.rows)), np.int64)
    if not len(room.rows):
        return taken
    order = _order(room, groups)
    starts = beginnings(groups[order])
    if len(room.members) == 1:
        taken[0, order] = first(room.fit[0, order], starts, int(room.counts[0]))
        return taken
    free = room.free[:, order]
    for member in demanding(room):
        requests, count = room.requests[member], int(room.counts[member])
        take = first(capacity(requests, free, room.open[member][order], count), starts, count)
        taken[member, order] = take
        nodes = np.flatnonzero(take)
        free[:, nodes] -= requests[:, None] * take[nodes]
    return taken


def beginnings(groups: Codes | Integers) -> Integers:
    """Where each domain begins among Nodes that are sorted by domain."""
    if groups[0] == groups[-1]:
        return np.zeros(1, np.int64)
    return np.concatenate(([0], np.flatnonzero(groups[1:] != groups[:-1]) + 1))


def first(fit: Integers, starts: Integers | Codes, count: int) -> Integers:
    """So many Pods on the first Nodes of each domain. fit: by Node. starts: of the domains."""
    before = np.cumsum(fit) - fit
    if len(starts) > 1:
        before -= np.repeat(before[starts], np.diff(starts, append=len(fit)))
    return np.asarray(np.minimum(np.maximum(count - before, 0), fit))


def placed(taken: Integers, groups: Codes, size: int) -> Integers:
    """How many Pods of each member are placed, by member and domain. size: the number of domains."""
    return np.stack([np.bincount(groups, weights=of_member, minlength=size) for of_member in taken]).astype(np.int64)


def capacities(room: Room, groups: Codes, size: int) -> Integers:
    """How many Pods of each member a domain has room for if no other member is there; at most all of them."""
    fits = [np.bincount(groups, weights=fit, minlength=size) for fit in room.fit]
    return np.minimum(np.stack(fits).astype(np.int64), room.counts[:, None])


def hopeful(room: Room, groups: Codes, capacities: Integers) -> Mask:
    """By domain, whether each member fits for itself, and all of them in sum. False means that the gang cannot fit.

    capacities: of the domains.
    """
    possible = np.asarray((capacities >= room.counts[:, None]).all(axis=0))
    if len(room.members) == 1 or not possible.any():
        return possible
    for demand, free in zip(room.counts @ room.requests, room.free, strict=True):
        sums = np.bincount(groups, weights=free, minlength=capacities.shape[1])
        # Bytes of many Nodes are rounded.
        possible &= sums >= demand * (1 - 1e-9)
    return possible


def demanding(room: Room) -> list[int]:
    """The members, most demanding first: those with the largest share of any resource of the best Node."""
    best = np.maximum(room.free.max(axis=1, initial=0), 1)
    shares = (room.requests / best).max(axis=1)
    return sorted(range(len(room.members)), key=lambda m: (-shares[m], room.requests[m].tolist(), room.open[m].sum()))


def _order(room: Room, groups: Codes) -> Integers:
    """The Nodes by domain; inside it those first that fewer members can use, then the fullest."""
    if len(room.members) == 1:
        return np.argsort(groups, kind="stable")
    weights = 1 << np.arange(len(room.members))
    return np.lexsort((*room.free, weights @ room.open, room.open.sum(axis=0), groups))
