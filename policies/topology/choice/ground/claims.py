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

from policies.topology.choice.ground.layout import WHOLE, Layout
from policies.topology.choice.ground.page import Entry
from policies.topology.choice.stock import Integers, Stock
from policies.topology.gang.gang import GangKey, Member

MOST = 2**50
"""So the sums of thousands of claims stay within 64 bits, whatever a tenant asks for."""


class Claim(NamedTuple):
    """What a gang that waits asks for in its domain. rows: of that, one at least.

    whole: what all its Pods ask for, those that are bound included, which go on only with the others. owed: what those
    without a Node ask for.
    """

    rows: Integers
    whole: int
    owed: int


def claims(stock: Stock, entries: Sequence[Entry], names: Sequence[str], own: GangKey) -> Iterator[Claim]:
    """The claims of other gangs. names: the resources that are counted, all together."""
    free = {name: stock.free(name) for name in names}
    for entry in entries:
        owed = demand(entry.room.members, names)
        key, rows = entry.promise.key, entry.room.rows
        if key == own or not owed or not len(rows):
            continue
        held = 0
        if stock.bound(key):
            held = sum(int((stock.free(name, None, key) - free[name])[rows].sum()) for name in names)
        yield Claim(rows, owed + held, owed)


def demand(members: Sequence[Member], names: Sequence[str]) -> int:
    """What Pods ask for of some resources, all together; at most MOST, which is more than any cluster has."""
    asked = sum(member.count * amount for member in members for name, amount in member.requests if name in names)
    return min(asked, MOST)


class Claims:
    """Claims by the domains of a topology."""

    def __init__(self, layout: Layout, given: Sequence[Claim]) -> None:
        self._layout = layout
        self._owed = np.array([claim.owed for claim in given], np.int64)
        self._whole = np.array([claim.whole for claim in given], np.int64)
        self._rows = np.concatenate([claim.rows for claim in given]) if given else np.zeros(0, np.int64)
        self._starts = np.cumsum([0, *(len(claim.rows) for claim in given)])[:-1]

    def owed(self, level: int) -> Integers:
        """By domain of a level, what gangs that wait inside it still lack."""
        return self._sums(level, self._owed)

    def excess(self, level: int, own: int, total: Integers) -> Integers:
        """By domain of a level, how much it and those around it lack for a gang beside all that wait there.

        own: what the gang asks for. total: what each row has of that for Pods.
        """
        lacking = np.zeros(len(self._layout.first(level)), np.int64)
        for outer in range(WHOLE, level + 1):
            groups = self._layout.groups(outer)[self._layout.present]
            size = len(self._layout.first(outer))
            room = np.bincount(groups, weights=total[self._layout.present], minlength=size).astype(np.int64)
            asked = self._sums(outer, self._whole)
            lacking += np.maximum(asked + own - room, 0)[self._layout.around(level, outer)]
        return lacking

    def _sums(self, level: int, amounts: Integers) -> Integers:
        """By domain of a level, the amounts of the claims that are in it as a whole."""
        sums = np.zeros(len(self._layout.first(level)), np.int64)
        if len(amounts):
            groups = self._layout.groups(level)[self._rows]
            last = np.maximum.reduceat(groups, self._starts)
            # Rows without a Node are in no domain.
            first = np.minimum.reduceat(np.where(groups < 0, len(sums), groups), self._starts)
            np.add.at(sums, first[first == last], amounts[first == last])
        return sums
