"""The domains of one level, and which of them holds a gang."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby

import numpy as np

from policies.cached import cached_property
from policies.topology.choice.ground.layout import Layout
from policies.topology.choice.order import Ordered, ordered
from policies.topology.choice.pack import spread
from policies.topology.choice.pack.exact import Budget, packing
from policies.topology.choice.pack.greedy import capacities, hopeful, pack, placed
from policies.topology.choice.pack.room import Room
from policies.topology.choice.stock import Codes, Integers, Mask

_CERTAIN = 2
_MOST_TRIES = 20
# Domains with so many Nodes are packed at once.
_TOGETHER = 256


class Domains:
    """The domains of a level with the room for a gang in them. amounts: as in `order.ordered`.

    also: what else has to hold for a domain.
    """

    def __init__(
        self,
        layout: Layout,
        level: int,
        room: Room,
        amounts: Integers,
        budget: Budget,
        also: Callable[[int], bool] | None = None,
    ) -> None:
        self.layout = layout
        self.level = level
        self.room = room
        self.amounts = amounts
        self.budget = budget
        self._also = also
        self.size = len(layout.first(level))
        self.nearer = layout.nearer(level)
        self.groups: Codes = layout.groups(level)[room.rows]
        self.capacities = capacities(room, self.groups, self.size)
        self.possible: Mask = hopeful(room, self.groups, self.capacities) & layout.carries(level)
        # Those that were packed, and of these those that hold the gang without a search.
        self._tried: Mask = np.zeros(self.size, bool)
        self._easy: Mask = np.zeros(self.size, bool)
        self._together = _TOGETHER
        self._fits: dict[int, bool] = {}
        self._most: dict[int, Integers] = {}

    def most(self, groups: Sequence[int]) -> Integers:
        """How many Pods of each member have a place, by member and one of these domains. Exact where that is cheap."""
        new = [group for group in groups if group not in self._most]
        if new:
            self._most.update(zip(new, self._searched(new).T, strict=True))
        return np.array([self._most[group] for group in groups], np.int64).reshape(-1, len(self.room.counts)).T

    def _searched(self, groups: Sequence[int]) -> Integers:
        found = self._packed(groups)
        is_most = (found == self.capacities[:, groups]).all(axis=0).tolist()
        for index, group in enumerate(groups):
            if self.budget.steps <= 0:
                break
            if is_most[index]:
                continue
            inside = self.room.at(np.flatnonzero(self.groups == group))
            better = packing(inside, int(found[:, index].sum()), self.budget)
            if better is not None:
                found[:, index] = better.sum(axis=1)
        return found

    def _packed(self, groups: Sequence[int] | Integers) -> Integers:
        """How many Pods of each member have a place without a search, by member and one of these domains."""
        if len(self.room.members) == 1 or not len(groups):
            return self.capacities[:, groups]
        chosen = np.zeros(self.size, bool)
        chosen[groups] = True
        nodes = np.flatnonzero(chosen[self.groups])
        return placed(pack(self.room.at(nodes), self.groups[nodes]), self.groups[nodes], self.size)[:, groups]

    def fits(self, group: int) -> bool:
        """Whether the whole gang fits into a domain."""
        if group not in self._fits:
            self._fits[group] = self._packs(group) and (self._also is None or self._also(group))
        return self._fits[group]

    @cached_property
    def _order(self) -> Ordered:
        return ordered(self.layout, self.level, np.flatnonzero(self.possible), self.amounts)

    def _try(self, group: int) -> None:
        """Pack a domain, and some of the next in order, which takes little longer; more and more of them."""
        others = self._order.groups[~self._tried[self._order.groups]]
        nodes = np.cumsum(np.bincount(self.groups, minlength=self.size)[others])
        groups = np.union1d(group, others[: np.searchsorted(nodes, self._together)])
        self._together *= 2
        self._easy[groups] = (self._packed(groups) == self.room.counts[:, None]).all(axis=0)
        self._tried[groups] = True

    def _packs(self, group: int) -> bool:
        if not self.possible[group]:
            return False
        if not self._tried[group]:
            self._try(group)
        if self._easy[group]:
            return True
        if self.budget.steps <= 0:
            return False
        inside = self.room.at(np.flatnonzero(self.groups == group))
        return packing(inside, int(self.room.counts.sum()), self.budget) is not None

    def holding(self) -> Iterator[int]:
        """The domains that hold the gang, in order."""
        pairs = zip(self._order.ties.tolist(), self._order.groups.tolist(), strict=True)
        for _, tie in groupby(pairs, key=lambda pair: pair[0]):
            yield from self._fewest_first([group for _, group in tie])

    def _fewest_first(self, tie: list[int]) -> Iterator[int]:
        """Of domains that are equal so far, those that hold the gang, by point 5 and 6 of the order."""
        if len(tie) == 1 or self.nearer is None:
            yield from (group for group in tie if self.fits(group))
            return
        least = self._needed[tie].tolist()
        order = sorted(zip(least, tie, strict=True))
        if len(self.room.members) == 1 and self._also is None:
            yield from (group for _, group in order)
            return
        yield from self._in_fact(order, self.nearer)

    def _in_fact(self, order: Iterable[tuple[int, int]], nearer: int) -> Iterator[int]:
        """The domains that hold the gang, by how many nearer ones it needs in fact, which may be more than the least.

        The first two are certain, if not too many are equal; those after them are not worth the time.
        """
        heap: list[tuple[int, int]] = []
        certain = tries = 0
        for least, group in order:
            while heap and (heap[0] < (least, group) or certain >= _CERTAIN):
                yield heappop(heap)[1]
                certain += 1
            if self.fits(group):
                number = least if certain >= _CERTAIN or tries >= _MOST_TRIES else len(self.fewest(group, nearer))
                tries += 1
                heappush(heap, (number, group))
        while heap:
            yield heappop(heap)[1]

    @cached_property
    def _needed(self) -> Integers:
        """By domain, the fewest domains of the next nearer level that hold the Pods of each member for themselves."""
        inner = self.level if self.nearer is None else self.nearer
        room = self.room.at(np.flatnonzero(self.possible[self.groups]))
        fit = capacities(room, self.layout.groups(inner)[room.rows], len(self.layout.first(inner)))
        around = self.layout.around(inner, self.level)
        pairs = zip(fit, self.room.counts, strict=True)
        return np.asarray(
            np.maximum.reduce([spread.needed(own, around, self.size, int(count)) for own, count in pairs])
        )

    def fewest(self, group: int, inner: int) -> tuple[int, ...]:
        """The fewest domains of a nearer level that hold the gang inside a domain."""
        inside = self.room.at(np.flatnonzero(self.groups == group))
        return spread.fewest(inside, self.layout.groups(inner)[inside.rows], self.budget)
