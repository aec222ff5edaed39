"""The file by which an interrupted audit goes on: JSON lines, each with the position behind an object or a list.

What is printed at once is printed before its line is written, so at most one object is told twice, and only if the
process is killed between the two. What is printed at the end stands in the lines themselves, and nothing is told twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec
from msgspec import Struct

from webhook.audit.audit import Judged


class JournalError(Exception):
    """The file is that of another audit, or of none; the text says so."""


class Asked(Struct, frozen=True):
    """What is audited. An audit goes on only if the same is asked for. rules: the names of rules and policies."""

    cluster: str
    namespaces: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    output: str = ""
    shard: str = ""


class Entry(Struct, frozen=True, omit_defaults=True):
    """A position in an audit.

    list: its name. objects: how many of it are done. ended: whether all of them are. counts: of the audit so far.
    """

    list: str
    token: str = ""
    after: str = ""
    objects: int = 0
    ended: bool = False
    counts: Mapping[str, int] = {}
    judged: Judged | None = None


_ASKED = msgspec.json.Decoder(Asked)
_ENTRY = msgspec.json.Decoder(Entry)


class Journal:
    """A file, or none if the path is empty. entries: what an interrupted audit has left, in its order.

    Raises JournalError and OSError.
    """

    def __init__(self, path: str, asked: Asked) -> None:
        self._path = Path(path) if path else None
        self._stream: IO[bytes] | None = None
        self.entries: tuple[Entry, ...] = ()
        if self._path is None:
            return
        known, whole = _read(self._path)
        if known:
            self.entries = tuple(_entries(self._path, known, asked))
        self._stream = self._path.open("r+b" if known else "wb")
        self._stream.truncate(whole)  # without a line that was not written to its end
        self._stream.seek(whole)
        if not known:
            self._write(asked)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()

    def add(self, entry: Entry) -> None:
        """Write a position, which counts from now on, even if the process is killed. Raises OSError."""
        self._write(entry)

    def end(self) -> None:
        """Remove the file: the audit is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _write(self, line: Struct) -> None:
        if self._stream is not None:
            self._stream.write(msgspec.json.encode(line) + b"\n")
            self._stream.flush()


def _read(path: Path) -> tuple[list[bytes], int]:
    """The whole lines of a file, none if it does not exist, and their length."""
    if not path.exists():
        return [], 0
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return lines, sum(map(len, lines))


def _entries(path: Path, lines: list[bytes], asked: Asked) -> Iterator[Entry]:
    try:
        before = _ASKED.decode(lines[0])
    except msgspec.MsgspecError as error:
        raise JournalError(f"{path}: not the file of an audit: {error}") from None
    for name in Asked.__struct_fields__:
        if getattr(before, name) != getattr(asked, name):
            raise JournalError(
                f"{path}: the file of an audit with other {name}; ask for the same, or remove it to begin again"
            )
    for number, line in enumerate(lines[1:], 2):
        try:
            yield _ENTRY.decode(line)
        except msgspec.MsgspecError as error:
            raise JournalError(f"{path}:{number}: not a line of an audit: {error}") from None
