"""Which domain a gang gets, and which Node each of its Pods.

1. One in which it fits now comes before one in which Pods of lower priority have to make room.
2. With a preferred level, one of that level that holds the whole gang; else one of the next farther level that does,
   down to the required level, or to the whole cluster.
3. The one with the least free of what the gang asks for: accelerators, or cpu if it asks for none, on Nodes on which
   Pods that ask for it may run now.
4. The one with the least free in the domain around it, so that the largest blocks stay whole: the next domain around
   first, then the next farther one, up to the farthest level.
5. The one in which the gang needs the fewest domains of the next nearer level that any Node carries.
6. The first in the natural order of the values of its path, farthest level first.

Inside it the gang gets as few domains of each nearer level as can be, and its Pods are placed by rank: neighbours in
rank are in the same domain of each nearer level. The same gang and the same Nodes give the same choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import groupby, islice
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from policies.cached import cached_property
from policies.kubernetes.name import matches_glob
from policies.podspec import DEVICE_CLASS_PREFIX, Accelerators
from policies.topology import pack
from policies.topology.gang import Address, Gang, Member, Step
from policies.topology.nodes.inventory import ANYWHERE, Codes, Integers, Inventory, Mask, PodKey
from policies.topology.nodes.manifest import PODS, Amounts
from policies.topology.pack import Budget, Crowd, Room
from policies.topology.topology import Level, natural
from policies.vocabulary import HOSTNAME, REGION, ZONE

STEPS: Final = 4000
"""So many steps of an exact packing take some milliseconds."""

MOST_CONSIDERED: Final = 20
"""The domains that are shown beside a choice."""

_MOST_NESTED = 8
_CERTAIN = 2
_MOST_TRIES = 20
# Domains with so many Nodes are packed at once.
_TOGETHER = 256
_ACCELERATORS = (*Accelerators().resources, f"{DEVICE_CLASS_PREFIX}*")


class Ground(Struct):
    """The Nodes at one time. held: by resource and row, what is free and kept for Pods that are still to come."""

    inventory: Inventory
    layouts: Layouts
    held: Mapping[str, Integers] = {}

    def free(self, resource: str, priority: int | None = None, leaving: Sequence[PodKey] = ()) -> Integers:
        """What is free of a resource on each Node; see `Inventory.free`."""
        free = self.inventory.free(resource, priority, leaving)
        held = self.held.get(resource)
        return free if held is None else np.maximum(free - held, 0)


class Terms(Struct, frozen=True):
    """On what terms a gang is placed. within: the Nodes on which it may be; None for all.

    priority: Pods below it make room; None if none do. leaving: Pods that count as gone. empty: whether to count as if
    nothing ran and each Node were well.
    """

    within: Mask | None = None
    priority: int | None = None
    leaving: tuple[PodKey, ...] = ()
    empty: bool = False


class Placing(NamedTuple):
    """The domain of a gang, by level and number, and how many Pods of each member of the room its Nodes get."""

    level: int
    group: int
    room: Room
    taken: Integers


Also = Callable[[Gang, int, int], bool]


class Candidate(Struct, frozen=True):
    """A domain. pods: how many of the gang's Pods fit. free, total: accelerators in it. missing: see `shortage`."""

    address: Address
    nodes: int
    free: int
    total: int
    pods: int
    fits: bool
    missing: Amounts = ()


class Shortfall(Struct, frozen=True):
    """A gang that no domain can hold even if nothing else ran. best_pods, best_accelerators: of the largest domain.

    largest: its address; empty if the Pods may run on no Node of one. wider: the name of the nearest level above of
    which a domain could hold it; empty if none.
    """

    level: str
    pods: int
    accelerators: int
    best_pods: int
    best_accelerators: int
    largest: Address = ()
    wider: str = ""


