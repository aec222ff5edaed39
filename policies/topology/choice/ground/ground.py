"""The Nodes at one time, and what is free on them beside what was promised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.topology.choice.ground.address import Addresses
from policies.topology.choice.ground.atlas import Atlas
from policies.topology.choice.ground.claims import Claim, claims
from policies.topology.choice.ground.layout import Layout
from policies.topology.choice.ground.reservation import Reservations
from policies.topology.choice.pack.room import Room, alike, requests
from policies.topology.choice.stock import Integers, Mask, Stock
from policies.topology.gang.address import Address
from policies.topology.gang.gang import GangKey, Member, Tier
from policies.topology.gang.promise import Promise


class Ground:
    """A stock with promises."""

    def __init__(self, stock: Stock, promises: Sequence[Promise], atlas: Atlas) -> None:
        self.stock = stock
        self._atlas = atlas
        self._order, self._values = atlas.places(stock)
        self._promised = Reservations(stock, promises, self._values, atlas)
        # Of the gang that was asked about last: its question reads them several times.
        self._free: dict[tuple[str, GangKey, int | None], Integers] = {}
        self._last: GangKey | None = None
        self._layouts: dict[tuple[Tier, ...], Addresses] = {}

    def addresses(self, tiers: tuple[Tier, ...]) -> Addresses:
        """The addresses of the domains of these levels."""
        if tiers not in self._layouts:
            self._layouts[tiers] = self._atlas.addresses(self.stock, tiers)
        return self._layouts[tiers]

    def layout(self, tiers: tuple[Tier, ...]) -> Layout:
        """The domains of these levels."""
        return self.addresses(tiers).layout

    def matched(self, address: Address) -> Mask:
        """The Nodes of an address."""
        return self._values.matched(address)

    def room(self, key: GangKey, members: Sequence[Member], priority: int | None = None) -> Room:
        """The room that is free now, for members of a gang. priority: as in `Stock.free`."""
        return self._room(members, [self.stock.eligible(member)[0] for member in members], key, priority)

    def whole(self, members: Sequence[Member]) -> Room:
        """The room if nothing else ran and each Node was well, for members."""
        return self._room(members, [self.stock.eligible(member)[1] for member in members], None, None)

    def free(self, resource: str, key: GangKey, priority: int | None = None) -> Integers:
        """What is free of a resource on each Node, and not promised to other gangs; never below 0."""
        question = (resource, key, priority)
        if question not in self._free:
            if key != self._last:
                self._free.clear()
                self._last = key
            free = self.stock.free(resource, priority, key)
            free -= self._promised.of(resource, priority, key)
            self._free[question] = np.maximum(free, 0, out=free)
        return self._free[question]

    def claims(self, names: Sequence[str], key: GangKey) -> tuple[Claim, ...]:
        """What other gangs that wait ask for of some resources."""
        return tuple(claims(self.stock, self._promised.entries, names, key))

    def yields(self, members: Sequence[Member], priority: int) -> bool:
        """Whether Pods below a priority have, or are promised, any of what the members ask for."""
        resources = {name for member in members for name, _ in member.requests}
        return self._promised.has_below(priority) or any(
            not np.array_equal(self.stock.free(name, priority), self.stock.free(name)) for name in resources
        )

    def promised(self, resource: str, key: GangKey) -> Integers:
        """What is promised of a resource to other gangs, on each Node."""
        return self._promised.of(resource, None, key)

    def _room(self, members: Sequence[Member], masks: list[Mask], key: GangKey | None, priority: int | None) -> Room:
        pairs = alike(members, masks)
        chosen = [member for member, _ in pairs]
        resources = tuple(sorted({name for member in chosen for name, amount in member.requests if amount}))
        asked = requests(chosen, resources)
        columns = [
            self.stock.allocatable(name) if key is None else self.free(name, key, priority) for name in resources
        ]
        own = np.stack([masks[members.index(member)] for member in chosen])
        for column, amounts in zip(columns, asked.T, strict=True):
            own &= column >= amounts[:, None]
        rows = self._order[np.asarray(own.any(axis=0))[self._order]]
        counts = np.array([count for _, count in pairs], np.int64)
        free = np.array([column[rows] for column in columns], np.int64)
        return Room(tuple(chosen), resources, asked, counts, rows, free, own[:, rows])
