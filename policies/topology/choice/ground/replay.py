"""The promises gone through once more after a change.

Only those are packed again for which something else is left than last time; what all others take stays. The result is
the same as if all were: a promise takes the same where it finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_

import numpy as np

from policies.topology.choice.ground.address import Values
from policies.topology.choice.ground.page import Entry, Page, bits, counts
from policies.topology.choice.pack.exact import Budget
from policies.topology.choice.pack.room import Room, requests
from policies.topology.choice.pack.spread import most
from policies.topology.choice.stock import Integers, Stock
from policies.topology.gang.gang import Member
from policies.topology.gang.promise import Promise
from policies.topology.gang.size import excess

_STEPS = 500

_Pair = tuple[Entry | None, Entry | None]
"""The entry of a promise on the last page, if it is still true or the promise has gone, and on the next one."""


class Replay:
    """The way from the last page to the next. priority: as in `Stock.free`."""

    def __init__(self, stock: Stock, values: Values, priority: int | None, last: Page | None) -> None:
        self._stock = stock
        self._values = values
        self._priority = priority
        none = np.zeros((0, stock.size), np.int64)
        empty = Page(stock.edition, stock.size, (), (), none, none)
        self._last = last if last is not None and last.size == stock.size else empty

    def page(self, promises: Iterable[Promise]) -> Page:
        """The next page. promises: in their order."""
        pairs = list(self._pairs(promises))
        of_entries = {entry.room.resources for pair in pairs for entry in pair if entry is not None}
        resources = tuple(sorted({name for names in of_entries for name in names}))
        columns = [self._stock.free(name, self._priority) for name in resources]
        free = np.array(columns, np.int64).reshape(-1, self._stock.size)
        new = reduce(or_, (now.bits for before, now in pairs if before is None and now is not None), 0)
        turns = _Turns(self._last, resources, free, new)
        return Page(self._stock.edition, self._stock.size, tuple(turns.entries(pairs)), resources, free, turns.sums)

    def _pairs(self, promises: Iterable[Promise]) -> Iterator[_Pair]:
        """The entries of the last page and the promises, both in their order."""
        earlier, at = self._last.entries, 0
        is_same = self._last.edition == self._stock.edition
        places = {id(entry.promise): place for place, entry in enumerate(earlier)}
        for promise in promises:
            place = places.get(id(promise), -1)
            if place < at:
                yield None, self._blank(promise)
                continue
            yield from ((entry, None) for entry in earlier[at:place])
            at = place + 1
            yield from self._same(earlier[place]) if not is_same else ((earlier[place], earlier[place]),)
        yield from ((entry, None) for entry in earlier[at:])

    def _same(self, entry: Entry) -> Sequence[_Pair]:
        """The entry, or another one if Nodes changed for it."""
        blank = self._blank(entry.promise)
        if np.array_equal(blank.room.rows, entry.room.rows) and np.array_equal(blank.room.open, entry.room.open):
            return ((entry, entry),)
        return (entry, None), (None, blank)

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
        pods = np.array([member.count for member in members], np.int64)
        none = np.zeros((len(resources), len(rows)), np.int64)
        room = Room(members, resources, requests(members, resources), pods, rows, none, is_open)
        return Entry(promise, room, bits(rows, self._stock.size), none)


class _Turns:
    """What is left for the promises, one after the other. new: the rows of those that are not on the last page."""

    def __init__(self, last: Page, resources: tuple[str, ...], free: Integers, new: int) -> None:
        self._positions = {name: position for position, name in enumerate(resources)}
        self._new = new
        # What is left for those that are new; true in their rows alone.
        self._left = free.copy() if new else free
        # How much more is left at this turn than at the same turn of the last page, and where that may not be 0.
        self._more = free - _aligned(last.resources, last.free, resources, free)
        self._changed = bits(np.flatnonzero(self._more.any(axis=0)), last.size)
        self._last_sums = _aligned(last.resources, last.sums, resources, np.zeros_like(free)) + self._more

    @property
    def sums(self) -> Integers:
        """What those that had their turn take together, by resource and row."""
        return np.asarray(self._last_sums - self._more)

    def entries(self, pairs: Iterable[_Pair]) -> Iterator[Entry]:
        """The entries of all promises that have not gone."""
        for before, now in pairs:
            if before is not None and before is now and not before.bits & (self._changed | self._new):
                yield before
            elif (entry := self._entry(before, now)) is not None:
                yield entry

    def _entry(self, before: Entry | None, now: Entry | None) -> Entry | None:
        """The entry of the next promise; None for one that has gone."""
        if before is None and now is not None:
            now = _taking(now, self._left[self._cells(now)])
            self._leave(now, -now.amounts)
        elif before is not None and now is None:
            self._leave(before, before.amounts)
        elif before is not None and before.bits & self._changed:
            now = self._again(before)
        if now is not None and now.bits & self._new:
            self._left[self._cells(now)] -= now.amounts
        return now

    def _again(self, before: Entry) -> Entry:
        """The entry with what its Pods take of what is left: the same as before, if the same is left."""
        more = self._more[self._cells(before)]
        if not more.any():
            return before
        now = _taking(before, before.room.free + more)
        self._leave(now, before.amounts - now.amounts)
        return now

    def _leave(self, entry: Entry, more: Integers) -> None:
        """Leave more than on the last page to those after an entry."""
        rows = entry.room.rows[more.any(axis=0)]
        if len(rows):
            self._more[self._cells(entry)] += more
            self._changed |= bits(rows, self._more.shape[1])

    def _cells(self, entry: Entry) -> tuple[Integers, Integers]:
        positions = [self._positions[name] for name in entry.room.resources]
        return np.array(positions, np.int64)[:, None], entry.room.rows


def _taking(entry: Entry, free: Integers) -> Entry:
    """The entry with what its Pods take of something."""
    room = entry.room.having(free)
    places = most(room, Budget(_STEPS))
    return Entry(entry.promise, room, entry.bits, room.requests.T @ places)


def _aligned(given: tuple[str, ...], columns: Integers, resources: tuple[str, ...], others: Integers) -> Integers:
    """The columns of given resources in the order of some resources; where one is not given that of the others."""
    if given == resources:
        return columns
    pairs = zip(resources, others, strict=True)
    chosen = [columns[given.index(name)] if name in given else other for name, other in pairs]
    return np.array(chosen, np.int64).reshape(others.shape)
