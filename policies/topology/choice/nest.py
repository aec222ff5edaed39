"""Narrower gangs of a workload inside the domain of a wider one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from policies.topology.choice.pack.room import Room
from policies.topology.choice.pack.spread import packed
from policies.topology.choice.question import Question
from policies.topology.choice.stock import Integers, Mask

Taken = Mapping[str, Integers]
"""What Pods take, by resource and row."""

_MOST_TRIES = 8


class Part(NamedTuple):
    """The domain of a narrower gang, as a mask of its Nodes, with what it and those inside it take."""

    rows: Mask
    taken: Taken


def parts(chain: Sequence[Question], rows: Mask, priority: int | None) -> tuple[Part, ...] | None:
    """The domains of gangs on these Nodes, each inside the one before; None if they are not seen to fit.

    chain: wider gangs first. priority: as in `Stock.free`. Each gang gets the first domain in order that leaves room
    for the others, of a few. What is returned fits; whether other Nodes inside the domains would do is not looked at.
    """
    question, *narrower = chain
    room = question.room(priority).inside(rows)
    domains = question.domains(question.required, room, priority)
    for group in islice(domains.holding(), _MOST_TRIES):
        inside = rows & question.layout.rows(question.required, group)
        deeper = parts(narrower, inside, priority) if narrower else ()
        if deeper is None:
            continue
        taken = beside(question, inside, priority, deeper)
        if taken is not None:
            return (Part(inside, taken), *deeper)
    return None


def beside(question: Question, rows: Mask, priority: int | None, inner: Sequence[Part]) -> Taken | None:
    """What the gang's own Pods and those of the gangs inside take on these Nodes; None if they do not fit there."""
    taken = dict(inner[0].taken) if inner else {}
    room = _less(question.room(priority).inside(rows), taken)
    places = packed(room, question.budget)
    if places is None:
        return None
    for resource, amounts in zip(room.resources, room.requests.T @ places, strict=True):
        total = taken.get(resource, np.zeros(len(rows), np.int64)).copy()
        total[room.rows] += amounts
        taken[resource] = total
    return taken


def _less(room: Room, taken: Taken) -> Room:
    free = [
        amounts - taken[resource][room.rows] if resource in taken else amounts
        for resource, amounts in zip(room.resources, room.free, strict=True)
    ]
    return replace(room, free=np.stack(free))
