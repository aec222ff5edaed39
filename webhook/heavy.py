"""Reviews that take long: what the event loop spends on one, and whose turn it is at the child process for the others.

Evaluations look at their clock by their cost. A child that does not get to it, in one long call, is killed.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from time import monotonic, thread_time
from typing import TypeVar

import structlog

from policies.engine.interruption import METER, Missing, PostponedError, TimeLimitError
from policies.engine.rule import Rule
from webhook.limits import Limits
from webhook.metrics import Metrics

T = TypeVar("T")

# Processor time, which passes only while this process runs: a review is not heavy because the kernel let others run. An
# ordinary review takes tenths of a millisecond.
SLICE = 0.015
# The microseconds that one call may take, as it is reckoned beforehand for the worst case.
LONGEST_CALL = 20_000


class Slice:
    """The time that one review may keep the event loop, in all its evaluations together."""

    __slots__ = ("_end", "_left", "_next")

    def __init__(self) -> None:
        self._left = SLICE
        self._end = self._next = 0.0

    def run(self, evaluation: Callable[[], T]) -> T:
        """The result of an evaluation. Raises PostponedError after the time."""
        self._end, self._next = thread_time() + self._left, monotonic() + self._left
        METER.expired, METER.longest = self, LONGEST_CALL
        try:
            return evaluation()
        except Missing:
            self._left = self._end - thread_time()
            raise
        finally:
            METER.expired, METER.longest = None, math.inf

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        # The wall clock takes a tenth of the time of the other one, and runs at least as fast.
        if monotonic() < self._next:
            return False
        left = self._end - thread_time()
        self._next = monotonic() + left
        return left <= 0

    def __call__(self) -> bool:
        """Look at the clock. Raises PostponedError after the time."""
        if self.is_over:
            raise PostponedError
        return False


class Allowance:
    """The time that a review may take in a child process. policy: the one under evaluation when it was over."""

    def __init__(self, seconds: float) -> None:
        self._began = monotonic()
        self._end = self._began + seconds
        self._error: TimeLimitError | None = None

    @property
    def policy(self) -> str:
        """The policy that was under evaluation when the time was over; empty if it was not."""
        return "" if self._error is None else self._error.policy

    def end(self, *_: object) -> None:
        """End the time now; a handler of signals, which interrupts nothing."""
        self._end = 0.0

    def __call__(self) -> bool:
        """Look at the clock. Raises the same TimeLimitError each time after the end."""
        if self._error is None and monotonic() >= self._end:
            self._error = TimeLimitError(f"it took longer than {monotonic() - self._began:.1f} s")
        if self._error is not None:
            raise self._error
        return False


# A review of 8 MiB needs 60 to 120 MiB decoded. The seconds are for a child whose parent is gone or does not end it.
LIMITS = Limits(memory=256 * 1024 * 1024, seconds=40)


# After so many seconds use counts half.
HALF_LIFE = 20.0
# A turn ends early for who has used less than one part in so many.
RATIO = 2
# Every turn may take so many seconds, however many wait, or nobody would get anywhere.
LEAST = 0.5
# Who has used more seconds floods. A claim of his is late when less than this part of its time is left.
FLOOD, LATE = 2.0, 0.4
_FORGOTTEN = 0.001


class Claim:
    """Somebody who waits for a turn, or has it. since: when it began to wait, or the turn began.

    end: called when the turn has to end; set by whoever has it.
    """

    def __init__(self, tenant: str, since: float, deadline: float) -> None:
        self.tenant = tenant
        self.since = since
        self.deadline = deadline
        self.end: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def end_at(self, moment: float) -> None:
        """End at a moment, instead of at an earlier choice of one. Infinite: for nobody."""

        def end() -> None:
            self._ended = True
            self.end()

        if self._timer is not None:
            self._timer.cancel()
        if moment < math.inf and not self._ended:
            self._timer = asyncio.get_running_loop().call_at(moment, end)


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


def turn_order(waiting: Iterable[Claim], use: Use, now: float) -> list[Claim]:
    """A claim of each tenant, in the order of their turns. waiting: all claims, in the order of arrival."""

    def is_late(claim: Claim) -> bool:
        left = claim.deadline - now
        return left < LATE * (claim.deadline - claim.since) and use.of(claim.tenant, now) > FLOOD

    first: dict[str, Claim] = {}
    for claim in sorted(waiting, key=is_late):
        first.setdefault(claim.tenant, claim)
    return sorted(first.values(), key=lambda claim: (is_late(claim), use.of(claim.tenant, now)))


def turn_end(turn: Claim, others: Sequence[Claim], use: Use, now: float) -> float:
    """When a turn has to end for other tenants; infinite if there are none. others: those that wait, in their order."""
    used, moments = use.of(turn.tenant, now), [math.inf]
    for before, claim in enumerate(others):
        contended = max(turn.since, claim.since)
        share = contended + (claim.deadline - contended) / (before + 2)
        moments.append(max(share, turn.since + RATIO * use.of(claim.tenant, now) - used, turn.since + LEAST))
    return min(moments)


WAITING = 128
WAITING_OF_ONE = 32


class NoTurnError(Exception):
    """There was no turn: too many wait, or the time was over."""


class Turns:
    """Gives turns to tenants, and within a tenant in the order of arrival."""

    def __init__(self) -> None:
        self._turn: Claim | None = None
        self._waiting: dict[Claim, asyncio.Future[None]] = {}
        self._use = Use()

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, tenant: str, deadline: float) -> AsyncIterator[Claim]:
        """A turn. deadline: a time of the event loop's clock. Raises NoTurnError."""
        loop = asyncio.get_running_loop()
        claim = Claim(tenant, loop.time(), deadline)
        if self._turn is None:
            self._turn = claim
        else:
            await self._place(claim)
        try:
            yield claim
        finally:
            now = loop.time()
            claim.end_at(math.inf)
            self._use.add(tenant, now - claim.since, now)
            self._next()

    async def _place(self, claim: Claim) -> None:
        """Wait until the claim has the turn."""
        of_one = sum(other.tenant == claim.tenant for other in self._waiting)
        if self.waiting >= WAITING or of_one >= WAITING_OF_ONE:
            raise NoTurnError("too many reviews that take long wait already")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[claim] = place
        self._hurry()
        try:
            async with asyncio.timeout_at(claim.deadline):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():  # the turn came at the last moment
                claim.end_at(math.inf)
                self._next()
            elif self._waiting.pop(claim, None) is not None:
                self._hurry()
            if isinstance(error, TimeoutError):
                raise NoTurnError("other slow reviews came first, and no time was left") from None
            raise

    def _queue(self) -> list[Claim]:
        return turn_order(self._waiting, self._use, asyncio.get_running_loop().time())

    def _hurry(self) -> None:
        """Let the turn end in time for those that wait."""
        if (turn := self._turn) is not None:
            others = [other for other in self._queue() if other.tenant != turn.tenant]
            turn.end_at(turn_end(turn, others, self._use, asyncio.get_running_loop().time()))

    def _next(self) -> None:
        self._turn = None
        while self._waiting:
            claim = self._queue()[0]
            place = self._waiting.pop(claim)
            if not place.done():
                self._turn, claim.since = claim, asyncio.get_running_loop().time()
                place.set_result(None)
                self._hurry()
                return


