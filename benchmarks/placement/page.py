"""The page of the documentation with the tables and the picture of the last run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from faults.page import conditions, replaced

from benchmarks.placement import picture
from benchmarks.placement.history import History

PAGE = Path(__file__).parents[2] / "docs" / "placement.md"
PICTURE = PAGE.parent / "placement" / "stream.svg"


def write(lines: Iterable[str], histories: Mapping[str, History]) -> None:
    """Replace both. Raises NoBlockError if the page has no place for them."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture.draw(histories), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    shown = [f"Last run: {conditions()}.", "", *lines, "", f"![GPUs over time]({PICTURE.relative_to(PAGE.parent)})"]
    PAGE.write_text(replaced(text, "placement", shown), encoding="utf-8")
