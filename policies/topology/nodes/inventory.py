"""The inventory: all Nodes and what Pods take of them, followed change by change.

A change costs microseconds, and what the choice of a domain asks for comes as whole columns with one entry a Node. What
is put again replaces what was there, and the order of Nodes and Pods does not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, KeysView, Mapping, Sequence
from sys import intern
from typing import Final, Generic, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from policies.engine.facts import Node, Taint
from policies.engine.match import SelectorRequirement, holds
from policies.topology.gang import Member, Toleration, tolerates_all
from policies.topology.nodes.manifest import PODS, Amounts, NodeManifest, Obstacle, lasting, obstacles
from policies.topology.nodes.manifest import allocatable as allocatable_of

Integers = NDArray[np.int64]
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]

K = TypeVar("K", bound=Hashable)
_FEWEST = 64


def room(rows: int) -> int:
    """The length of a column for so many rows. It doubles, so that growing costs little for each row."""
    return max(_FEWEST, 1 << (rows - 1).bit_length())


def _upto(codes: Codes, rows: int) -> Codes:
    """Codes for so many rows: -1 for those that are new."""
    return codes if rows <= len(codes) else np.append(codes, np.full(room(rows) - len(codes), -1, np.int32))


class Table(Generic[K]):
    """Columns of amounts by key. What was never added to is 0."""

    def __init__(self) -> None:
        self._columns: dict[K, Integers] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self._columns)

    def add(self, key: K, row: int, amount: int) -> None:
        """Add an amount to one entry."""
        column = self._columns.get(key)
        if column is None or row >= len(column):
            column = self._columns[key] = self._longer(column, row + 1)
        column[row] += amount

    def entry(self, key: K, row: int) -> int:
        """One entry of a column."""
        column = self._columns.get(key)
        return 0 if column is None or row >= len(column) else int(column[row])

    def column(self, key: K, size: int) -> Integers:
        """A copy of a column, with so many rows."""
        column = self._columns.get(key)
        if column is None or len(column) < size:
            return self._longer(column, size)[:size]
        return column[:size].copy()

    def _longer(self, column: Integers | None, rows: int) -> Integers:
        longer = np.zeros(room(rows), np.int64)
        if column is not None:
            longer[: len(column)] = column
        return longer


Rows = slice | Integers
NO_LABELS: Mapping[str, str] = {}
NAME = ""
"""The key under which a Node's name stands among its labels, for requirements on it."""

# Selectors name any key. Columns beyond so many are made again when they are needed.
_MOST_KEYS = 64
# Values of Nodes that are gone are kept until there are so many of them.
_MOST_VALUES = 1000


class Column:
    """The domains of a level by row: codes, -1 without any of the keys. values: by code.

    distinct: whether the same value under another key is another domain.
    """

    def __init__(self, keys: tuple[str, ...], *, distinct: bool) -> None:
        self.values: list[str] = []
        self.numbers: dict[tuple[int, str], int] = {}
        self._codes: Codes = np.full(room(1), -1, np.int32)
        self._keys = keys
        self._distinct = distinct

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """Enter the labels of a row."""
        self.upto(row + 1)[row] = self._code(labels)

    def fill(self, labels: Sequence[Mapping[str, str]]) -> None:
        """Enter the labels of all rows."""
        self.upto(len(labels))[:] = np.fromiter(map(self._code, labels), np.int32, len(labels))

    def upto(self, size: int) -> Codes:
        """The codes of so many rows. They are not to be written to."""
        self._codes = _upto(self._codes, size)
        return self._codes[:size]

    def _code(self, labels: Mapping[str, str]) -> int:
        for position, key in enumerate(self._keys):
            value = labels.get(key)
            if value is not None:
                number = self.numbers.setdefault((position if self._distinct else 0, value), len(self.values))
                if number == len(self.values):
                    self.values.append(value)
                return number
        return -1


