"""Records on their way to a file."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from webhook.decisions.log import RotatingFile, Writer


def _texts(directory: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(directory.iterdir())}


def test_files_are_rotated(tmp_path: Path) -> None:
    """A file that would get too large is renamed, and of the older ones so many are kept; no line is torn."""
    file = RotatingFile(tmp_path / "log", longest=12, older=2)
    for number in range(8):
        file.write(f"line {number}\n".encode())
    file.close()

    assert _texts(tmp_path) == {"log": "line 7\n", "log.1": "line 6\n", "log.2": "line 5\n"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_torn_line_is_ended(tmp_path: Path) -> None:
    """A process that begins with a file whose last line is torn writes its own on a new one."""
    (tmp_path / "log").write_text("half", encoding="utf-8")
    file = RotatingFile(tmp_path / "log", longest=1000, older=1)
    file.write(b"whole\n")
    file.close()

    assert _texts(tmp_path) == {"log": "half\nwhole\n"}


class _Held:
    """An output that waits until it may write."""

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()
        self.lines: list[bytes] = []
        self.error: OSError | None = None

    def write(self, lines: bytes) -> None:
        self.begun.set()
        self.free.wait()
        if self.error is not None:
            raise self.error
        self.lines += lines.splitlines()

    def close(self) -> None:
        self.lines.append(b"closed")


def _writer(held: _Held, backlog: int) -> Writer:
    writer = Writer(held, backlog)
    writer.start()
    return writer


def test_what_waits_is_bounded() -> None:
    """While nothing can be written, so many bytes wait; the rest is lost and counted, and nobody waits for it."""
    held = _Held()
    writer = _writer(held, backlog=4)
    writer.write(b"1\n")
    held.begun.wait()
    for number in (2, 3, 4):
        writer.write(b"%d\n" % number)
    writer.lose()
    held.free.set()
    writer.end()

    assert held.lines == [b"1", b"2", b"3", b"closed"]
    assert (writer.take(), writer.take(), writer.problems()) == ((3, 2), (0, 0), [])


@pytest.mark.parametrize("end", [Writer.end, lambda writer: writer.end(0.0)], ids=["in-time", "not-in-time"])
def test_the_end(end: Callable[[Writer], None]) -> None:
    """After the end nothing is taken; a place that blocks for ever does not keep a process from ending."""
    held = _Held()
    if end is Writer.end:
        held.free.set()
    writer = _writer(held, backlog=100)
    end(writer)
    writer.write(b"late\n")

    assert writer.take() == (0, 1)
    held.free.set()


def test_errors_are_told_until_it_works_again() -> None:
    """What cannot be written is lost and said, until something could be written."""
    held = _Held()
    held.error = OSError(28, "No space left on device")
    held.free.set()
    writer = _writer(held, backlog=100)
    writer.write(b"1\n")
    writer.end()

    assert (writer.take(), writer.problems()) == ((0, 1), ["records cannot be written: No space left on device"])
