"""The address of a domain, and the Nodes of an address."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from policies.topology.choice.ground.layout import WHOLE, Layout
from policies.topology.choice.stock import Codes, Integers, Mask, Stock
from policies.topology.gang.address import Address, Step
from policies.vocabulary.keys import REGION, ZONE

_MOST_ADDRESSES = 1000
_WIDE = frozenset({REGION, ZONE})


class Addresses:
    """The addresses of a layout's domains with the keys that the Nodes carry now."""

    def __init__(self, layout: Layout, stock: Stock) -> None:
        self.layout = layout
        self._stock = stock
        self._common: dict[int, tuple[str, ...]] = {}
        self._known: dict[tuple[int, int], Address] = {}

    def one(self, level: int, group: int) -> Address:
        """The address of a domain; empty if no labels tell it from others, and for the whole cluster.

        It has a step for the level and for each level around it that the Nodes carry. Zone and region are in it only
        where domains in two of them have the same values otherwise.
        """
        known = self._known.get((level, group))
        if known is None:
            steps = self.layout.telling.get((level, group))
            if steps is None:
                steps = self.layout.telling[level, group] = _telling(self.layout, level, group)
            known = tuple(Step(tier, self._keys(tier, level, group), (value,)) for tier, value in steps)
            self._known[level, group] = known
        return known

    def several(self, level: int, groups: Iterable[int]) -> Address:
        """Domains of a level in one address, each step with the values of all. Good enough for a preference only."""
        steps: dict[int, dict[str, None]] = {}
        keys: dict[int, dict[str, None]] = {}
        for group in sorted(groups):
            for step in self.one(level, group):
                steps.setdefault(step.tier, {}).update(dict.fromkeys(step.values))
                keys.setdefault(step.tier, {}).update(dict.fromkeys(step.keys))
        return tuple(Step(tier, tuple(keys[tier]), tuple(values)) for tier, values in sorted(steps.items()))

    def _keys(self, tier: int, level: int, group: int) -> tuple[str, ...]:
        """The keys under which Nodes of a domain have a level: mostly the same one for the whole cluster."""
        keys = self.layout.tiers[tier].keys
        if len(keys) == 1:
            return keys
        if tier not in self._common:
            carrying = self.layout.levels[tier].codes >= 0
            newest = (self._stock.domains(keys[:1])[carrying] >= 0).all()
            self._common[tier] = keys[:1] if newest else self._stock.carried(keys, carrying)
        common = self._common[tier]
        return common if len(common) == 1 else self._stock.carried(keys, self.layout.rows(level, group))


class _Known(NamedTuple):
    """Codes by keys with the code of each value, and the Nodes of addresses: as a mask, and by name."""

    columns: dict[tuple[str, ...], tuple[Codes, dict[str, int]]]
    masks: dict[Address, Mask]
    rows: dict[Address, Integers]


class Values:
    """The Nodes with given values. Kept from stock to stock, because the addresses of many promises stay the same."""

    def __init__(self, stock: Stock, order: Integers, last: Values | None = None) -> None:
        """order: all rows by the names of their Nodes. last: what was known of an earlier stock, if it still holds."""
        self._stock = stock
        self._order = order
        self.known = _Known({}, {}, {})
        if last is not None and last.holds(stock, order):
            earlier = last.known
            self.known = _Known(dict(earlier.columns), dict(earlier.masks), dict(earlier.rows))

    @property
    def is_full(self) -> bool:
        """Whether so much is remembered that it is time to forget."""
        return len(self.known.masks) >= _MOST_ADDRESSES

    def holds(self, stock: Stock, order: Integers) -> bool:
        """Whether the Nodes of a stock have the same rows and values."""
        return (
            not self.is_full
            and np.array_equal(order, self._order)
            and all(np.array_equal(stock.domains(keys), codes) for keys, (codes, _) in self.known.columns.items())
        )

    def matched(self, address: Address) -> Mask:
        """The Nodes with the values of all steps of an address."""
        rows = self.known.masks.get(address)
        if rows is None:
            rows = np.ones(self._stock.size, bool)
            for step in address:
                rows &= self._having(step)
            self.known.masks[address] = rows
        return rows

    def sorted(self, address: Address) -> Integers:
        """The rows of these Nodes, by the names of the Nodes."""
        rows = self.known.rows.get(address)
        if rows is None:
            rows = self.known.rows[address] = self._order[self.matched(address)[self._order]]
        return rows

    def _having(self, step: Step) -> Mask:
        if step.keys not in self.known.columns:
            codes = self._stock.domains(step.keys)
            used = map(int, np.unique(codes[codes >= 0]))
            self.known.columns[step.keys] = (codes, {self._stock.value(step.keys, code): code for code in used})
        codes, known = self.known.columns[step.keys]
        own = [known[value] for value in step.values if value in known]
        return np.asarray(codes == own[0] if len(own) == 1 else np.isin(codes, own))


def _telling(layout: Layout, level: int, group: int) -> tuple[tuple[int, str], ...]:
    """The levels, with the values, that tell a domain from all others, farthest first; none if no labels do."""
    if level == WHOLE:
        return ()
    row = int(layout.first(level)[group])
    tiers = [tier for tier in range(level + 1) if layout.levels[tier].codes[row] >= 0]
    wide = [tier for tier in tiers if tier != level and not _WIDE.isdisjoint(layout.tiers[tier].keys)]
    steps = [tier for tier in tiers if tier not in wide]
    while True:
        same = layout.present.copy()
        for tier in steps:
            codes = layout.levels[tier].codes
            same &= codes == codes[row]
        if not (same & (layout.groups(level) != group)).any():
            return tuple((tier, layout.levels[tier].values[int(layout.levels[tier].codes[row])]) for tier in steps)
        if not wide:
            return ()
        steps.insert(0, wide.pop())
