"""What else a machine does while a fault goes on: latency says nothing where that alone takes all cores."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from faults.resources import family

_SECONDS = 1.0


class Neighbours:
    """Counts the threads of other processes that run or want to, again and again in this block."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count, name="neighbours", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    @property
    def busy(self) -> str:
        """How many there were on average, where that is more than there are cores; else empty."""
        load, cores = sum(self._counts) / len(self._counts), os.cpu_count() or 1
        return f"a load of {load:.1f} besides the run, on {cores} cores" if load > cores else ""

    def _count(self) -> None:
        while not self._counts or not self._ended.wait(_SECONDS):
            running = int(Path("/proc/loadavg").read_text(encoding="utf-8").split()[3].partition("/")[0])
            self._counts.append(max(0, running - sum(map(_running, family(os.getpid())))))


def _running(pid: int) -> int:
    """How many threads of a process run or want to."""
    states = []
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            states.append(task.read_text(encoding="utf-8").rpartition(")")[2].split()[0])
    return states.count("R")
