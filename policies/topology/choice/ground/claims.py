"""Gangs that wait: what was promised to them, and how much of it they still lack.

Two gangs that wait in one domain may each get a part of what is freed there, and then wait for each other for ever,
since kube-scheduler gives Nodes to Pods, not to gangs. It cannot happen where both fit beside each other once all that
runs has ended. So a gang that has to wait goes where it fits beside those that wait already: in the domain itself and
in each domain around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from policies.topology.choice.ground.address import Values
from policies.topology.choice.ground.layout import WHOLE, Layout
from policies.topology.choice.stock import Integers, Mask, Stock
from policies.topology.gang.gang import GangKey, Member
from policies.topology.gang.promise import Promise

MOST = 2**50
"""So the sums of thousands of claims stay within 64 bits, whatever a tenant asks for."""


class Claim(NamedTuple):
    """What a gang that waits asks for in its domain. rows: of that.

    whole: what all its Pods ask for, those that are bound included, which go on only with the others. owed: what those
    without a Node ask for.
    """

    rows: Mask
    whole: int
    owed: int


def claims(
    stock: Stock, promises: Sequence[Promise], values: Values, names: Sequence[str], own: GangKey
) -> Iterator[Claim]:
    """The claims of other gangs. names: the resources that are counted, all together."""
    free = {name: stock.free(name) for name in names}
    for promise in promises:
        rows = values.matched(promise.address)
        owed = demand(promise.members, names)
        if promise.key != own and owed and rows.any():
            held = sum(int((stock.free(name, None, promise.key) - free[name])[rows].sum()) for name in names)
            yield Claim(rows, owed + held, owed)


def demand(members: Sequence[Member], names: Sequence[str]) -> int:
    """What Pods ask for of some resources, all together; at most MOST, which is more than any cluster has."""
    asked = sum(member.count * amount for member in members for name, amount in member.requests if name in names)
    return min(asked, MOST)


class Claims:
    """Claims by the domains of a topology."""

    def __init__(self, layout: Layout, given: Sequence[Claim]) -> None:
        self._layout = layout
        self._given = given

    def owed(self, level: int) -> Integers:
        """By domain of a level, what gangs that wait inside it still lack."""
        return self._sums(level, [claim.owed for claim in self._given])

    def excess(self, level: int, own: int, total: Integers) -> Integers:
        """By domain of a level, how much it and those around it lack for a gang beside all that wait there.

        own: what the gang asks for. total: what each row has of that for Pods.
        """
        lacking = np.zeros(len(self._layout.first(level)), np.int64)
        for outer in range(WHOLE, level + 1):
            groups = self._layout.groups(outer)[self._layout.present]
            size = len(self._layout.first(outer))
            room = np.bincount(groups, weights=total[self._layout.present], minlength=size).astype(np.int64)
            asked = self._sums(outer, [claim.whole for claim in self._given])
            lacking += np.maximum(asked + own - room, 0)[self._layout.around(level, outer)]
        return lacking

    def _sums(self, level: int, amounts: Sequence[int]) -> Integers:
        sums = np.zeros(len(self._layout.first(level)), np.int64)
        groups = self._layout.groups(level)
        for claim, amount in zip(self._given, amounts, strict=True):
            inside = groups[claim.rows & self._layout.present]
            if len(inside) and (inside == inside[0]).all():
                sums[inside[0]] += amount
        return sums
