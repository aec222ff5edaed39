"""Where records go: a file that is renamed when it is full, or a descriptor such as stdout."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Output(Protocol):
    """A place for whole lines. It may block; a thread of its own writes."""

    def write(self, lines: bytes) -> None:
        """Write lines, all of them. Raises OSError; what was torn then is ended before the next ones."""

    def close(self) -> None:
        """Write no more."""


class Descriptor:
    """An open descriptor, which stays open."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._torn = False

    def write(self, lines: bytes) -> None:
        """Write lines, whatever time it takes. Raises OSError."""
        rest = memoryview(b"\n" + lines if self._torn else lines)
        while rest:
            written = os.write(self._descriptor, rest)
            self._torn = rest[written - 1] != ord("\n")
            rest = rest[written:]

    def close(self) -> None:
        """Do nothing."""


class RotatingFile:
    """A file with older ones beside it, the oldest with the highest number: `decisions.jsonl`, `decisions.jsonl.1`.

    longest: after how many bytes it is renamed. older: how many such files are kept. Its owner alone may read it.
    """

    def __init__(self, path: Path, longest: int, older: int) -> None:
        self._path = path
        self._longest = longest
        self._older = older
        self._open: _File | None = None

    def write(self, lines: bytes) -> None:
        """Write lines. Raises OSError; the next call opens the file again."""
        try:
            if self._open is not None and self._open.size + len(lines) > self._longest:
                self._rotate()
            if self._open is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._open = _File(self._path)
            self._open.write(lines)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _rotate(self) -> None:
        self.close()
        for number in range(self._older, 0, -1):
            newer = self._numbered(number - 1)
            if newer.exists():
                newer.replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


class _File(Descriptor):
    """A file that is open, at its end. A line that was torn there, as by a full disk, is ended. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        super().__init__(self._number)
        self.size = os.fstat(self._number).st_size
        self._torn = self.size > 0 and os.pread(self._number, 1, self.size - 1) != b"\n"

    def write(self, lines: bytes) -> None:
        """Write lines. Raises OSError."""
        super().write(lines)
        self.size += len(lines)

    def close(self) -> None:
        """Close it."""
        with suppress(OSError):
            os.close(self._number)
