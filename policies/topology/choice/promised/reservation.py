"""The room that was promised to gangs and is not taken yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from policies.topology.choice.address import Values
from policies.topology.choice.pack.greedy import pack
from policies.topology.choice.pack.room import Room
from policies.topology.choice.stock import Integers, Stock
from policies.topology.gang.gang import GangKey, Member
from policies.topology.gang.promise import Promise


class _Taken(NamedTuple):
    """What one promise takes of one resource. rows: of the stock."""

    key: GangKey
    resource: str
    rows: Integers
    amounts: Integers


class Reservations:
    """Promises with each Pod given a place in the promised domain, one promise after the other.

    Pods for which there is no room left take none: then the domain is full anyway.
    """

    def __init__(self, stock: Stock, promises: Sequence[Promise], values: Values, order: Integers) -> None:
        """order: all rows, by the names of their Nodes."""
        self._stock = stock
        self._values = values
        self._order = order
        self._promises = sorted(promises, key=lambda promise: (promise.key, promise.until))
        self._taken: dict[int | None, tuple[tuple[_Taken, ...], dict[str, Integers]]] = {}

    def of(self, resource: str, priority: int | None, without: GangKey) -> Integers:
        """By row, what is promised of a resource to gangs other than one. priority: as in `Stock.free`."""
        taken, sums = self._places(priority)
        if resource not in sums:
            return np.zeros(self._stock.size, np.int64)
        own = [take for take in taken if take.key == without and take.resource == resource]
        if not own:
            return sums[resource]
        others = sums[resource].copy()
        for take in own:
            others[take.rows] -= take.amounts
        return others

    def _places(self, priority: int | None) -> tuple[tuple[_Taken, ...], dict[str, Integers]]:
        if priority not in self._taken:
            sums: dict[str, Integers] = {}
            taken = tuple(self._packed(priority, sums))
            self._taken[priority] = (taken, sums)
        return self._taken[priority]

    def _packed(self, priority: int | None, sums: dict[str, Integers]) -> Iterator[_Taken]:
        for promise in self._promises:
            members = tuple(m for m in promise.members if m.count and _counts(m, priority))
            rows = self._order[self._values.matched(promise.address)[self._order]]
            if not members or not len(rows):
                continue
            room = self._room(members, rows, priority, sums)
            amounts = room.requests.T @ pack(room, np.zeros(len(rows), np.int32))
            for resource, amount in zip(room.resources, amounts, strict=True):
                sums.setdefault(resource, np.zeros(self._stock.size, np.int64))[rows] += amount
                yield _Taken(promise.key, resource, rows, amount)

    def _room(
        self, members: tuple[Member, ...], rows: Integers, priority: int | None, sums: dict[str, Integers]
    ) -> Room:
        resources = tuple(sorted({name for member in members for name, _ in member.requests}))
        free = [
            self._stock.free(name, priority)[rows] - (sums[name][rows] if name in sums else 0) for name in resources
        ]
        return Room(
            members,
            resources,
            requests(members, resources),
            np.array([member.count for member in members], np.int64),
            rows,
            np.maximum(np.stack(free), 0),
            np.stack([self._stock.eligible(member)[0][rows] for member in members]),
        )


def requests(members: Sequence[Member], resources: Sequence[str]) -> Integers:
    """What each Pod asks for, by member and resource."""
    asked = [dict(member.requests) for member in members]
    return np.array([[amounts.get(name, 0) for name in resources] for amounts in asked], np.int64)


def _counts(member: Member, priority: int | None) -> bool:
    return priority is None or member.priority is None or member.priority >= priority
