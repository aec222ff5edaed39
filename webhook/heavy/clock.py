"""Clocks of reviews: how long one may keep the event loop, and how long it may take in a child process.

Evaluations look at their clock now and then. Signals end those that do not get to it, such as one long call.
"""

from __future__ import annotations

import atexit
import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, thread_time
from types import FrameType
from typing import TypeVar

from policies.engine.interruption import PostponedError, TimeLimitError

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
    references, which cannot be told from other functions; there the next tick is the one that ends the slice.
    """
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        if frame.f_code is Slice.run.__code__:
            return True
        if frame.f_code.co_name == "__del__" or frame.f_code in callbacks:
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
