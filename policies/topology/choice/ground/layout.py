"""The domains of a topology's levels, as numbers for each Node.

A domain is identified by its value and the domains around it, as in `nodes.tree`: Nodes with the same number have the
same values on the whole path. The numbers of a level are in the natural order of the values on the path.
"""

from __future__ import annotations

import numpy as np

from policies.topology.choice.stock import Codes, Integers, Mask, Stock
from policies.topology.gang.gang import Tier
from policies.topology.nodes.tree import natural

WHOLE = -1
"""The level of which the whole cluster is the one domain."""


class Level:
    """A level: a code for each row, the value of each code and its rank in the natural order."""

    def __init__(self, stock: Stock, tier: Tier, present: Mask) -> None:
        codes = stock.domains(tier.keys, distinct=tier.distinct)
        self.codes: Codes = np.where(present, codes, -1).astype(np.int32)
        used = np.unique(self.codes[self.codes >= 0])
        self.values = {int(code): stock.value(tier.keys, int(code), distinct=tier.distinct) for code in used}
        ordered = sorted(self.values, key=lambda code: (natural(self.values[code]), code))
        ranks = np.zeros(int(used[-1]) + 2 if len(used) else 1, np.int64)
        ranks[ordered] = np.arange(1, len(ordered) + 1)
        self.size = len(ordered) + 1
        self.ranks: Integers = ranks[self.codes]


class Layout:
    """The domains of all levels. present: the rows with a Node. telling: kept by `address.Addresses`."""

    def __init__(self, stock: Stock, tiers: tuple[Tier, ...], present: Mask) -> None:
        self.tiers = tiers
        self.present = present
        self.levels = tuple(Level(stock, tier, present) for tier in tiers)
        self.telling: dict[tuple[int, int], tuple[tuple[int, str], ...]] = {}
        self._groups: list[Codes] = [np.where(present, 0, -1).astype(np.int32)]
        for level in self.levels:
            paths = self._groups[-1].astype(np.int64) * level.size + level.ranks
            groups = np.full(len(present), -1, np.int32)
            groups[present] = np.unique(paths[present], return_inverse=True)[1].ravel()
            self._groups.append(groups)
        self._told: dict[int, Mask] = {}
        self._around: dict[tuple[int, int], Codes] = {}
        self._first = [_first(groups) for groups in self._groups]
        pairs = zip(self.levels, self._first[1:], strict=True)
        self._carries = [np.ones(len(self._first[0]), bool), *(level.codes[first] >= 0 for level, first in pairs)]

    def groups(self, level: int) -> Codes:
        """The number of the path down to a level by row; -1 for a row without a Node.

        Nodes that lack the level share a path, as they share a branch of the tree; see `carries`.
        """
        return self._groups[level + 1]

    def first(self, level: int) -> Integers:
        """A row of each path of a level."""
        return self._first[level + 1]

    def carries(self, level: int) -> Mask:
        """Whether the path's Nodes carry the level, so that it is a domain, by path."""
        return self._carries[level + 1]

    def around(self, level: int, outer: int) -> Codes:
        """By path of a level, the path of a farther level that it is in."""
        if (level, outer) not in self._around:
            self._around[level, outer] = self.groups(outer)[self.first(level)]
        return self._around[level, outer]

    def is_told(self, level: int) -> Mask:
        """By path of a level, whether the values of its Nodes tell it from all others; the whole cluster is."""
        if level not in self._told:
            self._told[level] = self._is_told(level)
        return self._told[level]

    def _is_told(self, level: int) -> Mask:
        """Paths differ in a level that one of them lacks, too; then the values that it has may be another's as well."""
        first = self.first(level)
        told = np.ones(len(first), bool)
        if level == WHOLE:
            return told
        codes = np.stack([one.codes for one in self.levels[: level + 1]])
        carried = codes[:, first] >= 0
        for pattern in np.unique(carried, axis=1).T:
            own = (carried == pattern[:, None]).all(axis=0)
            if not pattern.all():
                told[own] = pattern.any() and self._is_alone(codes[pattern], level)[own]
        return told

    def _is_alone(self, codes: Codes, level: int) -> Mask:
        """By path of a level, whether no Node of another one has the same codes."""
        groups = self.groups(level)[self.present]
        same = np.unique(codes[:, self.present], axis=1, return_inverse=True)[1].ravel()
        least = np.full(int(same.max()) + 1, len(self.first(level)))
        most = np.full(len(least), -1)
        np.minimum.at(least, same, groups)
        np.maximum.at(most, same, groups)
        alone = np.zeros(len(self.first(level)), bool)
        alone[groups] = (least == most)[same]
        return alone

    def rows(self, level: int, group: int) -> Mask:
        """The Nodes of a path."""
        return np.asarray(self.groups(level) == group)

    def nearer(self, level: int) -> int | None:
        """The next nearer level that any Node carries; None if there is none."""
        return next((tier for tier in range(level + 1, len(self.tiers)) if self.carries(tier).any()), None)


def _first(groups: Codes) -> Integers:
    first = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
    rows = np.flatnonzero(groups >= 0)[::-1]
    first[groups[rows]] = rows
    return first
