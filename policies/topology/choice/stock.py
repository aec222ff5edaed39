"""What the choice reads of an inventory: columns with one entry a Node."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from policies.topology.gang.gang import GangKey, Member

Integers = NDArray[np.int64]
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]


class Stock(Protocol):
    """The Nodes of a cluster with what is free on them. Rows are in no order that means anything.

    A row without a Node (one that was deleted) is in no mask.
    """

    @property
    def size(self) -> int:
        """The number of rows."""

    @property
    def edition(self) -> Hashable:
        """What stays the same while no Node comes, goes or changes its labels or its standing; Pods do not matter."""

    def names(self) -> list[str]:
        """The Nodes' names by row; empty for a row without a Node."""

    def allocatable(self, resource: str) -> Integers:
        """What each Node has of a resource for Pods."""

    def free(self, resource: str, priority: int | None = None, without: GangKey | None = None) -> Integers:
        """Allocatable minus the requests of bound Pods; never below 0.

        priority: only Pods of at least this priority count, as the others could be preempted; None: all count.
        without: a gang whose own bound Pods do not count, as they are part of what is placed.
        """

    def bound(self, gang: GangKey) -> bool:
        """Whether any Pod of a gang is bound."""

    def eligible(self, member: Member) -> tuple[Mask, Mask]:
        """The Nodes that the member's Pods may run on now, and those that they could if the Node got well again.

        Both: selector, terms, taints that people set. Now only: Ready, not cordoned, no NoSchedule or NoExecute taint
        that is not tolerated, no state (triage …) in which nothing is scheduled.
        """

    def domains(self, keys: tuple[str, ...], *, distinct: bool = False) -> Codes:
        """A code of the domain of a level for each Node, -1 for a Node without any of the keys.

        Nodes have the same code if they have the same value under the first of the keys that each carries; with
        distinct, if also that key is the same.
        """

    def value(self, keys: tuple[str, ...], code: int, *, distinct: bool = False) -> str:
        """The value that a code of `domains` stands for."""

    def carried(self, keys: tuple[str, ...], rows: Mask) -> tuple[str, ...]:
        """The keys under which all of these Nodes have their value: one if it is common to all, else those needed."""
