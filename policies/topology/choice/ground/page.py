"""What promises took of a stock, remembered for the next one, in which most of them take the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from policies.topology.choice.stock import Integers, Mask
from policies.topology.gang.gang import Member
from policies.topology.gang.promise import Promise


class Entry(NamedTuple):
    """What a promise takes. members: those whose Pods count. rows: of the stock. is_open: by member and row of these.

    bits: the rows once more. free, amounts: what was left for it, and what it takes, by resource and row of these.
    """

    promise: Promise
    members: tuple[Member, ...]
    rows: Integers
    bits: int
    is_open: Mask
    resources: tuple[str, ...]
    free: Integers
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
