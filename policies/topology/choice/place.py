"""The placing of one gang: the domain that it gets, or the best one if it fits nowhere now."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from policies.topology.choice import answer
from policies.topology.choice.choice import MOST_CONSIDERED, Choice
from policies.topology.choice.domains import Domains
from policies.topology.choice.ground import Ground
from policies.topology.choice.order import ordered
from policies.topology.choice.pack.room import Room
from policies.topology.choice.question import Question
from policies.topology.choice.stock import Integers
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Gang


def place(ground: Ground, gang: Gang, kept: Address = ()) -> Choice:
    """The choice for one gang. kept: the domain that it already has, or empty."""
    question = Question(ground, gang, kept)
    if reason := question.unknown:
        return Choice("unknown", reason)
    if choice := _fitting(question, question.now, None):
        return choice
    if question.preempting and (choice := _fitting(question, question.preempting, question.priority)):
        return choice
    return _later(question)


def _fitting(question: Question, room: Room, priority: int | None) -> Choice | None:
    """The choice if the gang fits into a domain of any level that is tried."""
    for level in question.levels:
        domains = question.domains(level, room, priority)
        holding = list(islice(question.eligible(level, domains.holding()), MOST_CONSIDERED))
        if holding:
            return answer.fitting(question, domains, holding, preempts=priority is not None)
    return None


def _later(question: Question) -> Choice:
    """The choice if the gang fits nowhere now: the best domain of those where it could, or else of all."""
    level = question.required
    whole = question.domains(level, question.whole)
    now = question.domains(level, question.now)
    best = _best(question, now, np.flatnonzero(whole.possible))
    chosen = next((group for group in best if whole.fits(group)), None)
    if chosen is not None:
        return answer.full(question, now, [chosen, *(group for group in best if group != chosen)])
    return answer.never(question, whole, _best(question, whole, np.flatnonzero(whole.layout.carries(level))))


def _best(question: Question, domains: Domains, groups: Integers) -> Sequence[int]:
    """The domains with room for the most Pods of the gang first; see the end of `order`."""
    own = list(question.eligible(domains.level, groups.tolist()))
    placed = domains.most(own)
    accelerators = question.accelerators(domains.room)
    order = ordered(domains.layout, domains.level, np.array(own, np.int64), domains.amounts, domains.room.rows)
    rank = np.empty(len(own), np.int64)
    rank[np.searchsorted(own, order.groups)] = np.arange(len(own))
    best = np.lexsort((rank, -(accelerators @ placed), -placed.sum(axis=0)))
    return [own[index] for index in best]