class Search:
    """The domains for one gang on some terms."""

    def __init__(self, ground: Ground, gang: Gang, terms: Terms = Terms()) -> None:  # noqa: B008 - immutable
        self.gang = gang
        self.layout: Layout = ground.layouts.of(gang.tiers)
        self.required = WHOLE if gang.required is None else gang.required
        self.budget = Budget(STEPS)
        self._ground = ground
        self._terms = terms
        self._levels: dict[int, _Level] = {}

    @property
    def levels(self) -> range:
        """The levels in the order in which they are tried: the preferred one, and those around it to the required."""
        nearest = self.required if self.gang.preferred is None else max(self.gang.preferred, self.required)
        return range(nearest, self.required - 1, -1)

    @cached_property
    def room(self) -> Room:
        """What there is for the gang on the Nodes on which it may be."""
        return self._room(self.gang.members)

    def placing(self, also: Callable[[int, int], bool] | None = None) -> Iterator[Placing]:
        """The placings, best first. also: what else has to hold for a domain, by level and number."""
        for level in self.levels:
            if level != WHOLE and not self.layout.contains(self.required, level) and level != self.required:
                # A preferred level that is no part of the required one: the gang has to be in one domain of each.
                yield from self._crossing(level, also)
                continue
            for group in self._of(level).holding(also):
                if (made := self.packed(level, group, self.layout.rows(level, group))) is not None:
                    yield made

    def _crossing(self, level: int, also: Callable[[int, int], bool] | None) -> Iterator[Placing]:
        """The placings in a domain of the required level and one of a nearer level that is independent of it."""
        for group in self._of(self.required).holding(also):
            rows = self.layout.rows(self.required, group)
            gang = replace(self.gang, required=level, preferred=None)
            within = rows if self._terms.within is None else rows & self._terms.within
            inside = Search(self._ground, gang, replace(self._terms, within=within))
            for nearer in islice(inside.placing(), 1):
                made = self.packed(self.required, group, rows & self.layout.rows(level, nearer.group))
                if made is not None:
                    yield made

    def candidates(self, number: int = MOST_CONSIDERED) -> list[Candidate]:
        """The first domains of the required level, those with room for the most Pods first."""
        level, layout = self._of(self.required), self.layout
        groups = [group for group in np.flatnonzero(layout.carries(self.required)).tolist() if level.has_address(group)]
        order, _ = level.order(np.array(groups, np.int64))
        pods = level.most(groups).sum(axis=0) if groups else np.zeros(0, np.int64)
        rank = {int(group): place for place, group in enumerate(order)}
        best = sorted(zip(groups, pods.tolist(), strict=True), key=lambda pair: (-pair[1], rank[pair[0]]))
        asked = sum(member.count for member in self.room.members)
        made = []
        for group, count in best[:number]:
            rows = layout.rows(self.required, group)
            fits = count == asked == self.gang.pods and level.fits(group)
            missing = () if fits else self.shortage(level.most([group])[:, 0], self.room)
            amounts = (int(rows.sum()), self.total(rows, free=True), self.total(rows))
            made.append(Candidate(layout.address(self.required, group), *amounts, count, fits, missing))
        return made

    def slots(self, placing: Placing) -> tuple[tuple[int, ...], ...]:
        """The rows for the Pods of each of the gang's members, in the order of ranks."""
        rows = placing.room.rows
        # Domains of farther levels come first, those of the nearest level are the last key; then names.
        levels = reversed(range(len(self.layout.tiers)))
        nodes = np.lexsort(
            (np.arange(len(rows)), *(self.layout.groups(level)[rows].astype(np.int64) for level in levels))
        )
        by_member = {
            id(member): [int(rows[node]) for node in nodes for _ in range(int(taken[node]))]
            for member, taken in zip(placing.room.members, placing.taken, strict=True)
        }
        eligible = self._ground.inventory.eligible
        queues: list[tuple[int, ...]] = []
        for member in self.gang.members:
            alike = next(
                other
                for other in placing.room.members
                if member is other
                or (member.requests == other.requests and np.array_equal(eligible(member)[0], eligible(other)[0]))
            )
            places = by_member[id(alike)]
            queues.append(tuple(places[: member.count]))
            del places[: member.count]
        return tuple(queues)

    def address(self, rows: Mask) -> Address:
        """The address of the domain of the required level in which some Nodes are."""
        first = np.flatnonzero(rows)
        return (
            self.layout.address(self.required, int(self.layout.groups(self.required)[first[0]])) if len(first) else ()
        )

    def inside(self, address: Address) -> Mask:
        """The Nodes of a domain of the required level."""
        groups = np.flatnonzero(self.layout.carries(self.required))
        group = next(int(group) for group in groups if self.layout.address(self.required, int(group)) == address)
        return self.layout.rows(self.required, group)

    def shortage(self, pods: Integers, room: Room) -> Amounts:
        """What the Pods without a place ask for. pods: those with one, by member of the room."""
        left = (room.counts - pods).tolist()
        # Python's numbers: a template's may be larger than those of 64 bits.
        sums = (sum(n * amount for n, amount in zip(left, column, strict=True)) for column in room.requests.T.tolist())
        return tuple((name, total) for name, total in zip(room.resources, sums, strict=True) if total and name != PODS)

    def total(self, rows: Mask, *, free: bool = False) -> int:
        """The accelerators of the kinds that the gang asks for on some Nodes: all, or those that are free."""
        names = _measured(self.gang.members) if self.gang.accelerators else ()
        if not names:
            return 0
        columns = self._amounts if free else sum(self._ground.inventory.allocatable(name) for name in names)
        return int(np.asarray(columns)[rows].sum())

    def _of(self, level: int) -> _Level:
        if level not in self._levels:
            self._levels[level] = _Level(self.layout, level, self.room, self._amounts, self.budget)
        return self._levels[level]

    def packed(self, level: int, group: int, rows: Mask) -> Placing | None:
        """The placing on some Nodes of a domain: in as few domains of each nearer level as can be."""
        inside = self.room.inside(rows)
        for nearer in self.layout.nearer(level):
            groups = self.layout.groups(nearer)[inside.rows]
            if len(inside.members) == 1 or nearer < len(self.layout.tiers) - 1:
                inside = inside.at(np.flatnonzero(np.isin(groups, pack.fewest(inside, groups, Budget(STEPS)))))
        taken = pack.packed(inside, Budget(STEPS))
        return None if taken is None else Placing(level, group, inside, taken)

    @cached_property
    def _amounts(self) -> Integers:
        """By row, what is free of what is measured, on Nodes on which Pods that ask for it may run."""
        members = [m for m in self.gang.members if m.count and (not self.gang.accelerators or _devices(m))]
        eligible = self._ground.inventory.eligible
        masks = [eligible(member)[self._terms.empty] for member in members]
        is_open = np.logical_or.reduce(masks) if masks else self.layout.present
        return np.asarray(np.where(is_open, sum(map(self._column, _measured(self.gang.members))), 0))

    def _column(self, resource: str) -> Integers:
        if self._terms.empty:
            return self._ground.inventory.allocatable(resource)
        return self._ground.free(resource, self._terms.priority, self._terms.leaving)

    def _room(self, given: Sequence[Member]) -> Room:
        eligible = self._ground.inventory.eligible
        crowds = pack.joined(Crowd(one, one.count, eligible(one)[self._terms.empty]) for one in given if one.count)
        members = tuple(crowd.member for crowd in crowds)
        resources = tuple(sorted({name for member in members for name, amount in member.requests if amount}))
        asked = pack.requests(members, resources)
        columns = [self._column(name) for name in resources]
        is_open = np.stack([crowd.where for crowd in crowds])
        if self._terms.within is not None:
            is_open = is_open & self._terms.within
        for column, amounts in zip(columns, asked.T, strict=True):
            is_open = is_open & (column >= amounts[:, None])
        # What is done one by one is done in the order of names, so that it does not depend on the rows.
        rows = self.layout.order[np.asarray(is_open.any(axis=0))[self.layout.order]]
        counts = np.array([crowd.count for crowd in crowds], np.int64)
        free = np.array([column[rows] for column in columns], np.int64)
        most = np.array([1 if member.alone else np.iinfo(np.int64).max for member in members], np.int64)
        return Room(members, resources, asked, counts, rows, free, is_open[:, rows], most)


