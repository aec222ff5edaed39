"""Reviews that take long: what the event loop spends on one, and whose turn it is at the child process for the others.

Evaluations look at their clock now and then. Signals end those that do not get to it, such as one long call.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import math
import os
import pickle
import resource
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, thread_time
from types import FrameType
from typing import Any, NoReturn, TypeVar

import structlog

from policies.engine.interruption import PostponedError, TimeLimitError
from policies.engine.rule import Rule
from webhook.metrics import Metrics

T = TypeVar("T")

# Processor time, which passes only while this process runs: a review is not heavy because the kernel let others run.
TICK = 0.015
# The ticks of a slice: it ends after 15 to 30 ms. An ordinary review takes tenths of a millisecond.
SLICE = 2
# The part of a tick that the main thread has to have used. Some kernels count in steps of 10 ms.
_OWN = 0.6


class Ticks:
    """Counts processor time of the main thread by a timer of the kernel, so that looking at it costs nothing.

    The timer counts that of all threads, such as one that reads policies; no review is heavy because of them. current:
    the slice that runs, which each tick may end.
    """

    def __init__(self) -> None:
        self.count = 0
        self.current: Slice | None = None
        self._used = 0.0

    def start(self) -> None:
        """Begin to count, in the main thread. Only one counts in a process, the last one that was started."""
        signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, TICK, TICK)
        atexit.unregister(_stop)
        atexit.register(_stop)

    def _tick(self, _signal: int, frame: FrameType | None) -> None:
        used = thread_time()  # handlers of signals run in the main thread
        if used - self._used < _OWN * TICK:
            return
        self.count, self._used = self.count + 1, used
        if self.current is not None and self.current.is_over and _is_evaluation(frame):
            raise PostponedError


def _is_evaluation(frame: FrameType | None) -> bool:
    """Whether what is raised in a frame ends the evaluation of a slice.

    In finalizers and in callbacks of the garbage collector it would only be printed. So it is in callbacks of weak
    references, which cannot be told from other functions; there the next tick is the one that ends the slice. An import
    that ends half way leaves half a module.
    """
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code is Slice.run.__code__:
            return True
        code = frame.f_code
        if code.co_name == "__del__" or code in callbacks or code.co_filename.startswith("<frozen importlib"):
            return False
        frame = frame.f_back
    return False


def _stop() -> None:
    """End the ticks. While Python ends it has no handlers for signals any more, and a tick would kill the process."""
    signal.setitimer(signal.ITIMER_PROF, 0)


class Slice:
    """The time that one review may keep the event loop, in all its evaluations together."""

    __slots__ = ("_end", "_left", "_ticks")

    def __init__(self, ticks: Ticks) -> None:
        self._ticks = ticks
        self._left = SLICE
        self._end = 0

    def run(self, evaluation: Callable[[], T]) -> T:
        """The result of an evaluation. Raises PostponedError after the time."""
        self._end = self._ticks.count + self._left
        self._ticks.current = self
        try:
            return evaluation()
        finally:
            self._ticks.current = None
            self._left = self._end - self._ticks.count

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        return self._ticks.count >= self._end

    def __call__(self) -> bool:
        """Look at the clock. Raises PostponedError after the time."""
        if self.is_over:
            raise PostponedError
        return False


class Allowance:
    """The time that a review may take in a child process. policy: the one under evaluation when it was over."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._error: TimeLimitError | None = None
        self._running = False

    @property
    def policy(self) -> str:
        """The policy that was under evaluation when the time was over; empty if it was not."""
        return "" if self._error is None else self._error.policy

    def __call__(self) -> bool:
        """Look at the clock. Raises the same TimeLimitError each time after the end."""
        if self._error is not None:
            raise self._error
        return False

    @contextmanager
    def running(self, seconds: float) -> Iterator[None]:
        """A block that SIGALRM ends, sent by somebody else or by the kernel after some time, by TimeLimitError."""
        signal.signal(signal.SIGALRM, self._interrupt)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
        self._running = True
        try:
            yield
        finally:
            self._running = False

    def _interrupt(self, *_: object) -> None:
        if self._running and self._error is None:
            self._error = TimeLimitError(f"it took longer than {monotonic() - self._began:.1f} s")
            raise self._error


# What a child may allocate beyond what it shares with its parent. A review of 8 MiB needs 60 to 120 MiB decoded.
MEMORY = 256 * 1024 * 1024
# The processor time of a child whose parent is gone or does not get to end it.
LONGEST_SECONDS = 40
# From the end of the time to the end of the process: rules that have not run fail, and the answer is encoded.
LAST_WORDS = 0.1
_STDERR = 2
_CHUNK = 1 << 16


class ChildError(Exception):
    """A child ended without a result."""


