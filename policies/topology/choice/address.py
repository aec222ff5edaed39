"""The address of a domain, and the Nodes of an address."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from policies.topology.choice.layout import WHOLE, Layout
from policies.topology.choice.stock import Mask, Stock
from policies.topology.gang.address import Address, Step
from policies.topology.topology import REGION, ZONE

_WIDE = frozenset({REGION, ZONE})


class Addresses:
    """The addresses of a layout's domains with the keys that the Nodes carry now."""

    def __init__(self, layout: Layout, stock: Stock) -> None:
        self.layout = layout
        self._stock = stock
        self._common: dict[int, tuple[str, ...]] = {}

    def one(self, level: int, group: int) -> Address:
        """The address of a domain; empty if no labels tell it from others, and for the whole cluster.

        It has a step for the level and for each level around it that the Nodes carry. Zone and region are in it only
        where domains in two of them have the same values otherwise.
        """
        known = self.layout.telling
        steps = known.get((level, group))
        if steps is None:
            steps = known[level, group] = _telling(self.layout, level, group)
        return tuple(Step(tier, self._keys(tier, level, group), (value,)) for tier, value in steps)

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
            self._common[tier] = self._stock.carried(keys, self.layout.levels[tier].codes >= 0)
        common = self._common[tier]
        return common if len(common) == 1 else self._stock.carried(keys, self.layout.rows(level, group))


class Values:
    """The Nodes with given values. Kept for a while, because the addresses of many promises have the same keys."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self._codes: dict[tuple[str, ...], dict[str, int]] = {}

    def matched(self, address: Address) -> Mask:
        """The Nodes with the values of all steps of an address."""
        rows = np.ones(self._stock.size, bool)
        for step in address:
            rows &= self._rows(step)
        return rows

    def _rows(self, step: Step) -> Mask:
        codes = self._stock.domains(step.keys)
        known = self._codes.get(step.keys)
        if known is None:
            used = map(int, np.unique(codes[codes >= 0]))
            known = self._codes[step.keys] = {self._stock.value(step.keys, code): code for code in used}
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
