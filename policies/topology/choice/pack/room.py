"""The room for the members of a gang, Node by Node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from policies.topology.choice.stock import Integers, Mask
from policies.topology.gang.gang import Member


class Room(NamedTuple):
    """What members ask for and what Nodes have for them. Only Nodes on which any of the members may run are in it.

    members: with those that are alike made one. resources: those that any member asks for. requests: by member and
    resource. counts: by member. rows: the row of each Node in the stock. free: by resource and Node. open: by member
    and Node, whether it may run there.
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
        return self._replace(rows=self.rows[nodes], free=self.free[:, nodes], open=self.open[:, nodes])

    def capacity(self, member: int) -> Integers:
        """How many Pods of a member fit on each Node if nothing else runs there; at most all of them."""
        return capacity(self.requests[member], self.free, self.open[member], int(self.counts[member]))


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