class Labels:
    """The labels of Nodes by row."""

    def __init__(self) -> None:
        self._labels: list[Mapping[str, str]] = []
        self._levels: dict[tuple[tuple[str, ...], bool], Column] = {}
        self._keys: dict[str, Column] = {}

    def put(self, row: int, labels: Mapping[str, str]) -> bool:
        """Whether these labels differ from those that the row had, which they replace."""
        while row >= len(self._labels):
            self._labels.append(NO_LABELS)
        if self._labels[row] == labels:
            return False
        self._labels[row] = {intern(key): intern(value) for key, value in labels.items()}
        for columns in (self._levels, self._keys):
            for key, column in [*columns.items()]:
                column.put(row, labels)
                if len(column.values) > 2 * len(self._labels) + _MOST_VALUES:
                    del columns[key]
        return True

    def of(self, row: int) -> Mapping[str, str]:
        """The labels of a row."""
        return self._labels[row]

    def level(self, keys: tuple[str, ...], *, distinct: bool) -> Column:
        """The column of a level of a topology."""
        column = self._levels.get((keys, distinct))
        if column is None:
            column = self._levels[keys, distinct] = self._column(keys, distinct=distinct)
        return column

    def meets(self, requirement: SelectorRequirement, rows: Rows) -> Mask:
        """Which of the rows meet a requirement. Source: Requirement.Matches of k8s.io/apimachinery's labels."""
        column = self._keys.pop(requirement.key, None)
        if column is None:
            column = self._column((requirement.key,), distinct=False)
            if len(self._keys) >= _MOST_KEYS:
                del self._keys[next(iter(self._keys))]
        self._keys[requirement.key] = column
        # The last entry stands for rows without the label, whose code is -1.
        table = np.zeros(len(column.values) + 1, np.bool_)
        match requirement.operator:
            case "In" | "NotIn":
                numbers = (column.numbers.get((0, value)) for value in requirement.values)
                table[[number for number in numbers if number is not None]] = True
                table = ~table if requirement.operator == "NotIn" else table
            case "Exists":
                table[:-1] = True
            case "DoesNotExist":
                table[-1] = True
            case "Gt" | "Lt":
                table[:-1] = [holds(requirement.operator, value, requirement.values) for value in column.values]
            case _:  # the API server refuses it
                pass
        met: Mask = table[column.upto(len(self._labels))[rows]]
        return met

    def _column(self, keys: tuple[str, ...], *, distinct: bool) -> Column:
        column = Column(keys, distinct=distinct)
        column.fill(self._labels)
        return column


_MOST_ANSWERS = 128
# Beyond so many changes it is quicker to look at all Nodes.
_MOST_CHANGES = 1024


ANYWHERE: Final = Member("", 1, (), tolerations=(Toleration("", "Exists"),))
"""A Pod that may run on every Node that there is, if the Node gets well."""


