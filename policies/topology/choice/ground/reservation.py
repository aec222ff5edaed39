"""The room that was promised to gangs and is not taken yet."""

from __future__ import annotations

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

    def of(self, resource: str, priority: int | None, without: GangKey) -> Integers:
        """By row, what is promised of a resource to gangs other than one. priority: as in `Stock.free`."""
        page = self._page(priority)
        if resource not in page.resources:
            return np.zeros(self._stock.size, np.int64)
        others: Integers = page.sums[page.resources.index(resource)].copy()
        for entry in self._of_gang(priority, without):
            if resource in entry.resources:
                others[entry.rows] -= entry.amounts[entry.resources.index(resource)]
        return others

    def has_below(self, priority: int) -> bool:
        """Whether anything is promised to Pods below a priority."""
        return any(not counts(member, priority) for promise in self._promises for member in promise.members)

    def _of_gang(self, priority: int | None, key: GangKey) -> tuple[Entry, ...]:
        """The entries of a gang: of the last one that was asked about, as a question reads them several times."""
        if self._last is None or self._last[:2] != (priority, key):
            entries = tuple(entry for entry in self._page(priority).entries if entry.promise.key == key)
            self._last = (priority, key, entries)
        return self._last[2]

    def _page(self, priority: int | None) -> Page:
        if priority not in self._pages:
            last = self._atlas.pages.get(priority)
            page = Replay(self._stock, self._values, priority, last).page(self._promises)
            self._pages[priority] = self._atlas.turn(priority, page)
        return self._pages[priority]