def choose(ground: Ground, gangs: Sequence[Gang], terms: Terms, also: Also | None = None) -> list[Placing] | None:
    """The placings of gangs, each inside the domain of the one before; None if they are not seen to fit so.

    Narrower gangs are placed before the Pods of the wider one around them. Of the wider one's domains the first few in
    order are tried. also: what else has to hold for a domain of a gang, by its level and number.
    """
    search = Search(ground, gangs[0], terms)
    own = None if also is None else partial(also, gangs[0])
    if len(gangs) == 1:
        return next(([made] for made in search.placing(own)), None)
    for placing in islice(search.placing(own), _MOST_NESTED):
        rows = search.layout.rows(placing.level, placing.group)
        within = rows if terms.within is None else rows & terms.within
        inside = replace(terms, within=within)
        inner = choose(ground, gangs[1:], inside, also)
        if inner is None:
            continue
        beside = Ground(ground.inventory, ground.layouts, taken(ground.held, inner, ground.inventory.size))
        made = Search(beside, gangs[0], inside).packed(placing.level, placing.group, within)
        if made is not None:
            return [made, *inner]
    return None


def taken(held: Mapping[str, Integers], placings: Iterable[Placing], size: int) -> dict[str, Integers]:
    """What is held by resource and row, and what the Pods of placings take."""
    total = dict(held)
    for placing in placings:
        room = placing.room
        for resource, amounts in zip(room.resources, room.requests.T @ placing.taken, strict=True):
            column = total.get(resource)
            column = np.zeros(size, np.int64) if column is None else column.copy()
            column[room.rows] += amounts
            total[resource] = column
    return total


