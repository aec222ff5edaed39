"""On which Nodes the Pods of a template may run: selectors, affinity, taints, and what keeps Pods out for now.

The answer for a template is kept, and only Nodes that changed since are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from policies.engine.facts import Taint
from policies.topology.gang.gang import Member, Requirement, Toleration
from policies.topology.nodes.labels import Labels, Rows
from policies.topology.nodes.obstacle import Obstacle
from policies.topology.nodes.selection import tolerates_all
from policies.topology.nodes.table import Codes, Mask, room

_MOST_ANSWERS = 128
# Beyond so many changes it is quicker to look at all Nodes.
_MOST_CHANGES = 1024


ANYWHERE: Final = Member("", 1, (), tolerations=(Toleration("", "Exists"),))
"""A Pod that may run on every Node that there is, if the Node gets well."""


class Standing(Struct, frozen=True):
    """What keeps Pods from a Node. Many Nodes have the same. lasting: see `obstacle.lasting`."""

    lasting: tuple[Taint, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()


class _Question(Struct, frozen=True):
    """The part of a member that decides where it may run."""

    node_selector: tuple[tuple[str, str], ...]
    terms: tuple[tuple[Requirement, ...], ...]
    tolerations: tuple[Toleration, ...]


class _Answer(Struct, frozen=True):
    """now, possible: see `Inventory.eligible`. changes: how many changes of Nodes had been seen."""

    now: Mask
    possible: Mask
    changes: int


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
        if row >= len(self._codes):
            longer = np.full(room(row + 1), -1, np.int32)
            longer[: len(self._codes)] = self._codes
            self._codes = longer
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
        question = _Question(member.node_selector, member.terms, member.tolerations)
        answer = self._answers.pop(question, None)
        if answer is None or answer.changes != self.changes or len(answer.now) != size:
            answer = self._answer(question, answer, size)
            if len(self._answers) >= _MOST_ANSWERS:
                del self._answers[next(iter(self._answers))]
        self._answers[question] = answer
        return answer.now, answer.possible

    def _answer(self, question: _Question, last: _Answer | None, size: int) -> _Answer:
        behind = self.changes if last is None else self.changes - last.changes
        if last is None or behind > min(len(self._log), _MOST_CHANGES):
            return _Answer(*self._evaluated(question, slice(0, size)), self.changes)
        rows = np.array([*dict.fromkeys(self._log[len(self._log) - behind :])], np.int64)
        now, possible = (
            np.concatenate((mask, np.zeros(size - len(mask), np.bool_))) for mask in (last.now, last.possible)
        )
        now[rows], possible[rows] = self._evaluated(question, rows)
        return _Answer(now, possible, self.changes)

    def _evaluated(self, question: _Question, rows: Rows) -> tuple[Mask, Mask]:
        codes = self._codes[rows]
        # The last entry stands for rows without a Node, whose code is -1.
        well = [tolerates_all(question.tolerations, standing.lasting) for standing in self._standings]
        clear = [
            tolerates_all(question.tolerations, [obstacle.taint for obstacle in standing.obstacles])
            for standing in self._standings
        ]
        possible: Mask = np.array([*well, False])[codes]
        for key, value in question.node_selector:
            possible &= self._labels.meets(Requirement(key, "In", (value,)), rows)
        if question.terms:
            possible &= self._meets_one(question.terms, rows, len(codes))
        return possible & np.array([*clear, False])[codes], possible

    def _meets_one(self, terms: Sequence[Sequence[Requirement]], rows: Rows, count: int) -> Mask:
        """Which rows meet one of the terms. One without requirements matches no Node."""
        one = np.zeros(count, np.bool_)
        for term in filter(None, terms):
            every = np.ones(count, np.bool_)
            for requirement in term:
                every &= self._labels.meets(requirement, rows)
            one |= every
        return one
