"""What reading, compiling and judging may use: in a child process, and in a command."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from threading import current_thread, main_thread
from typing import NamedTuple

from policies.engine.interruption import METER, PostponedError


class Limits(NamedTuple):
    """Bytes beyond those of the process before, and seconds of processor time."""

    memory: int
    seconds: int


COMPILING = Limits(memory=128 * 2**20, seconds=5)
"""What the policies of one source may use to be compiled. A thousand of the packs take 4 s."""
COSTLY = "hint: shorten its expressions; nested macros, repeated variables and large patterns multiply what they cost"


@contextmanager
def limited(limits: Limits = COMPILING) -> Iterator[None]:
    """A block that may use so much, if this is the main thread, which alone gets signals.

    Raises PostponedError and MemoryError.
    """
    if current_thread() is not main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise PostponedError

    memory, before = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGVTALRM, end)
    try:
        with suppress(OSError):  # not every system tells
            most = virtual_memory() + limits.memory
            resource.setrlimit(resource.RLIMIT_AS, (most if memory[0] < 0 else min(most, memory[0]), memory[1]))
        signal.setitimer(signal.ITIMER_VIRTUAL, limits.seconds, 0.1)  # what a callback absorbs is raised again
        METER.longest = limits.seconds * 1e6  # the signal does not end a call of C
        yield
    finally:
        METER.longest = inf
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, memory)


def virtual_memory() -> int:
    """The bytes that this process may address now."""
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(statm, 100).split()[0]) * resource.getpagesize()
    finally:
        os.close(statm)
