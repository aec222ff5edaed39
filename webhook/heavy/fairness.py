"""Who is next at what only one may use at a time, and when a turn has to end for others. Pure: times are passed in.

Whoever has used it least lately is next, so that tenants that ask all the time wait for themselves and for one another.
A turn ends early only for who has used much less: then its time is shared evenly by the turn, those that come first and
itself. Among those that have used about as much, turns go on, because what is ended was done in vain. For the same
reason a flood's claims that are nearly over come after its fresh ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# After so many seconds use counts half.
HALF_LIFE = 20.0
# A turn ends early for who has used less than one part in so many.
RATIO = 2
# Every turn may take so many seconds, however many wait, or nobody would get anywhere.
LEAST = 0.5
# Who has used more seconds floods. A claim of his is late when less than this part of its time is left.
FLOOD, LATE = 2.0, 0.4
_FORGOTTEN = 0.001


@dataclass(frozen=True, eq=False)
class Claim:
    """Somebody who waits for a turn, or has it. since: when it began to wait, or the turn began."""

    tenant: str
    since: float
    deadline: float


class Use:
    """For how many seconds each tenant has had turns lately. What is longer ago counts less."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._time = 0.0

    def of(self, tenant: str, now: float) -> float:
        """The use of a tenant."""
        return self._seconds.get(tenant, 0.0) * self._rest(now)

    def add(self, tenant: str, seconds: float, now: float) -> None:
        """Count a turn that has ended."""
        rest = self._rest(now)
        faded = {name: used * rest for name, used in self._seconds.items() if used * rest > _FORGOTTEN}
        self._seconds, self._time = {**faded, tenant: faded.get(tenant, 0.0) + seconds}, now

    def _rest(self, now: float) -> float:
        return math.exp2((self._time - now) / HALF_LIFE)


def queue(waiting: Iterable[Claim], use: Use, now: float) -> list[Claim]:
    """A claim of each tenant, in the order of their turns. waiting: all claims, in the order of arrival."""

    def is_late(claim: Claim) -> bool:
        left = claim.deadline - now
        return left < LATE * (claim.deadline - claim.since) and use.of(claim.tenant, now) > FLOOD

    first: dict[str, Claim] = {}
    for claim in sorted(waiting, key=is_late):
        first.setdefault(claim.tenant, claim)
    return sorted(first.values(), key=lambda claim: (is_late(claim), use.of(claim.tenant, now)))


def end(turn: Claim, others: Sequence[Claim], use: Use, now: float) -> float:
    """When a turn has to end for other tenants; infinite if there are none. others: those that wait, in their order."""
    used = use.of(turn.tenant, now)
    return min(
        (_end(turn, used, claim, use.of(claim.tenant, now), before) for before, claim in enumerate(others)),
        default=math.inf,
    )


def _end(turn: Claim, used: float, claim: Claim, less: float, before: int) -> float:
    """When a turn has to end for one claim, whose tenant has used less. before: how many come first."""
    contended = max(turn.since, claim.since)
    share = contended + (claim.deadline - contended) / (before + 2)
    return max(share, turn.since + RATIO * less - used, turn.since + LEAST)
