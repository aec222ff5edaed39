"""What Pods take of Nodes, by resource and by priority."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from policies.topology.gang.gang import PODS, Amounts
from policies.topology.nodes.table import Integers, Table

PodKey = tuple[str, str]
"""The namespace and name of a Pod."""

# Many Pods ask for the same, and share one tuple. This many are remembered for that.
_MOST_SHARED = 10_000


class Share(Struct, frozen=True, gc=False):
    """What a Pod takes, and of which row.

    There are many of them, and none is in a cycle, so Python's collector of cycles need not look at them.
    """

    row: int
    requests: Amounts
    priority: int = 0


class Usage:
    """The shares of Pods.

    Only resources are counted that a Node has: a Pod that names its Node itself may ask for thousands of made-up ones,
    and each takes a column.
    """

    def __init__(self) -> None:
        self.shares: dict[PodKey, Share] = {}
        self._used: Table[tuple[str, int]] = Table()  # by resource and priority
        self._counted = {PODS}
        self._same: dict[Amounts, Amounts] = {}

    def put(self, key: PodKey, share: Share) -> Share | None:
        """The share that the Pod had until now, if any. From now on this one counts."""
        last = self.shares.get(key)
        if last != share:
            self.remove(key)
            requests = self._same.setdefault(share.requests, share.requests)
            if len(self._same) > _MOST_SHARED:
                self._same.clear()
            self.shares[key] = Share(share.row, requests, share.priority)
            self._add(share, [pair for pair in requests if pair[0] in self._counted], 1)
        return last

    def remove(self, key: PodKey) -> Share | None:
        """The share that the Pod had until now, if any. It counts no more."""
        share = self.shares.pop(key, None)
        if share is not None:
            self._add(share, [pair for pair in share.requests if pair[0] in self._counted], -1)
        return share

    def used(self, resource: str, size: int, priority: int | None, leaving: Iterable[PodKey]) -> Integers:
        """What Pods take of a resource, of so many rows; see `Inventory.free` for which Pods count."""
        used = np.zeros(size, np.int64)
        if resource not in self._counted:
            return used
        for name, other in self._used:
            if name == resource and (priority is None or other >= priority):
                used += self._used.column((name, other), size)
        for key in leaving:
            share = self.shares.get(key)
            if share is not None and (priority is None or share.priority >= priority):
                used[share.row] -= next((amount for name, amount in share.requests if name == resource), 0)
        return used

    def count(self, resource: str) -> None:
        """Count a resource from now on, as there is a Node that has it."""
        if resource not in self._counted:
            self._counted.add(resource)
            for share in self.shares.values():
                self._add(share, [pair for pair in share.requests if pair[0] == resource], 1)

    def is_empty(self, row: int) -> bool:
        """Whether no Pod is counted in a row."""
        return not any(self._used.entry(key, row) for key in self._used if key[0] == PODS)

    def _add(self, share: Share, amounts: Iterable[tuple[str, int]], sign: int) -> None:
        for resource, amount in amounts:
            self._used.add((resource, share.priority), share.row, sign * amount)
