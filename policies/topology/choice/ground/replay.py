"""The promises gone through once more after a change.

Only those are looked at that share Nodes with what changed, directly or by others; what all others take stays. The
result is the same as if all were gone through: a promise takes the same where it finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from policies.topology.choice.ground.address import Values
from policies.topology.choice.ground.page import Entry, Page, counts
from policies.topology.choice.pack.exact import Budget
from policies.topology.choice.pack.greedy import pack
from policies.topology.choice.pack.room import Room, requests
from policies.topology.choice.pack.spread import packed
from policies.topology.choice.stock import Integers, Mask, Stock
from policies.topology.gang.gang import Member
from policies.topology.gang.promise import Promise
from policies.topology.gang.size import excess

_STEPS = 500


class Replay:
    """The way from the last page to the next. priority: as in `Stock.free`."""

    def __init__(self, stock: Stock, values: Values, priority: int | None, last: Page | None) -> None:
        self._stock = stock
        self._values = values
        self._priority = priority
        empty = Page(stock.edition, stock.size, (), {}, {})
        self._last = last if last is not None and last.size == stock.size else empty
        self._is_same = self._last.edition == stock.edition
        # The rows on which a promise may not find what it found last time.
        self._changed = np.zeros(stock.size, bool)

    def page(self, promises: Iterable[Promise]) -> Page:
        """The next page. promises: in their order."""
        entries, is_known = self._aligned(promises)
        free = self._free(entries)
        overlap = _Overlap(entries)
        area = self._area(entries, is_known, overlap)
        left = {resource: column.copy() for resource, column in free.items()}
        for index in overlap.indices(area):
            entry = entries[index]
            if not is_known[index] or self._changed[entry.rows].any():
                entry = entries[index] = self._anew(entry, left, is_known=is_known[index])
            for resource, amounts in zip(entry.resources, entry.amounts, strict=True):
                left[resource][entry.rows] -= amounts
        sums = {resource: self._sum(resource, column, left[resource], area) for resource, column in free.items()}
        return Page(self._stock.edition, self._stock.size, tuple(entries), free, sums)

    def _aligned(self, promises: Iterable[Promise]) -> tuple[list[Entry], list[bool]]:
        """An entry for each promise, and whether it is the last one's, in the same order."""
        earlier = self._last.entries
        places = {id(entry.promise): place for place, entry in enumerate(earlier)}
        entries, is_known, at = [], [], 0
        for promise in promises:
            place, entry = places.get(id(promise), -1), None
            if place >= at:
                self._leave(earlier[at:place])
                at = place + 1
                entry = earlier[place] if self._is_same else self._still(earlier[place])
            entries.append(entry or self._blank(promise))
            is_known.append(entry is not None)
        self._leave(earlier[at:])
        return entries, is_known

    def _still(self, entry: Entry) -> Entry | None:
        """The entry, unless Nodes changed for it."""
        blank = self._blank(entry.promise)
        if np.array_equal(blank.rows, entry.rows) and np.array_equal(blank.is_open, entry.is_open):
            return entry
        self._leave([entry])
        return None

    def _leave(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._changed[entry.rows[entry.amounts.any(axis=0)]] = True

    def _members(self, promise: Promise) -> tuple[Member, ...]:
        """Those whose Pods count; none of a demand beyond all measure, which is not given a place."""
        members = tuple(member for member in promise.members if member.count and counts(member, self._priority))
        return () if excess(members) else members

    def _blank(self, promise: Promise) -> Entry:
        """The entry of a promise before it takes anything."""
        members = self._members(promise)
        rows = self._values.sorted(promise.address) if members else np.zeros(0, np.int64)
        resources = tuple(dict.fromkeys(name for member in members for name, _ in member.requests))
        is_open = np.array([self._stock.eligible(member)[0][rows] for member in members], bool)
        none = np.zeros((len(resources), len(rows)), np.int64)
        return Entry(promise, members, rows, is_open, resources, none, none)

    def _free(self, entries: Iterable[Entry]) -> dict[str, Integers]:
        resources = {name for resources in {entry.resources for entry in entries} for name in resources}
        free = {resource: self._stock.free(resource, self._priority) for resource in resources}
        for resource, column in free.items():
            if resource in self._last.free:
                self._changed |= column != self._last.free[resource]
        return free

    def _area(self, entries: Sequence[Entry], is_known: Sequence[bool], overlap: _Overlap) -> Mask:
        """The rows of all promises that share some with what changed, directly or by others, and the changed ones."""
        area = self._changed.copy()
        for entry, known in zip(entries, is_known, strict=True):
            if not known:
                area[entry.rows] = True
        size = -1
        while size != area.sum():
            size = area.sum()
            for index in overlap.indices(area):
                area[entries[index].rows] = True
        return area

    def _anew(self, entry: Entry, left: dict[str, Integers], *, is_known: bool) -> Entry:
        """The entry with what its Pods take of what is left: the same as before, if the same is left."""
        rows, members = entry.rows, entry.members
        free = np.array([left[resource][rows] for resource in entry.resources], np.int64)
        if is_known and np.array_equal(free, entry.free):
            return entry
        pods = np.array([member.count for member in members], np.int64)
        room = Room(members, entry.resources, requests(members, entry.resources), pods, rows, free, entry.is_open)
        places = packed(room, Budget(_STEPS))
        if places is None:
            places = pack(room, np.zeros(len(rows), np.int32))
        amounts = room.requests.T @ places
        before = entry.amounts if is_known else np.zeros_like(amounts)
        self._changed[rows[(amounts != before).any(axis=0)]] = True
        return entry._replace(free=free, amounts=amounts)

    def _sum(self, resource: str, free: Integers, left: Integers, area: Mask) -> Integers:
        last = self._last.sums.get(resource)
        return free - left if last is None else np.where(area, free - left, last)


class _Overlap:
    """Which entries have rows in an area."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._owners = [index for index, entry in enumerate(entries) if len(entry.rows)]
        rows = [entries[index].rows for index in self._owners]
        self._rows = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        self._starts = np.cumsum([0, *map(len, rows)])[:-1]

    def indices(self, area: Mask) -> list[int]:
        """The positions of those that have, in order."""
        if not self._owners:
            return []
        inside = np.logical_or.reduceat(area[self._rows], self._starts)
        return [self._owners[place] for place in np.flatnonzero(inside)]