def shortfall(inventory: Inventory, gang: Gang) -> Shortfall | None:
    """What no domain of the required level can hold, even if nothing else ran; None if one can hold the gang.

    A gang without a required level is looked at on all Nodes together.
    """
    ground = Ground(inventory, Layouts(inventory))
    search = Search(ground, gang, Terms(empty=True))

    def fits(required: int | None) -> bool:
        own = replace(gang, required=required, preferred=None)
        return next(Search(ground, own, Terms(empty=True)).placing(), None) is not None

    if fits(gang.required):
        return None
    level = "" if gang.required is None else gang.tiers[gang.required].name
    allows = any(inventory.eligible(member)[1].any() for member in gang.members)
    best = next(iter(search.candidates()), None) if allows else None
    wider = (
        gang.tiers[outer].name
        for outer in reversed(search.layout.around(search.required) if search.required != WHOLE else [])
        if fits(outer)
    )
    numbers = (best.pods, best.total, best.address) if best else (0, 0, ())
    return Shortfall(level, gang.pods, gang.accelerators, *numbers, next(wider, ""))


def _measured(members: Iterable[Member]) -> tuple[str, ...]:
    return tuple(sorted({name for member in members for name in _devices(member)})) or ("cpu",)


def _devices(member: Member) -> tuple[str, ...]:
    """The accelerator resources among the member's requests: those that add up to its accelerators.

    Which resources are accelerators is configured, so a resource of another name may be one. Among equal amounts, such
    as GPUs and network ports, the known names come first, then the first name.
    """
    if not member.accelerators:
        return ()
    extended = tuple((name, amount) for name, amount in member.requests if "/" in name and amount)
    known = tuple((name, amount) for name, amount in extended if matches_glob(name, _ACCELERATORS))
    if sum(amount for _, amount in known) == member.accelerators:
        return tuple(name for name, _ in known)
    name = next((name for name, amount in extended if amount == member.accelerators), "")
    return (name,) if name else tuple(name for name, _ in known or extended)


