"""Mistakes in the configuration: each is named by file, line and key, with what was found and what would be right."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.configuration.settings import SettingsError
from webhook.configuration.settingsfile import read

_MISTAKES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8")
)


def _errors(directory: Path, text: str) -> list[str]:
    """The lines of the error, without the name of the file."""
    file = directory / "cks.yaml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(SettingsError) as caught:
        read(file)
    lines = str(caught.value).splitlines()
    assert [line for line in lines if not line.startswith(f"{file}:")] == []
    return [line.removeprefix(f"{file}:") for line in lines]


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        pytest.param(row["text"], row["errors"], id=f"{group}-{number}")
        for group, rows in _MISTAKES.items()
        for number, row in enumerate(rows)
    ],
)
def test_a_mistake_is_named_with_what_was_found(tmp_path: Path, text: str, errors: list[str]) -> None:
    """Each mistake has its line, its key, what was found and what was probably meant, all of them at once."""
    assert _errors(tmp_path, text) == errors


@pytest.mark.parametrize("day", ["2026-02-31", "2026-13-01", "0000-01-01"])
def test_a_day_that_does_not_exist_is_an_error(tmp_path: Path, day: str) -> None:
    """A date that no calendar has is a mistake in line 4 and not the end of the tool."""
    (error,) = _errors(tmp_path, f"exceptions:\n- rules: [labels]\n  reason: why\n  until: {day}\n")

    assert error.startswith("4:")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file and a directory in its place are errors with their cause, bytes that are no text with theirs."""
    for path, cause in ((tmp_path / "none.yaml", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(SettingsError, match=f"^{path}: cannot be read: {cause}"):
            read(path)
    assert _errors(tmp_path, "log: \xff\n") == [" not UTF-8 text: invalid start byte at byte 5"]
