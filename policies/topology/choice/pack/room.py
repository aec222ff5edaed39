"""The room for the members of a gang, Node by Node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from policies.cached import cached_property
from policies.topology.choice.stock import Integers, Mask
from policies.topology.gang.gang import Member


@dataclass(frozen=True)
class Room:
    """What members ask for and what Nodes have for them.

    Only Nodes with room for a Pod of any of the members are in it. members: with those that are alike made one.
    resources: those that any member asks for. requests: by member and resource. counts: by member. rows: the row of
    each Node in the stock. free: by resource and Node. open: by member and Node, whether a Pod may run there and has
    room.
    """

    members: tuple[Member, ...]
    resources: tuple[str, ...]
    requests: Integers
    counts: Integers
    rows: Integers
    free: Integers
    open: Mask

    def inside(self, rows: Mask) -> Room:
        """The room on Nodes of these rows of the stock."""
        return self.at(np.flatnonzero(rows[self.rows]))

    def at(self, nodes: Integers) -> Room:
        """The room on some of its Nodes, by their position in it."""
        room = replace(self, rows=self.rows[nodes], free=self.free[:, nodes], open=self.open[:, nodes])
        # What fits on a Node does not depend on the others.
        vars(room)["fit"] = self.fit[:, nodes]
        return room

    def having(self, free: Integers) -> Room:
        """The same Nodes with something else free."""
        return Room(self.members, self.resources, self.requests, self.counts, self.rows, free, self.open)

    @cached_property
    def fit(self) -> Integers:
        """How many Pods of each member fit on each Node if nothing else runs there, at most all; by member and Node."""
        return np.stack(
            [
                capacity(requests, self.free, is_open, int(count))
                for requests, is_open, count in zip(self.requests, self.open, self.counts, strict=True)
            ]
        )


def capacity(requests: Integers, free: Integers, is_open: Mask, count: int) -> Integers:
    """How many Pods with these requests fit on each Node, at most `count`."""
    fit = np.where(is_open, count, 0)
    for resource in np.flatnonzero(requests):
        np.minimum(fit, free[resource] // requests[resource], out=fit)
    return fit


def alike(members: Sequence[Member], masks: Sequence[Mask]) -> tuple[tuple[Member, int], ...]:
    """Members that ask for the same and may run on the same Nodes as one: the first of them, and the Pods of all."""
    sums: dict[tuple[object, bytes], tuple[Member, int]] = {}
    for member, mask in zip(members, masks, strict=True):
        key = (member.requests, mask.tobytes())
        one, count = sums.get(key, (member, 0))
        sums[key] = (one, count + member.count)
    return tuple(sums.values())


def requests(members: Sequence[Member], resources: Sequence[str]) -> Integers:
    """What each Pod asks for, by member and resource."""
    asked = [dict(member.requests) for member in members]
    return np.array([[amounts.get(name, 0) for name in resources] for amounts in asked], np.int64)
