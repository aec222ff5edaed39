"""The placing of gangs near the domains that their author names as preferred."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from policies.topology.choice.choice import Choice, Outcome
from policies.topology.choice.ground.ground import Ground
from policies.topology.choice.ground.layout import Layout
from policies.topology.choice.place import place
from policies.topology.choice.stock import Mask
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Gang

_BEST_FIRST: tuple[Outcome, ...] = ("fits", "preempts", "full", "never", "unknown")


def near(ground: Ground, gangs: Sequence[Gang], kept: Sequence[Address]) -> tuple[Choice, ...]:
    """The choices of `place`: in the domains that the first gang's author prefers, else around them, else anywhere.

    A gang goes farther only to be better off there: it waits, and makes others go, near the preferred domains first.
    Inside these domains it gets only what is free.
    """
    inside = ground.matched(gangs[0].near) & ground.addresses(gangs[0].tiers).layout.present if gangs[0].near else None
    if inside is None or not inside.any() or any(kept):
        return place(ground, gangs, kept)
    made = place(ground, gangs, kept, inside)
    if _rank(made) == 0:
        return made
    required = gangs[0].required
    masks = [None] if required is None else [_around(ground.layout(gangs[0].tiers), required, inside), None]
    return min((place(ground, gangs, kept, mask) for mask in masks), key=_rank)


def _rank(choices: Sequence[Choice]) -> int:
    return max(_BEST_FIRST.index(choice.outcome) for choice in choices)


def _around(layout: Layout, level: int, rows: Mask) -> Mask:
    """The Nodes of the domains of a level in which some Nodes are."""
    groups = layout.groups(level)
    return np.isin(groups, groups[rows]) & layout.present
