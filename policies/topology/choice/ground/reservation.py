"""The room that was promised to gangs and is not taken yet."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from policies.topology.choice.ground.address import Values
from policies.topology.choice.ground.atlas import Atlas
from policies.topology.choice.ground.page import Entry, Page, counts
from policies.topology.choice.ground.replay import Replay
from policies.topology.choice.stock import Integers, Stock
from policies.topology.gang.gang import GangKey
from policies.topology.gang.promise import Promise


class Reservations:
    """Promises with each Pod given a place in the promised domain, one promise after the other.

    Pods for which there is no room left take none: then the domain is full anyway.
    """

    def __init__(self, stock: Stock, promises: Sequence[Promise], values: Values, atlas: Atlas) -> None:
        self._stock = stock
        self._values = values
        self._atlas = atlas
        self._promises = sorted(promises, key=lambda promise: (promise.key, promise.until))
        self._pages: dict[int | None, Page] = {}
        self._last: tuple[int | None, GangKey, tuple[Entry, ...]] | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The promises with the rows of their domains, if no Pod makes room."""
        return self._page(None).entries

    def of(self, resource: str, priority: int | None, without: GangKey) -> Integers:
        """By row, what is promised of a resource to gangs other than one. priority: as in `Stock.free`.

        It is not to be written to.
        """
        page = self._page(priority)
        if resource not in page.resources:
            return np.zeros(self._stock.size, np.int64)
        others: Integers = page.sums[page.resources.index(resource)]
        own = self._of_gang(priority, without)
        others = others.copy() if own else others
        for entry in own:
            if resource in entry.room.resources:
                others[entry.room.rows] -= entry.amounts[entry.room.resources.index(resource)]
        return others

    def has_below(self, priority: int) -> bool:
        """Whether anything is promised to Pods below a priority."""
        return any(not counts(member, priority) for promise in self._promises for member in promise.members)

    def _of_gang(self, priority: int | None, key: GangKey) -> tuple[Entry, ...]:
        """The entries of a gang: of the last one that was asked about, as a question reads them several times."""
        if self._last is None or self._last[:2] != (priority, key):
            entries = self._page(priority).entries
            start = bisect_left(entries, key, key=_key)
            self._last = (priority, key, entries[start : bisect_right(entries, key, start, key=_key)])
        return self._last[2]

    def _page(self, priority: int | None) -> Page:
        if priority not in self._pages:
            last = self._atlas.pages.get(priority)
            page = Replay(self._stock, self._values, priority, last).page(self._promises)
            self._pages[priority] = self._atlas.turn(priority, page)
        return self._pages[priority]


def _key(entry: Entry) -> GangKey:
    return entry.promise.key
