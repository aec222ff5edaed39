"""Where the Pods of a gang fit: room Node by Node, and packings of Pods into Nodes.

A greedy packing is sound: what it places fits. For Pods that are alike it is exact. For others it takes the most
demanding first and fills the fullest Nodes first; where it leaves Pods over that might fit, an exact search decides,
for as many steps as its budget has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import mul

import numpy as np
from msgspec import Struct, structs

from policies.cached import cached_property
from policies.topology.gang import Member
from policies.topology.nodes.inventory import Codes, Integers, Mask


@dataclass(frozen=True)
class Room:
    """What members ask for and what Nodes have for them.

    Only Nodes with room for a Pod of any of the members are in it. members: with those that are alike made one.
    resources: those that any member asks for. requests: by member and resource. counts: by member. rows: the row of
    each Node in the inventory. free: by resource and Node. open: by member and Node, whether a Pod may run there and
    has room. most: how many Pods of each member may be on one Node.
    """

    members: tuple[Member, ...]
    resources: tuple[str, ...]
    requests: Integers
    counts: Integers
    rows: Integers
    free: Integers
    open: Mask
    most: Integers

    def inside(self, rows: Mask) -> Room:
        """The room on Nodes of these rows of the inventory."""
        return self.at(np.flatnonzero(rows[self.rows]))

    def at(self, nodes: Integers) -> Room:
        """The room on some of its Nodes, by their position in it."""
        room = replace(self, rows=self.rows[nodes], free=self.free[:, nodes], open=self.open[:, nodes])
        # What fits on a Node does not depend on the others.
        vars(room)["fit"] = self.fit[:, nodes]
        return room

    @cached_property
    def fit(self) -> Integers:
        """How many Pods of each member fit on each Node if nothing else runs there, at most all; by member and Node."""
        pairs = zip(self.requests, self.open, np.minimum(self.counts, self.most), strict=True)
        return np.stack([capacity(requests, self.free, is_open, int(count)) for requests, is_open, count in pairs])


def capacity(requests: Integers, free: Integers, is_open: Mask, count: int) -> Integers:
    """How many Pods with these requests fit on each Node, at most `count`."""
    fit = np.where(is_open, count, 0)
    for resource in np.flatnonzero(requests):
        np.minimum(fit, free[resource] // requests[resource], out=fit)
    return fit


class Crowd(Struct, frozen=True):
    """Pods that are alike. where: the Nodes on which they may be, by row."""

    member: Member
    count: int
    where: Mask


def joined(crowds: Iterable[Crowd]) -> list[Crowd]:
    """The crowds, those that ask for the same and may be on the same Nodes as one, with the member of the first."""
    joined: dict[object, Crowd] = {}
    for crowd in crowds:
        key = (crowd.member.requests, crowd.member.alone, crowd.where.tobytes())
        first = joined.get(key)
        joined[key] = crowd if first is None else structs.replace(first, count=first.count + crowd.count)
    return list(joined.values())


def requests(members: Sequence[Member], resources: Sequence[str]) -> Integers:
    """What each Pod asks for, by member and resource."""
    asked = [dict(member.requests) for member in members]
    return np.array([[amounts.get(name, 0) for name in resources] for amounts in asked], np.int64)


def pack(room: Room, groups: Codes) -> Integers:
    """How many Pods of each member are placed on each Node, if each domain gets the whole gang.

    groups: the domain of each Node of the room, none of them negative. The result does not depend on the order of
    Nodes: Nodes that are equal in all that matters here can take each other's Pods.
    """
    taken = np.zeros((len(room.members), len(room.rows)), np.int64)
    if not len(room.rows):
        return taken
    if len(room.members) == 1:
        order = np.argsort(groups, kind="stable")
        taken[0, order] = first(room.fit[0, order], beginnings(groups[order]), int(room.counts[0]))
        return taken
    # The Nodes by domain; inside it those first that fewer members can use, then the fullest.
    weights = 1 << np.arange(len(room.members))
    order = np.lexsort((*room.free, weights @ room.open, room.open.sum(axis=0), groups))
    starts = beginnings(groups[order])
    free = room.free[:, order]
    for member in demanding(room):
        requests, count = room.requests[member], int(room.counts[member])
        most = min(count, int(room.most[member]))
        take = first(capacity(requests, free, room.open[member][order], most), starts, count)
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


# Beginning takes as long as so many steps.
_START = 8

_Pods = tuple[int, ...]
_Stage = dict[_Pods, tuple[_Pods, _Pods]]


class Budget:
    """Steps that a question may still take, so that its time is bounded. The same question takes the same steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def spend(self, steps: int = 1) -> bool:
        """Take some steps. False if not so many are left."""
        self.steps -= steps
        return self.steps >= 0


