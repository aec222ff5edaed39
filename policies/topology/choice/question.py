"""What is asked about one gang, and the domains of its levels as answers to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from policies.cached import cached_property
from policies.topology.choice.domains import Domains
from policies.topology.choice.ground.claims import Claims, demand
from policies.topology.choice.ground.ground import Ground
from policies.topology.choice.ground.layout import WHOLE
from policies.topology.choice.measure import devices, measure
from policies.topology.choice.pack.exact import Budget
from policies.topology.choice.pack.room import Room
from policies.topology.choice.stock import Integers, Mask
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Gang

STEPS = 4000
"""So many steps of an exact packing take some milliseconds."""


class Question:
    """Which domain a gang gets. kept: the one that it already has, or empty.

    narrower: further gangs of the workload whose domains are inside it. within: the Nodes on which it may be.
    """

    def __init__(
        self, ground: Ground, gang: Gang, kept: Address, narrower: Sequence[Gang] = (), within: Mask | None = None
    ) -> None:
        self.ground = ground
        self.gang = gang
        self.members = tuple(member for one in (gang, *narrower) for member in one.members if member.count)
        self.addresses = ground.addresses(gang.tiers)
        self.layout = self.addresses.layout
        self.required = WHOLE if gang.required is None else gang.required
        self.measure = measure(self.members)
        self.asking = [m for m in self.members if not self.gang.accelerators or devices(m)]
        self.budget = Budget(STEPS)
        self._rooms: dict[int | None, Room] = {}
        self._within = within
        self._kept = kept
        self.kept = self._place(kept)

    @property
    def unknown(self) -> str:
        """Why no domain can be chosen; empty if one can."""
        name = f"{self.gang.key.kind} {self.gang.key.name!r}"
        if not self.members:
            return f"{name} has no Pods to place yet: a domain is chosen when it has"
        if claims := sorted({claim for member in self.members for claim in member.claims}):
            shown = ", ".join(claims[:3]) + (f" and {len(claims) - 3} more" if len(claims) > 3 else "")
            return f"it is not known which Nodes have devices for {shown}: name a domain, such as LEVEL=VALUE"
        if not any(self.layout.carries(level).any() for level in self.levels):
            tier = self.gang.tiers[self.levels[-1] if self.required != WHOLE else self.levels[0]]
            keys = " or ".join(tier.keys)
            return f"no Node has the label {keys}: use a level or a topology whose labels the Nodes have"
        return ""

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels in the order in which they are tried: the preferred one, and those around it to the required."""
        nearest = self.required if self.gang.preferred is None else max(self.gang.preferred, self.required)
        if self.kept:
            nearest = min(nearest, self.kept[0])
        return tuple(range(nearest, self.required - 1, -1))

    @cached_property
    def priority(self) -> int | None:
        """The priority that counts if Pods may be preempted: the lowest of its Pods.

        None if one of them must not preempt, or if nothing could be gained by it.
        """
        priorities = [member.priority for member in self.members]
        known = [priority for priority in priorities if priority is not None]
        may = len(known) == len(priorities) and all(member.preempts for member in self.members)
        return min(known) if may and self.ground.yields(self.members, min(known)) else None

    def room(self, priority: int | None = None) -> Room:
        """What is free now; with a priority, what is free or can be freed by preemption."""
        if priority not in self._rooms:
            self._rooms[priority] = self._inside(self.ground.room(self.gang.key, self.members, priority))
        return self._rooms[priority]

    @cached_property
    def whole(self) -> Room:
        """What there would be if nothing else ran and each Node was well."""
        return self._inside(self.ground.whole(self.members))

    def _inside(self, room: Room) -> Room:
        return room if self._within is None else room.inside(self._within)

    def domains(
        self, level: int, room: Room, priority: int | None = None, also: Callable[[int], bool] | None = None
    ) -> Domains:
        """The domains of a level with some room. also: what else has to hold for a domain."""
        return Domains(self.layout, level, room, self.amounts(priority), self.budget, also)

    def amounts(self, priority: int | None = None) -> Integers:
        """By row, what is free of what is measured, on Nodes on which Pods that ask for it may run now."""
        free = sum(self.ground.free(name, self.gang.key, priority) for name in self.measure)
        return np.where(self.is_open, free, 0)

    @cached_property
    def is_open(self) -> Mask:
        """The rows on which Pods that ask for what is measured may run now."""
        return np.asarray(np.logical_or.reduce([self.ground.stock.eligible(member)[0] for member in self.asking]))

    @property
    def pods(self) -> int:
        """The Pods of all members."""
        return sum(member.count for member in self.members)

    @cached_property
    def columns(self) -> tuple[Integers, Integers, Integers, Integers]:
        """By row: whether there is a Node, and its free, total and promised accelerators."""
        names = self.measure if self.gang.accelerators else ()
        none = np.zeros(self.ground.stock.size, np.int64)
        promised = sum((self.ground.promised(name, self.gang.key) for name in names), none)
        promised = np.where(self.is_open, promised, 0)
        total = sum((self.ground.stock.allocatable(name) for name in names), none)
        free = self.amounts() if names else none
        return self.layout.present.astype(np.int64), free + promised, total, promised

    def sums(self, level: int, groups: Sequence[int]) -> Integers:
        """The columns summed by domain, for some domains of a level."""
        of_rows = self.layout.groups(level)
        chosen = np.zeros(len(self.layout.first(level)) + 1, bool)
        chosen[groups] = True
        rows = np.flatnonzero(chosen[of_rows])
        sums = [np.bincount(of_rows[rows], column[rows], len(chosen)) for column in self.columns]
        return np.stack(sums).astype(np.int64)[:, groups]

    def claims(self, level: int) -> Integers:
        """By domain of a level: what lacks there for this gang beside all that wait, and what those still lack."""
        claims = Claims(self.layout, self.ground.claims(self.measure, self.gang.key))
        eventually = np.logical_or.reduce([self.ground.stock.eligible(member)[1] for member in self.asking])
        total = sum(self.ground.stock.allocatable(name) for name in self.measure)
        own = demand(self.members, self.measure)
        return np.stack([claims.excess(level, own, np.where(eventually, total, 0)), claims.owed(level)])

    def address(self, level: int, group: int) -> Address:
        """The address of a domain: the one that is kept, or its own."""
        if self.kept and self.kept == (level, group):
            return self._kept
        return self.addresses.one(level, group)

    def accelerators(self, room: Room) -> Integers:
        """The accelerators of a Pod of each member of a room."""
        return np.array([member.accelerators for member in room.members], np.int64)

    def eligible(self, level: int, groups: Iterable[int]) -> Iterator[int]:
        """Those of the domains that the gang may get: they have an address, and contain the kept domain."""
        own, told = self.around(level), self.is_told(level)
        return (group for group in groups if group == own or (own is None and told[group]))

    def is_told(self, level: int) -> Mask:
        """By domain of a level, whether it has an address, or is the whole cluster."""
        return self.layout.is_told(level)

    def around(self, level: int) -> int | None:
        """The domain of a level that contains the kept one; None without a kept one."""
        return int(self.layout.around(self.kept[0], level)[self.kept[1]]) if self.kept else None

    def _place(self, kept: Address) -> tuple[int, int] | None:
        """The level and the number of the domain with an address; None if there are no Nodes in it any more."""
        level = kept[-1].tier if kept else WHOLE
        if not self.required <= level < len(self.gang.tiers) or level == WHOLE:
            return None
        groups = self.layout.groups(level)[self.ground.matched(kept) & self.layout.present]
        groups = groups[self.layout.carries(level)[groups]]
        return (level, int(np.bincount(groups).argmax())) if len(groups) else None
