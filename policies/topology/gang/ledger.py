"""The promises of a cluster, read back from what workloads and Pods record of themselves.

No state is kept anywhere else: whoever watches the same objects comes to the same promises, in whatever order they
arrive. A record counts only as far as the terms of its template bear it out (`evidence`), at the demand computed from
the template, and until its Pods are bound or their time is over (`lifetime`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.request import JsonObject, mapping
from policies.objects.workload import Workload
from policies.topology.gang.account import POD, Account, Seat, account, seat
from policies.topology.gang.address import Address
from policies.topology.gang.balance import balance, beside, home
from policies.topology.gang.demand import Cluster
from policies.topology.gang.gang import Gang, GangKey
from policies.topology.gang.lifetime import LONGEST, SPAN
from policies.topology.gang.membership import LEADER, identity, membership, owner
from policies.topology.gang.promise import Promise

MOST_OF_ONE = 200
"""The promises of one namespace that count, since each choice looks at all of them. A promise has one domain."""


class _Table(Struct):
    """The Pods of a gang by name."""

    key: GangKey
    seats: dict[str, Seat]


class Ledger:
    """Promises to the gangs of a cluster, kept up to date object by object.

    workloads: the known kinds. span: seconds for which a promise holds after the last sign of more Pods.
    """

    def __init__(self, workloads: Mapping[tuple[str, str], Workload], cluster: Cluster, span: float = SPAN) -> None:
        self._workloads = workloads
        self._cluster = cluster
        self._span = span
        self._accounts: dict[GangKey, Account] = {}
        self._owners: dict[GangKey, GangKey] = {}
        self._below: dict[GangKey, set[GangKey]] = {}  # by workload, its replicas and what stands between it and Pods
        self._tables: dict[GangKey, _Table] = {}
        self._places: dict[str, _Table] = {}  # by Pod
        self._changed: set[GangKey] = set()
        self._open: dict[GangKey, tuple[Promise, ...]] = {}
        self._sorted: tuple[Promise, ...] = ()

    def put(self, obj: JsonObject) -> None:
        """Take in a workload, or what has become of it. A Pod is taken in as one."""
        key = identity(obj)
        row = self._workloads.get((key.group, key.kind))
        if (key.group, key.kind) == POD:
            self.put_pod(obj)
        elif row is not None and row.templates:
            self._note(key, account(obj, key, row, self._cluster), owner(obj))

    def remove(self, obj: JsonObject) -> None:
        """Forget a workload or a Pod that was deleted."""
        key = identity(obj)
        if (key.group, key.kind) == POD:
            self.remove_pod(obj)
        else:
            self._note(key, None, None)

    def put_pod(self, pod: JsonObject) -> None:
        """Take in a Pod, or what has become of it."""
        name, belongs = _name(pod), membership(pod)
        now = None
        if belongs is not None:
            kind = (belongs.key.group, belongs.key.kind)
            now = seat(pod, belongs, self._cluster, matters=kind != POD and kind in self._workloads)
        before = self._places.get(name)
        if before is not None and (now is None or belongs is None or before.key != belongs.key):
            self._leave(name, before)
        if now is not None and belongs is not None:
            self._sit(name, belongs.key, now)

    def remove_pod(self, pod: JsonObject) -> None:
        """Forget a Pod that was deleted."""
        name = _name(pod)
        if (table := self._places.get(name)) is not None:
            self._leave(name, table)

    def promises(self, now: float) -> Sequence[Promise]:
        """What is promised and not taken yet, sorted by workload. now: seconds since the epoch.

        A promise that would hold for longer than any can is left out: its status is forged, or the clock was set back.
        """
        if self._changed:
            for key in self._changed:
                self._open.pop(key, None)
                if made := tuple(self._promises(key)):
                    self._open[key] = made
            self._changed.clear()
            self._sorted = tuple(promise for key in sorted(self._open) for promise in self._open[key])
        return [*self._bounded(promise for promise in self._sorted if _holds(promise.until - now))]

    def _bounded(self, promises: Iterable[Promise]) -> Iterator[Promise]:
        """The promises without the first to end of a namespace that has too many."""
        for _, group in groupby(promises, key=lambda promise: promise.key.namespace):
            own = list(group)
            if len(own) > MOST_OF_ONE:
                own = sorted(sorted(own, key=lambda promise: -promise.until)[:MOST_OF_ONE], key=lambda one: one.key)
            yield from own

    def whole(self, gang: Gang) -> Gang:
        """The gang of a LeaderWorkerSet's replica with its other Pods as their templates have them.

        All that is known at the creation of a Pod is its own demand, which stays as it is. Where leaders are made from
        the workers' template, so does the gang, and so does that of a single worker. A leader without accelerators
        is not placed with its workers.
        """
        known = self._accounts.get(replace(gang.key, part="")) if gang.key.part and gang.pods > 1 else None
        members = () if known is None else sorted(known.shares, key=lambda share: share.role != LEADER)
        if not members or members[0].role != LEADER:
            return gang
        return replace(gang, members=beside(replace(gang.members[0], count=1), [share.member for share in members]))

    def home(self, key: GangKey) -> Address:
        """The domain of a LeaderWorkerSet's replica, which its leader has on record; empty if it is not known.

        It is where workers belong for as long as there is the leader, whatever is still promised. A leader without
        accelerators has none on record, and its workers belong where the first of them is.
        """
        table = self._tables.get(key)
        return home(table.seats.values()) if table is not None and key.part else ()

    def _promises(self, key: GangKey) -> Iterator[Promise]:
        """The promises to all gangs that count under a workload."""
        known = self._accounts.get(key)
        seats: list[Seat] = []
        for child in self._family(key):
            table = self._tables.get(child)
            if child.part:
                yield from balance(child, known, tuple(table.seats.values()) if table else (), self._span)
            elif table is not None:
                seats += table.seats.values()
        yield from balance(key, known, seats, self._span)

    def _family(self, key: GangKey) -> Iterator[GangKey]:
        """The keys of gangs and objects that count under a workload, in order."""
        pending = [key]
        while pending:
            one = pending.pop()
            if self._root(one) == key:
                yield one
                pending += sorted(self._below.get(one, ()), reverse=True)

    def _note(self, key: GangKey, known: Account | None, controller: GangKey | None) -> None:
        """Enter what a workload is promised, and for whom it works, or that there is nothing to enter any more."""
        if controller is not None and (controller.group, controller.kind) not in self._workloads:
            controller = None
        before = self._owners.get(key)
        if known == self._accounts.get(key) and controller == before:
            return
        self._touch(key)
        if before is not None:
            self._unlink(before, key)
        _enter(self._owners, key, controller)
        _enter(self._accounts, key, known)
        if controller is not None:
            self._below.setdefault(controller, set()).add(key)
        self._touch(key)

    def _sit(self, name: str, key: GangKey, now: Seat) -> None:
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _Table(key, {})
            if key.part:
                self._below.setdefault(replace(key, part=""), set()).add(key)
        if table.seats.get(name) != now:
            table.seats[name] = now
            self._places[name] = table
            self._touch(key)

    def _leave(self, name: str, table: _Table) -> None:
        del table.seats[name], self._places[name]
        self._touch(table.key)
        if not table.seats:
            del self._tables[table.key]
            if table.key.part:
                self._unlink(replace(table.key, part=""), table.key)

    def _unlink(self, above: GangKey, key: GangKey) -> None:
        self._below[above].discard(key)
        if not self._below[above]:
            del self._below[above]

    def _touch(self, key: GangKey) -> None:
        self._changed.add(self._root(key))

    def _root(self, key: GangKey) -> GangKey:
        """The workload under which a gang counts: its own, or the one for which that works."""
        base = replace(key, part="") if key.part else key
        return base if base in self._accounts else self._owners.get(base, base)


def _enter(entries: dict[GangKey, Any], key: GangKey, value: Any) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value


def _holds(seconds: float) -> bool:
    """Whether a promise holds that is to end after so many seconds, or never."""
    return 0 < seconds <= LONGEST or seconds == math.inf


def _name(pod: JsonObject) -> str:
    metadata = mapping(pod, "metadata")
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
