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
_FILE = "cks.yaml"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes file names in messages short."""
    monkeypatch.chdir(tmp_path)


def _errors(text: str | bytes) -> list[str]:
    """The lines of the error, without the name of the file."""
    file = Path(_FILE)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as caught:
        read(file)
    lines = str(caught.value).splitlines()
    assert [line for line in lines if not line.startswith(f"{_FILE}:")] == []
    return [line.removeprefix(f"{_FILE}:") for line in lines]


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        pytest.param(row["text"], row["errors"], id=f"{group}-{number}")
        for group, rows in _MISTAKES.items()
        for number, row in enumerate(rows)
    ],
)
def test_a_mistake_is_named_with_what_was_found(text: str, errors: list[str]) -> None:
    """Each mistake has its line, its key, what was found and what was probably meant, all of them at once."""
    assert _errors(text) == errors


def test_a_file_that_is_no_text_is_refused() -> None:
    """Bytes that are no UTF-8 are told with their place."""
    assert _errors(b"log: \xff\n") == [" not UTF-8 text: invalid start byte at byte 5"]


@pytest.mark.parametrize("day", ["2026-02-31", "2026-13-01", "0000-01-01"])
def test_a_day_that_does_not_exist_is_an_error(day: str) -> None:
    """A date that no calendar has is a mistake in line 4 and not the end of the tool."""
    (error,) = _errors(f"exceptions:\n- rules: [labels]\n  reason: why\n  until: {day}\n")

    assert error.startswith("4:")


def test_a_file_that_is_not_there_is_named() -> None:
    """A missing file and a directory in its place are errors with their cause."""
    for path, cause in (("nowhere.yaml", "No such file or directory"), (".", "Is a directory")):
        with pytest.raises(SettingsError, match=cause) as caught:
            read(Path(path))
        assert str(caught.value).startswith(f"{path}: cannot be read: ")
