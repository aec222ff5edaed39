"""Log lines that cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

from webhook.logs import Sink


def _told(lost: int) -> str:
    return f"{lost} lost"


def test_a_full_pipe_loses_lines_and_says_how_many() -> None:
    """Nobody waits for a reader; once there is one, a line says how many were lost, and the next is whole again."""
    reading, writing = os.pipe()
    try:
        written = Sink(writing, _told)
        os.set_blocking(writing, False)
        filled = 0
        while filled >= 0:
            try:
                filled += os.write(writing, b"." * 4096)
            except BlockingIOError:
                break
        written.write("one\n")
        written.write("two\n")
        assert os.read(reading, filled) == b"." * filled
        written.write("three\n")
        written.write("four\n")
        assert os.read(reading, filled) == b"2 lost\nthree\nfour\n"
    finally:
        os.close(reading)
        os.close(writing)


def test_a_line_that_was_torn_is_ended() -> None:
    """Of a line that is too long for what room there is, a part is written; the next line does not continue it."""
    reading, writing = os.pipe()
    try:
        written = Sink(writing, _told)
        written.write(f"{'x' * 1_000_000}\n")
        torn = os.read(reading, 1_000_000)
        written.write("next\n")
        rest = os.read(reading, 1_000_000)
    finally:
        os.close(reading)
        os.close(writing)

    assert set(torn) == {ord("x")}
    assert rest == b"\n1 lost\nnext\n"


def test_a_full_disk_is_no_failure() -> None:
    """A write that fails is a line that is lost."""
    with Path("/dev/full").open("wb") as file:
        Sink(file.fileno(), _told).write("one\n")


def test_long_lines_and_unpaired_surrogates_are_written_whole(tmp_path: Path) -> None:
    """Whatever its length and its characters, a line that fits is written as it is."""
    with (tmp_path / "log").open("wb") as file:
        Sink(file.fileno(), _told).write(f"{'é' * 10_000}\ud800\n")

    assert (tmp_path / "log").read_bytes() == "é".encode() * 10_000 + b"\\ud800\n"


def test_of_many_lines_those_are_lost_that_were_not_written() -> None:
    """Of lines that come together, those count as lost that found no room, the torn one among them, each once."""
    reading, writing = os.pipe()
    try:
        written = Sink(writing, _told)
        written.write("x" * 99 + "\n")
        written.write(100 * ("y" * 9_999 + "\n"))
        lost = written.take_lost()
        read = os.read(reading, 1_000_000)
        again = written.take_lost()
        written.write("one\ntwo\n")
        rest = os.read(reading, 1_000_000)
    finally:
        os.close(reading)
        os.close(writing)

    assert read.count(b"\n") + lost == 101
    assert again == 0
    assert rest == f"\n{lost} lost\none\ntwo\n".encode()
