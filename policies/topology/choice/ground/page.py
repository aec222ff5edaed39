"""What promises took of a stock, remembered for the next one, in which most of them take the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from policies.topology.choice.pack.room import Room
from policies.topology.choice.stock import Integers
from policies.topology.gang.gang import Member
from policies.topology.gang.promise import Promise


class Entry(NamedTuple):
    """What a promise takes. room: what was left for those of its members whose Pods count, on all Nodes of its domain.

    bits: the rows of these. amounts: what it takes, by resource and Node of the room.
    """

    promise: Promise
    room: Room
    bits: int
    amounts: Integers


class Page(NamedTuple):
    """The entries of all promises in their order, beside what was free before them. sums: of all entries.

    edition: of the stock, as in `Stock.edition`. free, sums: by resource and row.
    """

    edition: Hashable
    size: int
    entries: tuple[Entry, ...]
    resources: tuple[str, ...]
    free: Integers
    sums: Integers


def bits(rows: Integers, size: int) -> int:
    """Rows of a stock as the bits of a number: whether two sets have some in common is then asked in no time."""
    mask = np.zeros(size, bool)
    mask[rows] = True
    return int.from_bytes(np.packbits(mask).tobytes(), "big")


def counts(member: Member, priority: int | None) -> bool:
    """Whether what is promised to a member's Pods counts if Pods below a priority make room."""
    return priority is None or member.priority is None or member.priority >= priority
