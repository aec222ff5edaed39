"""What is remembered from one question to the next."""

from __future__ import annotations

import numpy as np

from policies.topology.choice.ground.address import Values
from policies.topology.choice.ground.layout import Layout
from policies.topology.choice.stock import Integers, Mask, Stock
from policies.topology.gang.gang import Member, Tier, Toleration
from policies.topology.gang.promise import Promise

Signature = tuple[bytes, ...]
_MOST_PACKED = 2000

# It may run on every Node that there is, if the Node gets well.
_ANYWHERE = Member("", 1, (), tolerations=(Toleration("", "Exists"),))


class Atlas:
    """Layouts by levels, for a caller that asks again: Nodes seldom change, what runs on them always does."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[Tier, ...], Layout] = {}
        self._packed: dict[Promise, tuple[Signature, Integers]] = {}
        self._values: Values | None = None
        self._names: list[str] = []
        self._order: Integers = np.zeros(0, np.int64)

    def values(self, stock: Stock) -> Values:
        """The Nodes by the values of their labels."""
        self._values = Values(stock, self.order(stock), self._values)
        return self._values

    def packed(self, promise: Promise, signature: Signature) -> Integers | None:
        """What a promise takes, if it was packed before in the same room. signature: of the room."""
        known = self._packed.get(promise)
        return known[1] if known and known[0] == signature else None

    def keep(self, promise: Promise, signature: Signature, amounts: Integers) -> None:
        """Remember what a promise takes."""
        if len(self._packed) >= _MOST_PACKED:
            del self._packed[next(iter(self._packed))]
        self._packed[promise] = (signature, amounts)

    def order(self, stock: Stock) -> Integers:
        """All rows by the names of their Nodes, so that what is done one by one does not depend on the rows."""
        names = stock.names()
        if names != self._names:
            self._names = list(names)
            self._order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
        return self._order

    def layout(self, stock: Stock, tiers: tuple[Tier, ...]) -> Layout:
        """The layout of these levels: the one that was made before, if each Node is where it was."""
        present = stock.eligible(_ANYWHERE)[1]
        layout = self._layouts.get(tiers)
        if layout is None or not _same(layout, stock, present):
            layout = self._layouts[tiers] = Layout(stock, tiers, present.copy())
        return layout


def _same(layout: Layout, stock: Stock, present: Mask) -> bool:
    if not np.array_equal(layout.present, present):
        return False
    pairs = zip(layout.tiers, layout.levels, strict=True)
    return all(
        np.array_equal(level.codes[present], stock.domains(tier.keys, distinct=tier.distinct)[present])
        for tier, level in pairs
    )