def packing(room: Room, least: int, budget: Budget) -> Integers | None:
    """A packing with at least `least` Pods: of those with the most the one with the most accelerators; by member, Node.

    None if there is none, or if the budget ends. Node by Node it keeps the sets of Pods that can be left over, without
    those from which too many would be left over in the end.
    """
    counts = tuple(map(int, room.counts))
    nodes = np.flatnonzero(room.fit.any(axis=0))
    budget.steps -= _START
    if not len(nodes):
        return None
    capacities = room.fit[:, nodes]
    # The Pods of each member for which the Nodes after a Node have room.
    after = np.cumsum(capacities[:, ::-1], axis=1)[:, ::-1] - capacities
    requests, allowed = room.requests.tolist(), sum(counts) - least
    stages: list[_Stage] = []
    states: tuple[_Pods, ...] = (counts,)
    for node in range(len(nodes)):
        free, later = room.free[:, nodes[node]].tolist(), after[:, node].tolist()
        stage: _Stage = {}
        for left in states:
            most = tuple(min(pods, int(fit)) for pods, fit in zip(left, capacities[:, node], strict=True))
            for pattern in _patterns(most, requests, free):
                if not budget.spend():
                    return None
                rest = tuple(pods - pod for pods, pod in zip(left, pattern, strict=True))
                if sum(max(0, pods - int(room_)) for pods, room_ in zip(rest, later, strict=True)) <= allowed:
                    stage.setdefault(rest, (left, pattern))
        stages.append(stage)
        states = tuple(stage)
        if not states:
            return None
    accelerators = [member.accelerators for member in room.members]
    best = min(states, key=lambda left: (sum(left), sum(map(mul, left, accelerators)), left))
    taken = np.zeros_like(room.fit)
    columns = []
    for stage in reversed(stages):
        best, pattern = stage[best]
        columns.append(pattern)
    taken[:, nodes] = np.array(columns[::-1], np.int64).T
    return taken


