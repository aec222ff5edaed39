"""Writes records in a thread of its own, so that no disk and no reader of a pipe can keep reviews waiting."""

from __future__ import annotations

import threading
from collections import deque

import structlog

from webhook.decisions.files import Output

# The bytes that wait for a slow disk: some hundred of the longest records.
BACKLOG = 8 * 1024 * 1024
# How long the end of the process waits for what is not written yet.
LAST_SECONDS = 2.0
# Lines are written in pieces of about this size, so that files are rotated in time.
_PIECE = 256 * 1024


class Writer:
    """Takes lines without waiting. What cannot be written is counted as lost, and told in the log once."""

    def __init__(self, output: Output, backlog: int = BACKLOG) -> None:
        self._output = output
        self._backlog = backlog
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._written = self._lost = 0
        self._ending = False
        self._changed = threading.Condition()
        self.problem = ""
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def write(self, line: bytes) -> None:
        """Have a line written, or count it as lost if too much waits."""
        with self._changed:
            if self._size + len(line) > self._backlog or self._ending:
                self._lost += 1
                return
            self._lines.append(line)
            self._size += len(line)
            self._changed.notify()

    def lose(self) -> None:
        """Count a record that could not even be made."""
        with self._changed:
            self._lost += 1

    def take(self) -> tuple[int, int]:
        """How many lines were written and lost since this was last called."""
        with self._changed:
            counted, self._written, self._lost = (self._written, self._lost), 0, 0
        return counted

    def problems(self) -> list[str]:
        """Why nothing can be written now; nothing if it can."""
        return [self.problem] if self.problem else []

    def end(self, seconds: float = LAST_SECONDS) -> None:
        """Write what waits, for at most so many seconds, and no more."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while lines := self._next():
            try:
                self._output.write(b"".join(lines))
            except OSError as error:
                self._count(lost=len(lines))
                self._tell(f"records cannot be written: {error.strerror or error}")
            else:
                self._count(written=len(lines))
                self._tell("")
        self._output.close()

    def _next(self) -> list[bytes]:
        """The lines of the next piece; none at the end."""
        with self._changed:
            while not self._lines and not self._ending:
                self._changed.wait()
            lines, size = [], 0
            while self._lines and size < _PIECE:
                line = self._lines.popleft()
                lines.append(line)
                size += len(line)
            self._size -= size
            return lines

    def _count(self, *, written: int = 0, lost: int = 0) -> None:
        with self._changed:
            self._written += written
            self._lost += lost

    def _tell(self, problem: str) -> None:
        if problem and not self.problem:
            structlog.get_logger().error("decision log lost", reason=problem)
        elif self.problem and not problem:
            structlog.get_logger().info("decision log written again")
        self.problem = problem
