"""The room that was promised to gangs and is not taken yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from policies.topology.choice.ground.address import Values
from policies.topology.choice.ground.atlas import Atlas
from policies.topology.choice.pack.exact import Budget
from policies.topology.choice.pack.greedy import pack
from policies.topology.choice.pack.room import Room, requests
from policies.topology.choice.pack.spread import packed
from policies.topology.choice.stock import Integers, Stock
from policies.topology.gang.gang import GangKey, Member
from policies.topology.gang.promise import Promise

_STEPS = 500


class _Taken(NamedTuple):
    """What one promise takes. rows: of the stock. amounts: by resource, by row of these."""

    rows: Integers
    amounts: Mapping[str, Integers]


class _Places(NamedTuple):
    """What all promises take, by resource and row, and what those of a gang take."""

    sums: Mapping[str, Integers]
    by_gang: Mapping[GangKey, Sequence[_Taken]]


class Reservations:
    """Promises with each Pod given a place in the promised domain, one promise after the other.

    Pods for which there is no room left take none: then the domain is full anyway.
    """

    def __init__(self, stock: Stock, promises: Sequence[Promise], values: Values, atlas: Atlas) -> None:
        self._stock = stock
        self._values = values
        self._atlas = atlas
        self._promises = sorted(promises, key=lambda promise: (promise.key, promise.until))
        self._places: dict[int | None, _Places] = {}
        self._places[None] = self._packed(None)

    def of(self, resource: str, priority: int | None, without: GangKey) -> Integers:
        """By row, what is promised of a resource to gangs other than one. priority: as in `Stock.free`."""
        if priority not in self._places:
            self._places[priority] = self._packed(priority)
        places = self._places[priority]
        sums = places.sums.get(resource)
        if sums is None:
            return np.zeros(self._stock.size, np.int64)
        own = [taken for taken in places.by_gang.get(without, ()) if resource in taken.amounts]
        if not own:
            return sums
        others = sums.copy()
        for taken in own:
            others[taken.rows] -= taken.amounts[resource]
        return others

    def has_below(self, priority: int) -> bool:
        """Whether anything is promised to Pods below a priority."""
        return any(not _counts(member, priority) for promise in self._promises for member in promise.members)

    def _packed(self, priority: int | None) -> _Places:
        left: dict[str, Integers] = {}
        by_gang: defaultdict[GangKey, list[_Taken]] = defaultdict(list)
        for promise in self._promises:
            members = tuple(member for member in promise.members if member.count and _counts(member, priority))
            if not members:
                continue
            taken = self._taken(promise, members, left, priority)
            for resource, amounts in taken.amounts.items():
                left[resource][taken.rows] -= amounts
            by_gang[promise.key].append(taken)
        sums = {resource: self._stock.free(resource, priority) - amounts for resource, amounts in left.items()}
        return _Places(sums, by_gang)

    def _taken(
        self, promise: Promise, members: tuple[Member, ...], left: dict[str, Integers], priority: int | None
    ) -> _Taken:
        rows = self._values.sorted(promise.address)
        resources = tuple(dict.fromkeys(name for member in members for name, _ in member.requests))
        for resource in resources:
            if resource not in left:
                left[resource] = self._stock.free(resource, priority)
        free = np.array([left[resource][rows] for resource in resources])
        is_open = np.array([self._stock.eligible(member)[0][rows] for member in members])
        signature = (rows.tobytes(), free.tobytes(), is_open.tobytes())
        known = self._atlas.packed(promise, signature)
        if known is None:
            counts = np.array([member.count for member in members], np.int64)
            room = Room(members, resources, requests(members, resources), counts, rows, free, is_open)
            places = packed(room, Budget(_STEPS))
            if places is None:
                places = pack(room, np.zeros(len(rows), np.int32))
            known = room.requests.T @ places
            self._atlas.keep(promise, signature, known)
        return _Taken(rows, dict(zip(resources, known, strict=True)))


def _counts(member: Member, priority: int | None) -> bool:
    return priority is None or member.priority is None or member.priority >= priority
