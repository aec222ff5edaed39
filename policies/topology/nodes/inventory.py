"""The inventory: all Nodes and what bound Pods take of them, followed change by change.

A change costs microseconds, and what the choice of a domain asks for comes as whole columns. What is put again replaces
what was there, and the order of Nodes and Pods does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Mapping
from sys import intern

import numpy as np

from policies.topology.choice.stock import Codes, Integers, Mask
from policies.topology.gang.gang import Amounts, GangKey, Member
from policies.topology.nodes import requests
from policies.topology.nodes.eligibility import Eligibility, Standing
from policies.topology.nodes.labels import NAME, NO_LABELS, Labels
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.nodes.obstacle import lasting, obstacles
from policies.topology.nodes.table import Table
from policies.topology.nodes.usage import PodKey, Share, Usage


class Inventory:
    """Nodes and Pods; a `Stock`.

    gang_of: the gang that a bound Pod belongs to, None without one. A Pod may come before its Node, and stays when the
    Node goes: it counts whenever there is a Node of that name.
    """

    def __init__(self, gang_of: Callable[[PodManifest], GangKey | None]) -> None:
        self._gang_of = gang_of
        self._rows: dict[str, int] = {}
        # The name of a row, and the same for rows with a Node: a row may have Pods alone.
        self._names: list[str] = []
        self._present: list[str] = []
        self._spare: list[int] = []
        self._allocatable: dict[str, Amounts] = {}
        self._columns: Table[str] = Table()
        self._labels = Labels()
        self._eligibility = Eligibility(self._labels)
        self._usage = Usage()

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self._names)

    @property
    def edition(self) -> tuple[int, int]:
        """See `Stock.edition`."""
        return self._eligibility.changes, self.size

    @property
    def nodes(self) -> KeysView[str]:
        """The names of the Nodes."""
        return self._allocatable.keys()

    @property
    def pods(self) -> KeysView[PodKey]:
        """The Pods that count, each as its namespace and name."""
        return self._usage.shares.keys()

    def put_node(self, manifest: NodeManifest) -> None:
        """Take a Node as it is now. Raises ValueError for a malformed amount."""
        name = manifest.metadata.name
        allocatable = requests.allocatable(manifest.status.allocatable)
        node = manifest.node
        standing = Standing(lasting(node), obstacles(node, cordoned=manifest.spec.unschedulable, ready=manifest.ready))
        row = self._row(name)
        self._present[row] = name
        self._allocate(name, row, allocatable)
        self._change(row, {**node.labels, NAME: name}, standing)

    def remove_node(self, name: str) -> None:
        """Forget a Node, if it is known."""
        if name in self._allocatable:
            row = self._rows[name]
            self._allocate(name, row, ())
            del self._allocatable[name]
            self._present[row] = ""
            self._change(row, NO_LABELS, None)
            self._release(row)

    def replace_nodes(self, manifests: Iterable[NodeManifest]) -> None:
        """Take these Nodes, and forget all others. Raises ValueError for a malformed amount."""
        names = set()
        for manifest in manifests:
            self.put_node(manifest)
            names.add(manifest.metadata.name)
        for name in self.nodes - names:
            self.remove_node(name)

    def put_pod(self, manifest: PodManifest) -> None:
        """Take a Pod as it is now: bound to a Node, or finished. Raises ValueError for a malformed amount."""
        namespace, name = manifest.key
        if not manifest.holds:
            self.remove_pod(namespace, name)
            return
        asked = requests.requests(manifest)
        row = self._row(manifest.spec.node_name)
        share = Share(row, asked, manifest.spec.priority or 0, self._gang_of(manifest))
        last = self._usage.put((intern(namespace), name), share)
        if last is not None and last != row:
            self._release(last)

    def remove_pod(self, namespace: str, name: str) -> None:
        """Forget a Pod, if it is known."""
        row = self._usage.remove((namespace, name))
        if row is not None:
            self._release(row)

    def replace_pods(self, manifests: Iterable[PodManifest]) -> None:
        """Take these Pods, and forget all others. Raises ValueError for a malformed amount."""
        keys = set()
        for manifest in manifests:
            self.put_pod(manifest)
            keys.add(manifest.key)
        for namespace, name in self.pods - keys:
            self.remove_pod(namespace, name)

    def names(self) -> list[str]:
        """See `Stock.names`."""
        return self._present.copy()

    def allocatable(self, resource: str) -> Integers:
        """See `Stock.allocatable`."""
        return self._columns.column(resource, self.size)

    def free(self, resource: str, priority: int | None = None, without: GangKey | None = None) -> Integers:
        """See `Stock.free`."""
        left = self.allocatable(resource)
        left -= self._usage.used(resource, self.size, priority, without)
        return np.maximum(left, 0, out=left)

    def bound(self, gang: GangKey) -> bool:
        """See `Stock.bound`."""
        return bool(self._usage.of_gang(gang))

    def eligible(self, member: Member) -> tuple[Mask, Mask]:
        """See `Stock.eligible`. The masks are not to be written to."""
        return self._eligibility.masks(member, self.size)

    def domains(self, keys: tuple[str, ...], *, distinct: bool = False) -> Codes:
        """See `Stock.domains`."""
        return self._labels.level(keys, distinct=distinct).upto(self.size).copy()

    def value(self, keys: tuple[str, ...], code: int, *, distinct: bool = False) -> str:
        """See `Stock.value`. A code holds until the next change of a Node."""
        return self._labels.level(keys, distinct=distinct).values[code]

    def carried(self, keys: tuple[str, ...], rows: Mask) -> tuple[str, ...]:
        """See `Stock.carried`."""
        return self._labels.carried(keys, rows)

    def _row(self, name: str) -> int:
        """The row of a name, which it has while there is a Node or a Pod on it."""
        row = self._rows.get(name)
        if row is None:
            if self._spare:
                row = self._spare.pop()
                self._names[row] = name
            else:
                row = len(self._names)
                self._names.append(name)
                self._present.append("")
                self._change(row, NO_LABELS, None)
            self._rows[name] = row
        return row

    def _release(self, row: int) -> None:
        """Let a row be used again if there is neither a Node nor a Pod in it."""
        name = self._names[row]
        if name not in self._allocatable and self._usage.is_empty(row):
            del self._rows[name]
            self._names[row] = ""
            self._spare.append(row)

    def _allocate(self, name: str, row: int, amounts: Amounts) -> None:
        last = self._allocatable.get(name, ())
        if amounts != last:
            for resource, amount in last:
                self._columns.add(resource, row, -amount)
            for resource, amount in amounts:
                self._columns.add(resource, row, amount)
                self._usage.count(resource)
        self._allocatable[name] = amounts

    def _change(self, row: int, labels: Mapping[str, str], standing: Standing | None) -> None:
        # Both are asked: each keeps what it is told.
        if self._labels.put(row, labels) | self._eligibility.put(row, standing):
            self._eligibility.change(row)
