"""The order of domains: which of those that hold a gang it gets.

1. One in which it fits now comes before one in which Pods of lower priority have to make room.
2. With a preferred level, one of that level that holds the whole gang; else one of the next farther level that does,
   down to the required level, or to the whole cluster.
3. The one with the least free of what the gang asks for: accelerators, or cpu if it asks for none. What counts is what
   is free, and not promised to others, on Nodes on which Pods that ask for it may run now.
4. The one with the least free in the domain around it, so that the largest blocks stay whole: the next domain around
   first, then the next farther one, up to the farthest level.
5. The one in which the gang needs the fewest domains of the next nearer level that any Node carries.
6. The first in the natural order of the values of its path, farthest level first.

If the gang fits nowhere now, it gets, of those where it would fit if all running work ended and all Nodes were well,
one in which it also fits beside all gangs that wait there (see `ground.claims`); of these the domain with room for
the most of its Pods now; then the one where the Pods without a place ask for the fewest accelerators; then the one
where others wait for the least; then 3, 4 and 6.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from policies.topology.choice.ground.layout import WHOLE, Layout
from policies.topology.choice.stock import Integers


class Ordered(NamedTuple):
    """Domains in the order of points 3, 4 and 6. ties: by domain, a number that those have that differ in 6 alone."""

    groups: Integers
    ties: Integers


def ordered(layout: Layout, level: int, groups: Integers, amounts: Integers) -> Ordered:
    """Some domains of a level in order. amounts: what is free of what the gang asks for, by row."""
    # Rows without a Node have nothing free.
    rows = np.flatnonzero(amounts)
    own = np.bincount(layout.groups(level)[rows], weights=amounts[rows], minlength=len(layout.first(level)))
    keys = [_sums(layout, level, outer, own)[groups] for outer in range(WHOLE, level + 1)]
    order = np.lexsort((groups, *keys))
    same = np.zeros(len(groups), bool)
    if len(groups):
        same[1:] = np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])
    return Ordered(groups[order], np.cumsum(~same))


def _sums(layout: Layout, level: int, outer: int, own: NDArray[Any]) -> Integers:
    """By domain of a level, what the domain around it of a farther level has. own: by domain of the level."""
    if outer == level:
        return own.astype(np.int64)
    around = layout.around(level, outer)
    return np.asarray(np.bincount(around, weights=own)[around]).astype(np.int64)
