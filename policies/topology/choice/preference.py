"""The domains that are preferred inside the one that is required."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policies.topology.choice.ground.layout import WHOLE
from policies.topology.choice.pack.exact import Budget
from policies.topology.choice.pack.room import Room
from policies.topology.choice.pack.spread import fewest
from policies.topology.choice.question import STEPS, Question
from policies.topology.gang.address import Address


def preferred(question: Question, room: Room, level: int, group: int) -> tuple[Address, ...]:
    """The domains that are preferred, nearest first. group: of the nearest level that holds the whole gang.

    Nearer than that, down to the preferred level, the few domains that hold it together; farther, up to the required
    level, those that contain it. Domains that narrow nothing are left out, but for the one that holds the gang.
    """
    if question.gang.preferred is None:
        return ()
    inner = list(_inner(question, room, level, group))
    outer = list(_outer(question, level, group))
    return (*reversed(inner), *outer)


def _inner(question: Question, room: Room, level: int, group: int) -> Iterator[Address]:
    """The few nearer domains, farthest level first, each inside those before."""
    rows = question.layout.rows(level, group)
    inside = room.inside(rows)
    for nearer in range(level + 1, (question.gang.preferred or 0) + 1):
        groups = question.layout.groups(nearer)[inside.rows]
        carried = question.layout.carries(nearer)[groups]
        if not carried.any():
            continue
        chosen = fewest(inside, groups, Budget(STEPS))
        inside = inside.at(np.flatnonzero(np.isin(groups, chosen)))
        narrowed = rows & np.isin(question.layout.groups(nearer), chosen)
        if (narrowed == rows).all():
            continue
        rows = narrowed
        named = [one for one in chosen if question.layout.carries(nearer)[one]]
        if address := question.addresses.several(nearer, named):
            yield address


def _outer(question: Question, level: int, group: int) -> Iterator[Address]:
    """The domain itself and those around it, nearest first."""
    layout = question.layout
    limit = int((layout.groups(question.required) == layout.around(level, question.required)[group]).sum())
    for outer in range(level, question.required, -1):
        around = int(layout.around(level, outer)[group])
        narrows = int((layout.groups(outer) == around).sum()) < limit
        if layout.carries(outer)[around] and outer != WHOLE and (narrows or outer == level):
            yield question.address(outer, around)
