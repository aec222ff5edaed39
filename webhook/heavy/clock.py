"""Clocks of reviews: how long one may keep the event loop, and how long it may take in a child process.

Evaluations look at their clock now and then. A timer of the kernel ends those that do not get to it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, thread_time

from policies.engine.timelimit import PostponedError, TimeLimitError

# An ordinary review takes tenths of a millisecond.
SLICE = 0.02
# No single step between two looks should take longer; what does is interrupted.
LONGEST_STEP = 0.015


class Slice:
    """The time that one review may keep the event loop, in all its evaluations together.

    It is processor time: a review is not heavy because the kernel ran another process meanwhile. That clock takes a
    system call, so it is looked at only when the usual clock says that the time may be over.
    """

    def __init__(self, seconds: float = SLICE) -> None:
        self._left = seconds
        self._until = 0.0
        self._began = 0.0
        self._running = False

    def __call__(self) -> bool:
        """Look at the clock. Raises PostponedError after the time."""
        if monotonic() > self._until and thread_time() - self._began > self._left:
            raise PostponedError
        return False

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block in which the time passes. It ends with PostponedError soon after the time is over."""
        self._began = thread_time()
        self._until = monotonic() + self._left
        interrupts = threading.current_thread() is threading.main_thread()
        if interrupts:
            signal.signal(signal.SIGALRM, self._interrupt)
            signal.setitimer(signal.ITIMER_REAL, max(self._left, 0) + LONGEST_STEP, LONGEST_STEP)
        self._running = True
        try:
            yield
        finally:
            self._running = False
            if interrupts:
                signal.setitimer(signal.ITIMER_REAL, 0)
            self._left -= thread_time() - self._began

    def _interrupt(self, *_: object) -> None:
        if self._running:
            self()


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