def _patterns(most: _Pods, requests: list[list[int]], free: list[int]) -> Iterator[_Pods]:
    """The sets of Pods that a Node can hold, without those of which another one holds more of the last member."""
    if not most:
        yield ()
        return
    own, *others = requests
    fit = min((amount // request for request, amount in zip(own, free, strict=True) if request), default=most[0])
    largest = min(most[0], fit)
    for pods in range(largest, -1, -1) if others else (largest,):
        rest = [amount - pods * request for amount, request in zip(free, own, strict=True)]
        for pattern in _patterns(most[1:], others, rest):
            yield (pods, *pattern)


_MOST_SETS = 64
# A greedy packing takes as long, for each member, as so many steps.
_PACK = 4


def packed(room: Room, budget: Budget) -> Integers | None:
    """A packing of the whole gang on these Nodes, by member and Node; None if none is known when the budget ends."""
    budget.steps -= _PACK * len(room.members)
    whole, pods = np.zeros(len(room.rows), np.int32), int(room.counts.sum())
    if len(room.members) == 1:
        taken = first(room.fit[0], whole[:1], pods)[None]
    else:
        taken = pack(room, whole)
        if int(taken.sum()) < pods and hopeful(room, whole, capacities(room, whole, 1))[0]:
            return packing(room, pods, budget)
    return taken if int(taken.sum()) == pods else None


def fewest(room: Room, groups: Codes, budget: Budget) -> tuple[int, ...]:
    """The fewest of the domains that hold the gang; all of them if it does not fit. groups: by Node of the room.

    For Pods that are alike it is exact; for others too where there are few sets of domains to try, and else the domains
    with the most room are taken one after the other until the gang fits.
    """
    names, inverse = np.unique(groups, return_inverse=True)
    numbers = inverse.astype(np.int32)
    fit = capacities(room, numbers, len(names))
    if len(room.members) == 1:
        # The largest, and as the last one the smallest that is enough.
        count, order = int(room.counts[0]), np.lexsort((np.arange(len(names)), -fit[0]))
        sums = np.cumsum(fit[0][order])
        last = int(np.searchsorted(sums, count))
        if last >= len(order):
            return tuple(int(names[number]) for number in order)
        rest = count - (int(sums[last - 1]) if last else 0)
        enough = [int(number) for number in order[last:] if fit[0][number] >= rest]
        smallest = min(enough, key=lambda number: (int(fit[0][number]), number))
        return tuple(int(names[number]) for number in sorted([*order[:last].tolist(), smallest]))
    tries = 0
    sums = np.cumsum(np.sort(fit, axis=1)[:, ::-1], axis=1)
    least = 1 + int((sums < room.counts[:, None]).sum(axis=1).max())
    for size in range(least, len(names)):
        for chosen in combinations(range(len(names)), size):
            tries += 1
            if tries > _MOST_SETS or budget.steps <= 0:
                return _one_by_one(room, names, numbers, size, budget)
            enough = (fit[:, chosen].sum(axis=1) >= room.counts).all()
            if enough and packed(room.at(np.flatnonzero(np.isin(numbers, chosen))), budget) is not None:
                return tuple(int(names[number]) for number in chosen)
    return tuple(map(int, names))


def _one_by_one(room: Room, names: Codes, numbers: Codes, least: int, budget: Budget) -> tuple[int, ...]:
    fit = capacities(room, numbers, len(names))
    shares = (fit / np.maximum(room.counts, 1)[:, None]).sum(axis=0)
    order = np.lexsort((np.arange(len(names)), -shares))
    for size in range(least, len(names)):
        if budget.steps <= 0:
            break
        chosen = order[:size]
        if packed(room.at(np.flatnonzero(np.isin(numbers, chosen))), budget) is not None:
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


def is_safe(crowds: Sequence[Crowd], free: Callable[[str], Integers]) -> bool:
    """Whether each of these unbound Pods finds a Node, in whatever order. False also where that is not certain.

    free: what each Node has of a resource without any of these Pods. A Pod finds no Node if each one on which it may be
    lacks a resource for it. Of others that ask for the same each takes one of the places that there are for it; for
    others it is counted how many Nodes they can fill at most, resource by resource.
    """
    together = joined(crowds)
    return all(_finds(crowd, [other for other in together if other is not crowd], free) for crowd in together)


def _finds(crowd: Crowd, others: Sequence[Crowd], free: Callable[[str], Integers]) -> bool:
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
        pods = [(requests[name], count) for requests, count in rest if requests.get(name) and count]
        if not pods:
            continue
        # What has to be taken of each Node so that it lacks the resource for a Pod of these.
        costs = np.sort(columns[name][nodes] - amount + 1)
        total, number = sum(share * count for share, count in pods), sum(count for _, count in pods)
        largest = max(share for share, _ in pods)
        by_amount = int(np.searchsorted(np.cumsum(costs), total, side="right"))
        by_number = int(np.searchsorted(np.cumsum(-(-costs // largest)), number, side="right"))
        full += min(by_amount, by_number)
    return full < int(nodes.sum())