class Child:
    """A running child. result: what `work` returned, or ChildError. gone: set when no process is left.

    work: runs in the child, and returns what can be pickled. Raises ChildError if there can be no process.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[Any] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._received = bytearray()
        try:
            self.pid, self._process, self._reading = _forked(work)
        except OSError as error:
            raise ChildError(f"no process could be started: {error.strerror}") from error
        self._loop.add_reader(self._reading, self._read)
        self._loop.add_reader(self._process, self._reap)

    def end(self) -> None:
        """End the work. The child may still say what came of it; it is killed if it does not do so at once."""
        self._send(signal.SIGALRM)
        self._loop.call_later(LAST_WORDS, self.kill)

    def kill(self) -> None:
        """Kill the process, if there is still one."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if not self.gone.done():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while part := os.read(self._reading, _CHUNK):
                self._received += part
            self._loop.remove_reader(self._reading)

    def _reap(self) -> None:
        """Take what the child has left. It has ended, so everything that it wrote is there."""
        self._loop.remove_reader(self._process)
        self._read()
        self._loop.remove_reader(self._reading)
        _, status = os.waitpid(self.pid, 0)
        os.close(self._process)
        os.close(self._reading)
        code = os.waitstatus_to_exitcode(status)
        if not self.result.done():
            if code == 0:
                self.result.set_result(pickle.loads(self._received))  # noqa: S301 - this program wrote it
            else:
                self.result.set_exception(ChildError(f"its process ended with {code}"))
        self.gone.set_result(None)


def _forked(work: Callable[[], Any]) -> tuple[int, int, int]:
    """The id of a new process, and descriptors of the process and of what it writes. Raises OSError."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _live(work, writing)
        process = _opened(pid)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    os.set_blocking(reading, False)
    return pid, process, reading


def _opened(pid: int) -> int:
    """A descriptor of a process, which is ended if there can be none. Raises OSError."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _live(work: Callable[[], Any], writing: int) -> NoReturn:
    """The whole life of the child. It never returns to the event loop of its parent."""
    code = 1
    try:
        _detach(writing)
        written = memoryview(pickle.dumps(work(), pickle.HIGHEST_PROTOCOL))
        while written:
            written = written[os.write(writing, written) :]
        code = 0
    finally:
        os._exit(code)


def _detach(writing: int) -> None:
    """Let go of what is the parent's, and bound what the child may use."""
    signal.set_wakeup_fd(-1)  # a signal here would wake the parent's event loop
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    last = os.sysconf("SC_OPEN_MAX")
    for first, end in ((0, _STDERR), (_STDERR + 1, writing), (writing + 1, last)):
        os.closerange(first, end)
    gc.freeze()  # what the parent made is not looked at, so its memory stays shared
    with suppress(OSError):
        os.nice(5)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_virtual() + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_SECONDS,) * 2)


def _virtual() -> int:
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(statm, 100).split()[0]) * resource.getpagesize()
    finally:
        os.close(statm)


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


class Turn:
    """A turn, which begins now. end: called when the turn has to end; set by whoever has it."""

    def __init__(self, tenant: str, deadline: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.claim = Claim(tenant, self._loop.time(), deadline)
        self.end: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def end_at(self, moment: float) -> None:
        """End at a moment, instead of at an earlier choice of one. Infinite: for nobody."""
        if self._timer is not None:
            self._timer.cancel()
        if moment < math.inf and not self._ended:
            self._timer = self._loop.call_at(moment, self._end)

    def _end(self) -> None:
        self._ended = True
        self.end()


class Turns:
    """Gives turns to tenants, and within a tenant in the order of arrival."""

    def __init__(self) -> None:
        self._turn: Turn | None = None
        self._waiting: dict[Claim, asyncio.Future[Turn]] = {}
        self._use = Use()

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, tenant: str, deadline: float) -> AsyncIterator[Turn]:
        """A turn. deadline: a time of the event loop's clock. Raises NoTurnError."""
        if self._turn is None:
            turn = self._turn = Turn(tenant, deadline)
        else:
            turn = await self._place(tenant, deadline)
        try:
            yield turn
        finally:
            now = asyncio.get_running_loop().time()
            turn.end_at(math.inf)
            self._use.add(tenant, now - turn.claim.since, now)
            self._next()

    async def _place(self, tenant: str, deadline: float) -> Turn:
        of_one = sum(claim.tenant == tenant for claim in self._waiting)
        if self.waiting >= WAITING or of_one >= WAITING_OF_ONE:
            raise NoTurnError("too many reviews that take long wait already")
        loop = asyncio.get_running_loop()
        claim = Claim(tenant, loop.time(), deadline)
        place: asyncio.Future[Turn] = loop.create_future()
        self._waiting[claim] = place
        self._hurry()
        try:
            async with asyncio.timeout_at(deadline):
                return await place
        except BaseException as error:
            if place.done() and not place.cancelled():  # the turn came at the last moment
                place.result().end_at(math.inf)
                self._next()
            elif self._waiting.pop(claim, None) is not None:
                self._hurry()
            if isinstance(error, TimeoutError):
                raise NoTurnError("other reviews that take long came first, and then no time was left") from None
            raise

    def _queue(self) -> list[Claim]:
        return turn_order(self._waiting, self._use, asyncio.get_running_loop().time())

    def _hurry(self) -> None:
        """Let the turn end in time for those that wait."""
        if self._turn is not None:
            claim = self._turn.claim
            others = [other for other in self._queue() if other.tenant != claim.tenant]
            self._turn.end_at(turn_end(claim, others, self._use, asyncio.get_running_loop().time()))

    def _next(self) -> None:
        self._turn = None
        while self._waiting:
            claim = self._queue()[0]
            place = self._waiting.pop(claim)
            if not place.done():
                self._turn = Turn(claim.tenant, claim.deadline)
                place.set_result(self._turn)
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