# How long the reviews of a tenant for a rule go straight to the child process after one was given up here.
REMEMBERED = 10.0
_MOST = 1000
# A policy is slow if it went over its time so often in so many seconds.
TIMES, WITHIN = 3, 60.0
SKIPPED = 300.0
LOGGED = 60.0
_NONE: frozenset[str] = frozenset()


class SlowPolicies:
    """What was too slow lately. postponed: until when reviews are not tried in the event loop, by rule and tenant.

    skips: whether slow policies are skipped. tell: told the name of a slow policy.
    """

    def __init__(
        self, metrics: Metrics, *, skips: Callable[[], bool] = lambda: False, tell: Callable[[str], None] | None = None
    ) -> None:
        self._metrics = metrics
        self._skips = skips
        self._tell = tell
        self.postponed: dict[tuple[str, str], float] = {}
        self._times: dict[str, deque[float]] = {}
        self._skipped: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        self._log = structlog.get_logger()

    @property
    def skipped(self) -> frozenset[str]:
        """The policies that are not evaluated now."""
        if not self._skipped or not self._skips():
            return _NONE
        now = monotonic()
        self._skipped = {policy: until for policy, until in self._skipped.items() if until > now}
        return frozenset(self._skipped)

    def postpone(self, rule: str, tenant: str) -> None:
        """Remember that a rule took too long for the event loop in a review of a tenant."""
        self._metrics.postponed.inc()
        now = monotonic()
        if len(self.postponed) >= _MOST:
            self.postponed = {key: until for key, until in self.postponed.items() if until > now}
        if len(self.postponed) < _MOST:
            self.postponed[rule, tenant] = now + REMEMBERED

    def expects(self, rules: Iterable[Rule], tenant: str) -> bool:
        """Whether a review is likely to take too long for the event loop."""
        now = monotonic()
        return any(self.postponed.get((rule.name, tenant), 0.0) > now for rule in rules)

    def forgive(self) -> None:
        """Evaluate all policies again, because they were changed."""
        self._times.clear()
        self._skipped = {}

    def overtime(self, policy: str, *, dry_run: bool = False) -> None:
        """Note that a policy went over the time of a review. A dry run has no side effects on the cluster."""
        now = monotonic()
        self._metrics.rules.overtime(policy)
        times = self._times.setdefault(policy, deque(maxlen=TIMES))
        times.append(now)
        if len(self._times) > _MOST:
            del self._times[next(iter(self._times))]
        slow = len(times) == TIMES and now - times[0] <= WITHIN
        if slow and self._skips():
            self._skipped[policy] = now + SKIPPED
        if slow and now >= self._logged.get(policy, 0.0):
            self._logged = {name: until for name, until in self._logged.items() if until > now}
            self._logged[policy] = now + LOGGED
            self._log.warning("policy is slow", policy=policy, times=TIMES, seconds=WITHIN, skipped=self._skips())
            if self._tell is not None and not dry_run:
                self._tell(policy)
