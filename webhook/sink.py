"""Where log lines go: a stream that neither fails nor waits."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

# A pipe that can be written to has room for so many bytes (pipe(7)).
_PIECE = select.PIPE_BUF


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
        self._torn = False

    def write(self, text: str) -> None:
        """Write lines, or count them as one that is lost."""
        if self._lost and self._is_written(f"{self._tell(self._lost)}\n"):
            self._lost = 0
        if self._lost or not self._is_written(text):
            self._lost += 1

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def _is_written(self, text: str) -> bool:
        """Write a text, and return whether all of it could be. After a part of one, the next begins with a new line."""
        rest = f"{chr(10) if self._torn else ''}{text}".encode(errors="backslashreplace")
        length = len(rest)
        with suppress(OSError):
            while rest and self._poll.poll(0) == [(self._descriptor, select.POLLOUT)]:
                rest = rest[os.write(self._descriptor, rest[:_PIECE]) :]
        if len(rest) < length:
            self._torn = bool(rest)
        return not rest


def sink(stream: TextIO, tell: Callable[[int], str]) -> Sink | TextIO:
    """The sink for a stream; the stream itself where it has no descriptor."""
    try:
        return Sink(stream.fileno(), tell)
    except (OSError, ValueError):  # as io.UnsupportedOperation is
        return stream
