"""Files are regular files of a bounded size, opened without waiting."""

import os
import socket
import threading
from pathlib import Path

import pytest

from webhook.files.yamlfile import content


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_fifo, "it is a FIFO, not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
        (_socket, "No such device or address"),
        (Path.mkdir, "Is a directory"),
        (lambda path: path.write_bytes(b"x" * 11), "it is too large"),
    ],
)
def test_what_is_not_read(tmp_path: Path, make: object, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for a writer or reads for ever; the error names the file as the user did."""
    monkeypatch.chdir(tmp_path)
    assert callable(make)
    make(Path("a.yaml"))
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its text is compared
        content("a.yaml", most=10)

    assert (caught.value.filename, caught.value.strerror) == ("a.yaml", reason)


def test_a_pipe_that_somebody_has_named(tmp_path: Path) -> None:
    """It is read to its end, which may come later, and not beyond the most bytes."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    for most in (10, 9):
        writer = threading.Thread(target=path.write_bytes, args=(b"x" * 10,))
        writer.start()
        try:
            found.append(content(path, most=most, pipes=True))
        except OSError as error:
            found.append(str(error.strerror).encode())
        writer.join()

    assert found == [b"x" * 10, b"it is too large"]
