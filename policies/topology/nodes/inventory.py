"""The inventory: all Nodes and what Pods take of them, followed change by change.

A change costs microseconds, and what the choice of a domain asks for comes as whole columns with one entry a Node. What
is put again replaces what was there, and the order of Nodes and Pods does not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import KeysView, Mapping, Sequence
from sys import intern

import numpy as np

from policies.engine.facts import Node
from policies.topology.gang.gang import Amounts, Member
from policies.topology.nodes import requests
from policies.topology.nodes.eligibility import Eligibility, Standing
from policies.topology.nodes.labels import NAME, NO_LABELS, Labels
from policies.topology.nodes.manifest import NodeManifest
from policies.topology.nodes.obstacle import lasting, obstacles
from policies.topology.nodes.table import Codes, Integers, Mask, Table
from policies.topology.nodes.usage import PodKey, Share, Usage

_MOST_FREED = 1000


class Inventory:
    """Nodes and Pods. Rows are in no order that means anything; a row without a Node is in no mask.

    A Pod may come before its Node, and stays when the Node goes: it counts whenever there is a Node of that name.
    freed: how often there may have become more room since the start: a Pod went, or a Node changed; see `freed_since`.
    """

    def __init__(self) -> None:
        self.freed = 0
        self._relabelled = 0
        self._freed: deque[int] = deque(maxlen=_MOST_FREED)
        self._free: dict[tuple[str, int | None], Integers] = {}
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
        """What stays the same while no Node comes, goes or changes its labels; what keeps Pods out does not matter."""
        return self._relabelled, self.size

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
        node = manifest.node
        here = obstacles(node, cordoned=manifest.spec.unschedulable, ready=manifest.ready)
        self.put(node, requests.allocatable(manifest.status.allocatable), Standing(lasting(node), here))

    def put(self, node: Node, allocatable: Amounts, standing: Standing) -> None:
        """Take a Node with what it has and what keeps Pods from it."""
        row = self._row(node.name)
        self._present[row] = node.name
        self._allocate(node.name, row, allocatable)
        self._change(row, {**node.labels, NAME: node.name}, standing)

    def remove_node(self, name: str) -> None:
        """Forget a Node, if it is known."""
        if name in self._allocatable:
            row = self._rows[name]
            self._allocate(name, row, ())
            del self._allocatable[name]
            self._present[row] = ""
            self._change(row, NO_LABELS, None)
            self._release(row)

    def put_pod(self, key: PodKey, node: str, asked: Amounts, priority: int) -> None:
        """Let a Pod take what it asks for of a Node."""
        row = self._row(node)
        last = self._usage.put((intern(key[0]), key[1]), Share(row, asked, priority))
        if last is None or (last.row, last.requests, last.priority) != (row, asked, priority):
            self._free.clear()
        if last is not None and (last.row, last.requests) != (row, asked):
            self._more_room(last.row)
            if last.row != row:
                self._release(last.row)

    def remove_pod(self, key: PodKey) -> None:
        """Let a Pod take nothing any more, if it took something."""
        share = self._usage.remove(key)
        if share is not None:
            self._more_room(share.row)
            self._release(share.row)

    def row(self, node: str) -> int:
        """The row of a Node, or of Pods on it; -1 if there is none."""
        return self._rows.get(node, -1)

    def names(self) -> list[str]:
        """The Nodes' names by row; empty for a row without a Node."""
        return self._present.copy()

    def labels(self, row: int) -> Mapping[str, str]:
        """The labels of the Node in a row."""
        return self._labels.of(row)

    def allocatable(self, resource: str) -> Integers:
        """What each Node has of a resource for Pods."""
        return self._columns.column(resource, self.size)

    def free(self, resource: str, priority: int | None = None, leaving: Sequence[PodKey] = ()) -> Integers:
        """Allocatable minus the requests of Pods; never below 0.

        priority: only Pods of at least this priority count, as the others could be preempted; None: all count.
        leaving: Pods that do not count.
        The column is not to be written to.
        """
        key = (resource, priority)
        left = None if leaving else self._free.get(key)
        if left is None or len(left) != self.size:
            left = self.allocatable(resource)
            left -= self._usage.used(resource, self.size, priority, leaving)
            np.maximum(left, 0, out=left)
            if not leaving:
                left.flags.writeable = False
                self._free[key] = left
        return left

    def freed_since(self, freed: int) -> list[int] | None:
        """The rows with more room than there was at a time, which is told by `freed`; None if that is long ago."""
        count = self.freed - freed
        return None if count > len(self._freed) else list(self._freed)[len(self._freed) - count :]

    def eligible(self, member: Member) -> tuple[Mask, Mask]:
        """The Nodes that the member's Pods may run on now, and those that they could if the Node got well again.

        Both: selector, terms, taints that people set. Now only: Ready, not cordoned, no NoSchedule or NoExecute taint
        that is not tolerated, no state (triage …) in which nothing is scheduled. The masks are not to be written to.
        """
        return self._eligibility.masks(member, self.size)

    def domains(self, keys: tuple[str, ...], *, distinct: bool = False) -> Codes:
        """A code of the domain of a level for each Node, -1 for a Node without any of the keys.

        Nodes have the same code if they have the same value under the first of the keys that each carries; with
        distinct, if also that key is the same.
        """
        return self._labels.level(keys, distinct=distinct).upto(self.size).copy()

    def value(self, keys: tuple[str, ...], code: int, *, distinct: bool = False) -> str:
        """The value that a code of `domains` stands for, until the next change of a Node."""
        return self._labels.level(keys, distinct=distinct).values[code]

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
            self._more_room(row)
            for resource, amount in last:
                self._columns.add(resource, row, -amount)
            for resource, amount in amounts:
                self._columns.add(resource, row, amount)
                self._usage.count(resource)
        self._allocatable[name] = amounts

    def _change(self, row: int, labels: Mapping[str, str], standing: Standing | None) -> None:
        # Both are asked: each keeps what it is told.
        is_new, is_another = self._labels.put(row, labels), self._eligibility.put(row, standing)
        self._relabelled += is_new
        if is_new or is_another:
            self._more_room(row)
            self._eligibility.change(row)

    def _more_room(self, row: int) -> None:
        self.freed += 1
        self._freed.append(row)
        self._free.clear()


def inventory_of(nodes: Sequence[Node]) -> Inventory:
    """The inventory of Nodes on which nothing runs and which are all well."""
    inventory = Inventory()
    for node in nodes:
        inventory.put(node, node.allocatable, Standing(lasting(node)))
    return inventory
