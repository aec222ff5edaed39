"""The domains of a topology's levels, as numbers for each Node, and their addresses.

A domain is identified by its value and the domains around it, because numbers repeat across fabrics. An independent
level (NVLink beside the network) is around nothing but a Node, and only the region and the zone are around it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.topology.gang import Address, Step
from policies.topology.nodes.inventory import ANYWHERE, Codes, Integers, Inventory, Mask
from policies.topology.topology import Level, natural
from policies.vocabulary import HOSTNAME, REGION, ZONE

WHOLE = -1
"""The level of which the whole cluster is the one domain."""

_WIDE = frozenset({REGION, ZONE})


class Layout:
    """The domains of all levels. present: the rows with a Node. order: these rows by the names of their Nodes."""

    def __init__(self, inventory: Inventory, tiers: tuple[Level, ...]) -> None:
        self.tiers = tiers
        self.present: Mask = inventory.eligible(ANYWHERE)[1].copy()
        names = inventory.names()
        self.order: Integers = np.array(sorted(np.flatnonzero(self.present), key=names.__getitem__), np.int64)
        self._codes: list[Codes] = []
        self._values: list[dict[int, str]] = []
        ranks = []
        for tier in tiers:
            codes = np.where(self.present, inventory.domains(tier.keys, distinct=tier.distinct), -1).astype(np.int32)
            used = map(int, np.unique(codes[codes >= 0]))
            values = {code: inventory.value(tier.keys, code, distinct=tier.distinct) for code in used}
            ordered = sorted(values, key=lambda code: (natural(values[code]), code))
            rank = np.zeros(max(values, default=-1) + 2, np.int64)
            rank[ordered] = np.arange(1, len(ordered) + 1)
            ranks.append(rank[codes])
            self._codes.append(codes)
            self._values.append(values)
        self._groups = [np.where(self.present, 0, -1).astype(np.int32)]
        for level in range(len(tiers)):
            self._groups.append(self._numbered([ranks[outer] for outer in self.around(level)] + [ranks[level]]))
        self._first = [_first(groups) for groups in self._groups]
        pairs = zip(self._codes, self._first[1:], strict=True)
        self._carries = [np.ones(len(self._first[0]), bool), *(codes[first] >= 0 for codes, first in pairs)]
        self._addresses: dict[tuple[int, int], Address] = {}

    def around(self, level: int) -> list[int]:
        """The levels whose domains contain those of a level, farthest first."""
        return [outer for outer in range(level) if self.contains(outer, level)]

    def contains(self, outer: int, level: int) -> bool:
        """Whether each domain of a level is inside one of a farther level."""
        if outer == WHOLE or not _WIDE.isdisjoint(self.tiers[outer].keys) or HOSTNAME in self.tiers[level].keys:
            return outer < level
        return outer < level and not (self.tiers[outer].independent or self.tiers[level].independent)

    def groups(self, level: int) -> Codes:
        """The number of the domain of a level by row, in the natural order of paths; -1 for a row without a Node.

        Nodes that lack the level share a number; see `carries`.
        """
        return self._groups[level + 1]

    def size(self, level: int) -> int:
        """How many numbers `groups` has."""
        return len(self._first[level + 1])

    def carries(self, level: int) -> Mask:
        """Whether the Nodes of a number carry the level, so that it is a domain."""
        return self._carries[level + 1]

    def outer(self, level: int, outer: int) -> Codes:
        """By domain of a level, the domain of a level around it."""
        return self.groups(outer)[self._first[level + 1]]

    def rows(self, level: int, group: int) -> Mask:
        """The Nodes of a domain."""
        return np.asarray(self.groups(level) == group)

    def nearer(self, level: int) -> Iterator[int]:
        """The nearer levels that any Node carries, farthest first."""
        return (tier for tier in range(level + 1, len(self.tiers)) if self.carries(tier).any())

    def row(self, level: int, group: int) -> int:
        """A row of a domain."""
        return int(self._first[level + 1][group])

    def address(self, level: int, group: int) -> Address:
        """The values that tell a domain from all others, farthest first; empty if none do, and for the whole cluster.

        It has a step for the level and for each level around it that the Nodes carry. Zone and region are in it only
        where domains in two of them have the same values otherwise.
        """
        if level == WHOLE:
            return ()
        if (level, group) not in self._addresses:
            self._addresses[level, group] = tuple(
                Step(self.tiers[tier].keys, self._values[tier][int(self._codes[tier][self.row(level, group)])])
                for tier in self._telling(level, group)
            )
        return self._addresses[level, group]

    def _telling(self, level: int, group: int) -> list[int]:
        """The levels whose values tell a domain from all others; none if no labels do."""
        row = self.row(level, group)
        tiers = [tier for tier in (*self.around(level), level) if self._codes[tier][row] >= 0]
        wide = [tier for tier in tiers if tier != level and not _WIDE.isdisjoint(self.tiers[tier].keys)]
        steps = [tier for tier in tiers if tier not in wide]
        while steps:
            same = self.present.copy()
            for tier in steps:
                same &= self._codes[tier] == self._codes[tier][row]
            if not (same & (self.groups(level) != group)).any():
                return steps
            if not wide:
                break
            steps.insert(0, wide.pop())
        return []

    def _numbered(self, ranks: list[Integers]) -> Codes:
        """A number for each row, by the order of its ranks."""
        paths = np.zeros(len(self.present), np.int64)
        for rank in ranks:
            # Numbered after each level, so that the product of two stays within 64 bits.
            paths = paths * (int(rank.max(initial=0)) + 1) + rank
            paths = np.unique(paths, return_inverse=True)[1].ravel()
        groups = np.full(len(paths), -1, np.int32)
        groups[self.present] = np.unique(paths[self.present], return_inverse=True)[1].ravel()
        return groups


class Layouts:
    """The layouts of an inventory, which are made anew only when a Node changes."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._edition: tuple[int, int] | None = None
        self._made: dict[tuple[Level, ...], Layout] = {}

    def of(self, tiers: tuple[Level, ...]) -> Layout:
        """The layout of these levels."""
        if self._edition != self._inventory.edition:
            self._made.clear()
            self._edition = self._inventory.edition
        if tiers not in self._made:
            self._made[tiers] = Layout(self._inventory, tiers)
        return self._made[tiers]


def _first(groups: Codes) -> Integers:
    first = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
    rows = np.flatnonzero(groups >= 0)[::-1]
    first[groups[rows]] = rows
    return first
