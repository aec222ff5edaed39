"""What bound Pods take of their Nodes: by resource, by priority, by gang."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from policies.topology.choice.stock import Integers
from policies.topology.gang.gang import PODS, Amounts, GangKey
from policies.topology.nodes.table import Table

PodKey = tuple[str, str]
"""The namespace and name of a Pod."""

# What is kept for each Pod and each gang is out of the sight of Python's collector of cycles, which would stop the
# process for tenths of a second. None of it can be in a cycle.

# Many Pods ask for the same, and share one tuple. This many are remembered for that.
_MOST_SHARED = 10_000
_NO_SHARES: Mapping[PodKey, Share] = {}


class Share(Struct, frozen=True, gc=False):
    """What a Pod takes, and of which row. gang: the one that the Pod belongs to, if any."""

    row: int
    requests: Amounts
    priority: int = 0
    gang: GangKey | None = None


class _Group(Struct, frozen=True, gc=False):
    """The Pods of a gang. key: one object for all of them."""

    key: GangKey
    shares: dict[PodKey, Share]


class Usage:
    """The shares of Pods.

    Only resources are counted that a Node has: a Pod that names its Node itself may ask for thousands of made-up ones,
    and each takes a column.
    """

    def __init__(self) -> None:
        self.shares: dict[PodKey, Share] = {}
        self._groups: dict[GangKey, _Group] = {}
        self._used: Table[str] = Table()
        self._by_priority: Table[tuple[int, str]] = Table()
        self._counted = {PODS}
        self._same: dict[Amounts, Amounts] = {}

    def put(self, key: PodKey, share: Share) -> int | None:
        """The row in which the Pod was counted until now, if any. From now on this share counts."""
        last = self.shares.get(key)
        if last == share:
            return last.row
        self.remove(key)
        group = None if share.gang is None else self._groups.setdefault(share.gang, _Group(share.gang, {}))
        requests = self._same.setdefault(share.requests, share.requests)
        if len(self._same) > _MOST_SHARED:
            self._same.clear()
        share = Share(share.row, requests, share.priority, None if group is None else group.key)
        self.shares[key] = share
        if group is not None:
            group.shares[key] = share
        self._count(share, 1)
        return None if last is None else last.row

    def remove(self, key: PodKey) -> int | None:
        """The row in which the Pod was counted until now, if any. It counts no more."""
        share = self.shares.pop(key, None)
        if share is None:
            return None
        self._count(share, -1)
        if share.gang is not None:
            group = self._groups[share.gang]
            del group.shares[key]
            if not group.shares:
                del self._groups[share.gang]
        return share.row

    def used(self, resource: str, size: int, priority: int | None = None, without: GangKey | None = None) -> Integers:
        """What Pods take of a resource, of so many rows; see `Stock.free` for which Pods count."""
        used = self._used.column(resource, size)
        if resource not in self._counted:
            return used
        if priority is not None:
            for other, name in self._by_priority:
                if name == resource and other < priority:
                    used -= self._by_priority.column((other, name), size)
        for share in () if without is None else self.of_gang(without).values():
            if priority is None or share.priority >= priority:
                used[share.row] -= next((amount for name, amount in share.requests if name == resource), 0)
        return used

    def of_gang(self, gang: GangKey) -> Mapping[PodKey, Share]:
        """The shares of a gang's Pods."""
        group = self._groups.get(gang)
        return _NO_SHARES if group is None else group.shares

    def count(self, resource: str) -> None:
        """Count a resource from now on, as there is a Node that has it."""
        if resource not in self._counted:
            self._counted.add(resource)
            for share in self.shares.values():
                self._add(share, [pair for pair in share.requests if pair[0] == resource], 1)

    def is_empty(self, row: int) -> bool:
        """Whether no Pod is counted in a row."""
        return self._used.entry(PODS, row) == 0

    def _count(self, share: Share, sign: int) -> None:
        self._add(share, [pair for pair in share.requests if pair[0] in self._counted], sign)

    def _add(self, share: Share, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        for resource, amount in amounts:
            self._used.add(resource, share.row, sign * amount)
            self._by_priority.add((share.priority, resource), share.row, sign * amount)
