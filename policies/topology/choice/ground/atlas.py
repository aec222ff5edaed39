"""What is remembered from one question to the next."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from policies.topology.choice.ground.address import Addresses, Values
from policies.topology.choice.ground.layout import Layout
from policies.topology.choice.ground.page import Page
from policies.topology.choice.stock import Integers, Mask, Stock
from policies.topology.gang.gang import Member, Tier, Toleration

_MOST_PAGES = 8

# It may run on every Node that there is, if the Node gets well.
_ANYWHERE = Member("", 1, (), tolerations=(Toleration("", "Exists"),))


class Atlas:
    """For a caller that asks again: Nodes seldom change, what runs on them always does.

    pages: what promises took last, by the priority of `Stock.free`.
    """

    def __init__(self) -> None:
        self._addresses: dict[tuple[Tier, ...], tuple[Hashable, Addresses]] = {}
        self.pages: dict[int | None, Page] = {}
        self._edition: Hashable = None
        self._values: Values | None = None
        self._names: list[str] = []
        self._order: Integers = np.zeros(0, np.int64)

    def places(self, stock: Stock) -> tuple[Integers, Values]:
        """All rows by the names of their Nodes, and the Nodes by the values of their labels.

        What is done one by one is done in the order of names, so that it does not depend on the rows.
        """
        if self._values is None or self._values.is_full or self._edition != stock.edition:
            names = stock.names()
            if names != self._names:
                self._names = names
                self._order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
            self._values = Values(stock, self._order, self._values)
            self._edition = stock.edition
        return self._order, self._values

    def turn(self, priority: int | None, page: Page) -> Page:
        """Remember a page, which is returned."""
        self.pages.pop(priority, None)
        if len(self.pages) >= _MOST_PAGES:
            del self.pages[next(iter(self.pages))]
        self.pages[priority] = page
        return page

    def addresses(self, stock: Stock, tiers: tuple[Tier, ...]) -> Addresses:
        """The addresses of these levels: those that were made before, if no Node changed."""
        edition, known = self._addresses.get(tiers, (None, None))
        if known is None or edition != stock.edition:
            present = stock.eligible(_ANYWHERE)[1]
            is_same = known is not None and _same(known.layout, stock, present)
            layout = known.layout if known is not None and is_same else Layout(stock, tiers, present.copy())
            known = Addresses(layout, stock)
            self._addresses[tiers] = (stock.edition, known)
        return known


def _same(layout: Layout, stock: Stock, present: Mask) -> bool:
    if not np.array_equal(layout.present, present):
        return False
    pairs = zip(layout.tiers, layout.levels, strict=True)
    return all(
        np.array_equal(level.codes[present], stock.domains(tier.keys, distinct=tier.distinct)[present])
        for tier, level in pairs
    )
