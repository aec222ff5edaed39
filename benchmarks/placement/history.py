"""What became of the gangs of a run, and the figures that follow from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from msgspec import Struct, field

from benchmarks.placement.stream import TOTAL, Arrival


class Binding(NamedTuple):
    """A Pod that got a Node. domains: the Node's, by level: the fabric is part of a superpod's name."""

    at: float
    rack: str
    superpod: str
    node: str


class Stay(Struct):
    """A gang in the cluster; all times in seconds from the begin of the run. ended: infinite for one that never did."""

    arrival: Arrival
    created: float
    bindings: list[Binding] = field(default_factory=list)
    ended: float = math.inf

    @property
    def started(self) -> float:
        """When the last Pod got its Node; infinite for a gang that still waits."""
        whole = len(self.bindings) == self.arrival.size.pods
        return max(binding.at for binding in self.bindings) if whole else math.inf

    @property
    def spread(self) -> float:
        """The seconds from the first Pod's binding to the last one's; infinite while one is missing."""
        return self.started - min((binding.at for binding in self.bindings), default=0.0)

    @property
    def domains(self) -> int:
        """In how many domains of the required level its Pods are."""
        return len({getattr(binding, self.arrival.size.level) for binding in self.bindings})


class Moment(NamedTuple):
    """GPUs at a time.

    working: of gangs that have all their Pods. held: of gangs that wait for more. waiting: those that Pods without a
    Node ask for.
    """

    at: float
    working: int
    held: int
    waiting: int

    @property
    def idle(self) -> int:
        """Those that no Pod has."""
        return TOTAL - self.working - self.held


LATE_SECONDS = 3.0
"""Pods that are opened together are bound within a second. Where it takes longer, something took the room."""


class History(Struct):
    """A run. seconds: its length. stuck: the gangs of which a Pod was opened and not bound for a minute."""

    stays: tuple[Stay, ...]
    seconds: float
    stuck: frozenset[str] = frozenset()

    @property
    def late(self) -> int:
        """The gangs whose room was taken by others between opening and binding: stuck, or bound late in part."""
        return sum(stay.spread > LATE_SECONDS or stay.arrival.name in self.stuck for stay in self.stays)

    def moments(self) -> Iterator[Moment]:
        """The GPUs at every half of a second."""
        for tick in range(int(self.seconds * 2) + 1):
            yield self.moment(tick / 2)

    def moment(self, at: float) -> Moment:
        """The GPUs at a time."""
        working = held = waiting = 0
        for stay in self.stays:
            if not stay.created <= at < stay.ended:
                continue
            bound = sum(binding.at <= at for binding in stay.bindings) * stay.arrival.size.gpus
            waiting += stay.arrival.gpus - bound
            if stay.started <= at:
                working += bound
            else:
                held += bound
        return Moment(at, working, held, waiting)


class Figures(Struct, frozen=True):
    """Figures of a run. together: gangs in one domain of the level that they require, of those that started, by level.

    started: by level. pending: Pods without a Node at the end. stuck: gangs that hold GPUs at the end and wait for
    more. idle, held: shares of all GPUs while gangs came, from the time when the cluster had filled. wait: seconds to
    the start of a gang, the median and the 9th decile. last: seconds to the end of the last gang that ended.
    """

    together: tuple[int, int]
    started: tuple[int, int]
    gangs: tuple[int, int]
    pending: int
    stuck: int
    idle: float
    held: float
    wait: tuple[float, float]
    last: float

    @property
    def share(self) -> float:
        """The share of the gangs that started which are together."""
        return sum(self.together) / max(1, sum(self.started))

    @property
    def never(self) -> int:
        """The gangs that never started."""
        return sum(self.gangs) - sum(self.started)


LEVELS = ("rack", "superpod")
# The cluster has filled when a third of the gangs have come.
FILLED = 1 / 3


def figures_of(history: History) -> Figures:
    """The figures of a run."""
    stays = history.stays
    started = [stay for stay in stays if stay.started < math.inf]
    first, last = stays[int(len(stays) * FILLED)].created, stays[-1].created
    window = [moment for moment in history.moments() if first <= moment.at <= last]
    waits = sorted(stay.started - stay.created for stay in started) or [math.inf]
    return Figures(
        together=_by_level([stay for stay in started if stay.domains == 1]),
        started=_by_level(started),
        gangs=_by_level(stays),
        pending=sum(stay.arrival.size.pods - len(stay.bindings) for stay in stays),
        stuck=sum(0 < len(stay.bindings) < stay.arrival.size.pods for stay in stays),
        idle=sum(moment.idle for moment in window) / len(window) / TOTAL,
        held=sum(moment.held for moment in window) / len(window) / TOTAL,
        wait=(median(waits), waits[int(len(waits) * 0.9)]),
        last=max((stay.ended for stay in stays if stay.ended < math.inf), default=0.0),
    )


def _by_level(stays: Sequence[Stay]) -> tuple[int, int]:
    rack, superpod = (sum(stay.arrival.size.level == level for stay in stays) for level in LEVELS)
    return rack, superpod
