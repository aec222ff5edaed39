"""Where log lines go: a descriptor, which is written to without failing and without waiting."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress

# A pipe that can be written to has room for so many bytes (pipe(7)).
_PIECE = select.PIPE_BUF
_NEWLINE = ord("\n")


class Sink:
    """Writes lines to a descriptor; one that cannot be written now is left out, and the next one says how many were.

    A full disk or a container runtime that does not read must not keep reviews from being answered.

    tell: makes the line that says how many were left out.
    """

    def __init__(self, descriptor: int, tell: Callable[[int], str]) -> None:
        self._descriptor = descriptor
        self._tell = tell
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._lost = 0
        self._uncounted = 0
        self._torn = False

    def write(self, text: str) -> None:
        """Write whole lines, or count those of them as lost that could not be written."""
        lines = text.encode(errors="backslashreplace")
        if self._lost and not self._remainder(f"{self._tell(self._lost)}\n".encode()):
            self._lost = 0
        lost = (lines if self._lost else self._remainder(lines)).count(b"\n")
        self._lost += lost
        self._uncounted += lost

    def take_lost(self) -> int:
        """How many lines were lost since this was last called."""
        lost, self._uncounted = self._uncounted, 0
        return lost

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def _remainder(self, lines: bytes) -> bytes:
        """Write lines, and return what could not be written. A line that was torn before is ended first."""
        whole = b"\n" + lines if self._torn else lines
        written = 0
        with suppress(OSError):
            while written < len(whole) and self._poll.poll(0) == [(self._descriptor, select.POLLOUT)]:
                written += os.write(self._descriptor, whole[written : written + _PIECE])
        if not written:
            return lines
        self._torn = whole[written - 1] != _NEWLINE
        return whole[written:]