class _Level:
    """The domains of one level, and which of them holds a gang. amounts: what is free of what is measured, by row."""

    def __init__(self, layout: Layout, level: int, room: Room, amounts: Integers, budget: Budget) -> None:
        self.layout = layout
        self.level = level
        self.room = room
        self._amounts = amounts
        self._budget = budget
        self._size = layout.size(level)
        self._nearer = next(layout.nearer(level), None)
        self._groups: Codes = layout.groups(level)[room.rows]
        self._capacities = pack.capacities(room, self._groups, self._size)
        self._possible: Mask = pack.hopeful(room, self._groups, self._capacities) & layout.carries(level)
        # Those that were packed, and of these those that hold the gang without a search.
        self._tried: Mask = np.zeros(self._size, bool)
        self._easy: Mask = np.zeros(self._size, bool)
        self._together = _TOGETHER
        self._fits: dict[int, bool] = {}
        self._most: dict[int, Integers] = {}

    def has_address(self, group: int) -> bool:
        """Whether a domain has an address, or is the whole cluster."""
        return self.level == WHOLE or bool(self.layout.address(self.level, group))

    def holding(self, also: Callable[[int, int], bool] | None = None) -> Iterator[int]:
        """The domains that hold the gang, in order. also: what else has to hold for one."""
        pairs = zip(*(column.tolist() for column in self._order), strict=True)
        for _, tie in groupby(pairs, key=lambda pair: pair[1]):
            for group in self._fewest_first([group for group, _ in tie]):
                if self.has_address(group) and (also is None or also(self.level, group)):
                    yield group

    def fits(self, group: int) -> bool:
        """Whether the whole gang fits into a domain."""
        if group in self._fits:
            return self._fits[group]
        fits = False
        if self._possible[group]:
            if not self._tried[group]:
                # It is packed with some of the next in order, which takes little longer; more and more of them.
                groups = self._order[0]
                others = groups[~self._tried[groups]]
                nodes = np.cumsum(np.bincount(self._groups, minlength=self._size)[others])
                chosen = np.union1d(group, others[: np.searchsorted(nodes, self._together)])
                self._together *= 2
                self._easy[chosen] = (self._packed(chosen) == self.room.counts[:, None]).all(axis=0)
                self._tried[chosen] = True
            fits = bool(self._easy[group])
            if not fits and self._budget.steps > 0:
                inside = self.room.at(np.flatnonzero(self._groups == group))
                fits = pack.packing(inside, int(self.room.counts.sum()), self._budget) is not None
        self._fits[group] = fits
        return fits

    def most(self, groups: Sequence[int]) -> Integers:
        """How many Pods of each member have a place, by member and one of these domains. Exact where that is cheap."""
        new = [group for group in groups if group not in self._most]
        found = self._packed(new)
        is_most = (found == self._capacities[:, new]).all(axis=0).tolist()
        for index, group in enumerate(new):
            if not is_most[index] and self._budget.steps > 0:
                inside = self.room.at(np.flatnonzero(self._groups == group))
                better = pack.packing(inside, int(found[:, index].sum()), self._budget)
                if better is not None:
                    found[:, index] = better.sum(axis=1)
        self._most.update(zip(new, found.T, strict=True))
        return np.array([self._most[group] for group in groups], np.int64).reshape(-1, len(self.room.counts)).T

    def order(self, groups: Integers) -> tuple[Integers, Integers]:
        """Some domains in the order of points 3, 4 and 6, with a number that those have that differ in 6 alone."""
        rows = np.flatnonzero(self._amounts)  # rows without a Node have nothing free
        weights = self._amounts[rows]
        own = np.bincount(self.layout.groups(self.level)[rows], weights=weights, minlength=self._size)
        outer = [] if self.level == WHOLE else self.layout.around(self.level)
        around = [self.layout.outer(self.level, farther) for farther in outer]
        sums = (np.bincount(domains, weights=own)[domains] for domains in around)
        keys = [column.astype(np.int64)[groups] for column in (*sums, own)]
        order = np.lexsort((groups, *keys))
        same = np.zeros(len(groups), bool)
        if len(groups):
            same[1:] = np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])
        return groups[order], np.cumsum(~same)

    @cached_property
    def _order(self) -> tuple[Integers, Integers]:
        return self.order(np.flatnonzero(self._possible))

    def _packed(self, groups: Sequence[int] | Integers) -> Integers:
        if len(self.room.members) == 1 or not len(groups):
            return self._capacities[:, groups]
        chosen = np.zeros(self._size, bool)
        chosen[groups] = True
        nodes = np.flatnonzero(chosen[self._groups])
        own = self._groups[nodes]
        taken = pack.pack(self.room.at(nodes), own)
        sums = [np.bincount(own, weights=of_member, minlength=self._size) for of_member in taken]
        return np.stack(sums).astype(np.int64)[:, groups]

    def _fewest_first(self, tie: list[int]) -> Iterator[int]:
        """Of domains that are equal so far, those that hold the gang, by point 5 and 6 of the order.

        Different Pods may need more of the nearer domains in fact than the least. The first two are certain, if not too
        many are equal; those after them are not worth the time.
        """
        if len(tie) == 1 or self._nearer is None:
            yield from (group for group in tie if self.fits(group))
            return
        order = sorted(zip(self._needed[tie].tolist(), tie, strict=True))
        if len(self.room.members) == 1:
            yield from (group for _, group in order)
            return
        heap: list[tuple[int, int]] = []
        certain = tries = 0
        for least, group in order:
            while heap and (heap[0] < (least, group) or certain >= _CERTAIN):
                yield heappop(heap)[1]
                certain += 1
            if self.fits(group):
                number = least
                if certain < _CERTAIN and tries < _MOST_TRIES:
                    inside = self.room.at(np.flatnonzero(self._groups == group))
                    number = len(pack.fewest(inside, self.layout.groups(self._nearer)[inside.rows], self._budget))
                tries += 1
                heappush(heap, (number, group))
        while heap:
            yield heappop(heap)[1]

    @cached_property
    def _needed(self) -> Integers:
        """By domain, the fewest domains of the next nearer level that hold the Pods of each member for themselves."""
        inner = self.level if self._nearer is None else self._nearer
        nodes = np.flatnonzero(self._possible[self._groups])
        size = self.layout.size(inner)
        # A nearer domain may be a part of several domains; each part counts for itself.
        pairs = self._groups[nodes].astype(np.int64) * size + self.layout.groups(inner)[self.room.rows[nodes]]
        parts, numbers = np.unique(pairs, return_inverse=True)
        fit = pack.capacities(self.room.at(nodes), numbers.ravel().astype(np.int32), len(parts))
        needed = [
            pack.needed(own, parts // size, self._size, int(count))
            for own, count in zip(fit, self.room.counts, strict=True)
        ]
        return np.asarray(np.maximum.reduce(needed))


WHOLE = -1
"""The level of which the whole cluster is the one domain."""

_WIDE = frozenset({REGION, ZONE})


class Layout:
    """The domains of all levels. present: the rows with a Node. order: these rows by the names of their Nodes."""

    def __init__(self, inventory: Inventory, tiers: tuple[Level, ...]) -> None:
        self.tiers = tiers
        self.present: Mask = inventory.eligible(ANYWHERE)[1].copy()
        names = inventory.names()
        self.order: Integers = np.array(sorted(np.flatnonzero(self.present), key=names.__getitem__), np.int64)
        self._codes: list[Codes] = []
        self._values: list[dict[int, str]] = []
        ranks = []
        for tier in tiers:
            codes = np.where(self.present, inventory.domains(tier.keys, distinct=tier.distinct), -1).astype(np.int32)
            used = map(int, np.unique(codes[codes >= 0]))
            values = {code: inventory.value(tier.keys, code, distinct=tier.distinct) for code in used}
            ordered = sorted(values, key=lambda code: (natural(values[code]), code))
            rank = np.zeros(max(values, default=-1) + 2, np.int64)
            rank[ordered] = np.arange(1, len(ordered) + 1)
            ranks.append(rank[codes])
            self._codes.append(codes)
            self._values.append(values)
        self._groups = [np.where(self.present, 0, -1).astype(np.int32)]
        for level in range(len(tiers)):
            paths = np.zeros(len(self.present), np.int64)
            for rank in (*(ranks[outer] for outer in self.around(level)), ranks[level]):
                # Numbered after each level, so that the product of two stays within 64 bits.
                paths = paths * (int(rank.max(initial=0)) + 1) + rank
                paths = np.unique(paths, return_inverse=True)[1].ravel()
            groups = np.full(len(paths), -1, np.int32)
            groups[self.present] = np.unique(paths[self.present], return_inverse=True)[1].ravel()
            self._groups.append(groups)
        self._first = [_first(groups) for groups in self._groups]
        pairs = zip(self._codes, self._first[1:], strict=True)
        self._carries = [np.ones(len(self._first[0]), bool), *(codes[first] >= 0 for codes, first in pairs)]
        self._addresses: dict[tuple[int, int], Address] = {}

    def around(self, level: int) -> list[int]:
        """The levels whose domains contain those of a level, farthest first."""
        return [outer for outer in range(level) if self.contains(outer, level)]

    def contains(self, outer: int, level: int) -> bool:
        """Whether each domain of a level is inside one of a farther level."""
        if outer == WHOLE or not _WIDE.isdisjoint(self.tiers[outer].keys) or HOSTNAME in self.tiers[level].keys:
            return outer < level
        return outer < level and not (self.tiers[outer].independent or self.tiers[level].independent)

    def groups(self, level: int) -> Codes:
        """The number of the domain of a level by row, in the natural order of paths; -1 for a row without a Node.

        Nodes that lack the level share a number; see `carries`.
        """
        return self._groups[level + 1]

    def size(self, level: int) -> int:
        """How many numbers `groups` has."""
        return len(self._first[level + 1])

    def carries(self, level: int) -> Mask:
        """Whether the Nodes of a number carry the level, so that it is a domain."""
        return self._carries[level + 1]

    def outer(self, level: int, outer: int) -> Codes:
        """By domain of a level, the domain of a level around it."""
        return self.groups(outer)[self._first[level + 1]]

    def rows(self, level: int, group: int) -> Mask:
        """The Nodes of a domain."""
        return np.asarray(self.groups(level) == group)

    def nearer(self, level: int) -> Iterator[int]:
        """The nearer levels that any Node carries, farthest first."""
        return (tier for tier in range(level + 1, len(self.tiers)) if self.carries(tier).any())

    def row(self, level: int, group: int) -> int:
        """A row of a domain."""
        return int(self._first[level + 1][group])

    def address(self, level: int, group: int) -> Address:
        """The values that tell a domain from all others, farthest first; empty if none do, and for the whole cluster.

        It has a step for the level and for each level around it that the Nodes carry. Zone and region are in it only
        where domains in two of them have the same values otherwise.
        """
        if level == WHOLE:
            return ()
        if (level, group) in self._addresses:
            return self._addresses[level, group]
        row = self.row(level, group)
        tiers = [tier for tier in (*self.around(level), level) if self._codes[tier][row] >= 0]
        wide = [tier for tier in tiers if tier != level and not _WIDE.isdisjoint(self.tiers[tier].keys)]
        steps = [tier for tier in tiers if tier not in wide]
        while steps:
            same = self.present.copy()
            for tier in steps:
                same &= self._codes[tier] == self._codes[tier][row]
            if not (same & (self.groups(level) != group)).any():
                break
            steps = [wide.pop(), *steps] if wide else []
        values = ((tier, self._values[tier][int(self._codes[tier][row])]) for tier in steps)
        self._addresses[level, group] = tuple(Step(self.tiers[tier].keys, value) for tier, value in values)
        return self._addresses[level, group]


class Layouts:
    """The layouts of an inventory, which are made anew only when a Node changes."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._edition: tuple[int, int] | None = None
        self._made: dict[tuple[Level, ...], Layout] = {}

    def of(self, tiers: tuple[Level, ...]) -> Layout:
        """The layout of these levels."""
        if self._edition != self._inventory.edition:
            self._made.clear()
            self._edition = self._inventory.edition
        if tiers not in self._made:
            self._made[tiers] = Layout(self._inventory, tiers)
        return self._made[tiers]


def _first(groups: Codes) -> Integers:
    first = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
    rows = np.flatnonzero(groups >= 0)[::-1]
    first[groups[rows]] = rows
    return first
