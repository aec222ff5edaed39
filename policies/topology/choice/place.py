"""The placing of one gang: the domain that it gets, or the best one if it fits nowhere now."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

import numpy as np
from msgspec.structs import replace

from policies.topology.choice import answer
from policies.topology.choice.choice import MOST_CONSIDERED, Choice
from policies.topology.choice.domains import Domains
from policies.topology.choice.ground.ground import Ground
from policies.topology.choice.ground.layout import WHOLE
from policies.topology.choice.nest import beside, parts
from policies.topology.choice.order import ordered
from policies.topology.choice.question import Question
from policies.topology.choice.stock import Integers, Mask
from policies.topology.gang.address import Address
from policies.topology.gang.gang import Gang


def place(
    ground: Ground, gangs: Sequence[Gang], kept: Sequence[Address], within: Mask | None = None
) -> tuple[Choice, ...]:
    """The choices for gangs, each inside the one before. kept: by gang, the domain that it already has, or empty.

    within: the Nodes on which the gangs may be; None for all.
    """
    placing = _Placing(ground, gangs, kept[0], within)
    choice, rows = placing.choice()
    if len(gangs) == 1:
        return (choice,)
    return (choice, *place(ground, gangs[1:], kept[1:], None if kept[1] else rows))


class _Placing:
    """The placing of the first of the gangs, with the others inside."""

    def __init__(self, ground: Ground, gangs: Sequence[Gang], kept: Address, within: Mask | None) -> None:
        self._question = Question(ground, gangs[0], kept, gangs[1:], within)
        self._gangs = [Question(ground, gang, ()) for gang in gangs if gang.pods] if len(gangs) > 1 else []

    def choice(self) -> tuple[Choice, Mask | None]:
        """The choice, and the Nodes for the gangs inside; None for all."""
        question = self._question
        if reason := question.unknown:
            return Choice("unknown", reason), None
        placed = self._fitting(None)
        if placed is None and question.priority is not None:
            placed = self._fitting(question.priority)
        return placed or self._later()

    def _later(self) -> tuple[Choice, Mask | None]:
        """The choice if the gang fits nowhere now: the best domain of those where it could, or else of all."""
        question, level = self._question, self._question.required
        whole = question.domains(level, question.whole)
        now = question.domains(level, question.room())
        best = _best(question, now, np.flatnonzero(whole.possible), waits=True)
        chosen = next((group for group in best if whole.fits(group)), None)
        if chosen is not None:
            choice = answer.full(question, now, [chosen, *(group for group in best if group != chosen)])
            return replace(choice, wider=self._wider()), question.layout.rows(level, chosen)
        carrying = np.flatnonzero(question.layout.carries(level))
        return answer.never(question, whole, _best(question, whole, carrying)), None

    def _wider(self) -> Address:
        """The domain above the required level in which the gangs would fit now, of the nearest level that has one."""
        question = self._question
        for level in range(question.required - 1, WHOLE, -1):
            also = partial(self._nests, level, None) if self._gangs else None
            holding = question.domains(level, question.room(), None, also).holding()
            group = next((group for group in holding if question.is_told(level)[group]), None)
            if group is not None:
                return question.addresses.one(level, group)
        return ()

    def _fitting(self, priority: int | None) -> tuple[Choice, Mask] | None:
        """The choice if the gangs fit into a domain of any level that is tried."""
        question = self._question
        for level in question.levels:
            also = partial(self._nests, level, priority) if self._gangs else None
            domains = question.domains(level, question.room(priority), priority, also)
            holding = list(islice(question.eligible(level, domains.holding()), MOST_CONSIDERED))
            if holding:
                choice = answer.fitting(question, domains, holding, preempts=priority is not None)
                return choice, self._rows(level, holding[0], priority)
        return None

    def _nests(self, level: int, priority: int | None, group: int) -> bool:
        """Whether the gangs fit into a domain one inside the other."""
        rows = self._question.layout.rows(level, group)
        first, *narrower = self._gangs
        inner = parts(narrower, rows, priority) if narrower else ()
        return inner is not None and beside(first, rows, priority, inner) is not None

    def _rows(self, level: int, group: int, priority: int | None) -> Mask:
        rows = self._question.layout.rows(level, group)
        inner = parts(self._gangs[1:], rows, priority) if len(self._gangs) > 1 else None
        return inner[0].rows if inner else rows


def _best(question: Question, domains: Domains, groups: Integers, *, waits: bool = False) -> Sequence[int]:
    """The domains with room for the most Pods of the gang first; see the end of `order`.

    waits: whether what other gangs wait for counts.
    """
    own = list(question.eligible(domains.level, groups.tolist()))
    placed = domains.most(own)
    accelerators = question.accelerators(domains.room)
    order = ordered(domains.layout, domains.level, np.array(own, np.int64), domains.amounts)
    rank = np.empty(len(own), np.int64)
    rank[np.searchsorted(own, order.groups)] = np.arange(len(own))
    excess, owed = question.claims(domains.level)[:, own] if waits else np.zeros((2, len(own)), np.int64)
    best = np.lexsort((rank, owed, -(accelerators @ placed), -placed.sum(axis=0), excess))
    return [own[index] for index in best]
