"""The figures with their targets, as Markdown: printed, and written into the page that shows the last runs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from faults.page import conditions, replaced

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


class Figure(NamedTuple):
    """A measured value and its target, where it has one."""

    name: str
    value: float
    target: float | None = None
    at_least: bool = False
    unit: str = ""
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The figure as a row: name, value, target, and whether the target is reached."""
        digits = 0 if self.value >= 100 else 1 if self.value >= 10 else 2
        value = f"{self.value:,.{digits}f}{self.unit} {self.note}".rstrip()
        if self.target is None:
            return self.name, value, "", ""
        met = self.value >= self.target if self.at_least else self.value <= self.target
        target = f"{self.target:g}{self.unit} or {'more' if self.at_least else 'less'}"
        return self.name, value, target, "met" if met else "**missed**"


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(map(str, row))} |"


def table(figures: Iterable[Figure]) -> Iterator[str]:
    """A row for each figure."""
    return markdown(("", "measured", "target", ""), [figure.cells for figure in figures])


def write(name: str, lines: Iterable[str], page: Path = PAGE) -> None:
    """Replace a block of a page by what a part found now. Raises NoBlockError if the page has none of the name."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
              if line.startswith("model name")]  # fmt: skip
    machine = f"{models[0] if models else platform.machine()}, {platform.system()} {os.uname().release}"
    written = ["", f"Run on {conditions()}, {machine}.", "", *lines, ""]
    page.write_text(replaced(page.read_text(encoding="utf-8"), name, written), encoding="utf-8")