class Standing(Struct, frozen=True):
    """What keeps Pods from a Node. Many Nodes have the same. lasting: see `obstacle.lasting`."""

    lasting: tuple[Taint, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()


_Question = tuple[tuple[tuple[str, str], ...], tuple[tuple[SelectorRequirement, ...], ...], tuple[Toleration, ...]]
"""The part of a member that decides where it may run: node_selector, terms, tolerations."""

_Answer = tuple[Mask, Mask, int]
"""See `Inventory.eligible`, and how many changes of Nodes had been seen."""


class Eligibility:
    """Which Nodes are eligible for which members. labels: of the same rows. changes: how many there were of Nodes."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._standings: list[Standing] = []
        self._numbers: dict[Standing, int] = {}
        self._codes: Codes = np.full(room(1), -1, np.int32)
        self._answers: dict[_Question, _Answer] = {}
        self._log: list[int] = []
        self.changes = 0

    def put(self, row: int, standing: Standing | None) -> bool:
        """Whether this standing differs from the row's earlier one, which it replaces. None: a row without a Node."""
        self._codes = _upto(self._codes, row + 1)
        code = -1 if standing is None else self._numbers.setdefault(standing, len(self._standings))
        if standing is not None and code == len(self._standings):
            self._standings.append(standing)
        if self._codes[row] == code:
            return False
        self._codes[row] = code
        return True

    def change(self, row: int) -> None:
        """Look at a row again, as its labels or its standing changed."""
        self._log.append(row)
        self.changes += 1
        if len(self._log) > 2 * _MOST_CHANGES:
            del self._log[:_MOST_CHANGES]

    def masks(self, member: Member, size: int) -> tuple[Mask, Mask]:
        """The Nodes for a member, now and once they are well, of so many rows. The masks are not to be written to."""
        question = (member.node_selector, member.terms, member.tolerations)
        answer = self._answers.pop(question, None)
        if answer is None or answer[2] != self.changes or len(answer[0]) != size:
            behind = self.changes if answer is None else self.changes - answer[2]
            if answer is None or behind > min(len(self._log), _MOST_CHANGES):
                now, possible = self._evaluated(question, slice(0, size))
            else:
                rows = np.array([*dict.fromkeys(self._log[len(self._log) - behind :])], np.int64)
                longer = np.zeros(size - len(answer[0]), np.bool_)
                now, possible = (np.concatenate((mask, longer)) for mask in answer[:2])
                now[rows], possible[rows] = self._evaluated(question, rows)
            answer = now, possible, self.changes
            if len(self._answers) >= _MOST_ANSWERS:
                del self._answers[next(iter(self._answers))]
        self._answers[question] = answer
        return answer[:2]

    def _evaluated(self, question: _Question, rows: Rows) -> tuple[Mask, Mask]:
        selector, terms, tolerations = question
        codes = self._codes[rows]
        # The last entry stands for rows without a Node, whose code is -1.
        well = [tolerates_all(tolerations, one.lasting) for one in self._standings]
        clear = [tolerates_all(tolerations, [obstacle.taint for obstacle in one.obstacles]) for one in self._standings]
        possible: Mask = np.array([*well, False])[codes]
        for key, value in selector:
            possible &= self._labels.meets(SelectorRequirement(key, "In", (value,)), rows)
        if terms:  # one without requirements matches no Node
            every = [[self._labels.meets(requirement, rows) for requirement in term] for term in terms if term]
            possible &= np.logical_or.reduce([np.logical_and.reduce(term) for term in every])
        return possible & np.array([*clear, False])[codes], possible


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
        self._shares: dict[PodKey, Share] = {}
        self._used: Table[tuple[str, int]] = Table()  # by resource and priority
        # A Pod that names its Node itself may ask for thousands of made-up resources: what a Node has is counted.
        self._counted = {PODS}
        self._same: dict[Amounts, Amounts] = {}

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
        return self._shares.keys()

    def put_node(self, manifest: NodeManifest) -> None:
        """Take a Node as it is now. Raises ValueError for a malformed amount."""
        node = manifest.node
        here = obstacles(node, cordoned=manifest.spec.unschedulable, ready=manifest.ready)
        self.put(node, allocatable_of(manifest.status.allocatable), Standing(lasting(node), here))

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
        row, key = self._row(node), (intern(key[0]), key[1])
        share, last = Share(row, self._same.setdefault(asked, asked), priority), self._shares.get(key)
        if len(self._same) > _MOST_SHARED:
            self._same.clear()
        if share == last:
            return
        if last is not None:
            self._count(last, -1)
        self._shares[key] = share
        self._count(share, 1)
        self._free.clear()
        if last is not None and (last.row, last.requests) != (row, asked):
            self._more_room(last.row)
            if last.row != row:
                self._release(last.row)

    def remove_pod(self, key: PodKey) -> None:
        """Let a Pod take nothing any more, if it took something."""
        share = self._shares.pop(key, None)
        if share is not None:
            self._count(share, -1)
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
            if resource in self._counted:
                for name, other in self._used:
                    if name == resource and (priority is None or other >= priority):
                        left -= self._used.column((name, other), self.size)
                for share in filter(None, map(self._shares.get, leaving)):
                    if priority is None or share.priority >= priority:
                        left[share.row] += dict(share.requests).get(resource, 0)
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
        if name not in self._allocatable and not any(
            self._used.entry(key, row) for key in self._used if key[0] == PODS
        ):
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
                if resource not in self._counted:
                    self._counted.add(resource)
                    for share in self._shares.values():
                        for asked, number in share.requests:
                            if asked == resource:
                                self._used.add((asked, share.priority), share.row, number)
        self._allocatable[name] = amounts

    def _count(self, share: Share, sign: int) -> None:
        for resource, amount in share.requests:
            if resource in self._counted:
                self._used.add((resource, share.priority), share.row, sign * amount)

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
