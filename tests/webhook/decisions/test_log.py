"""Records on their way to a file."""

from pathlib import Path

from webhook.decisions.log import RotatingFile


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
