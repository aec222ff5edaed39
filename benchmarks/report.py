"""The figures with their targets, as Markdown: printed, and written into the page that shows the last whole run."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from faults.page import conditions, replaced

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


class Figure(NamedTuple):
    """A measured value and its target."""

    name: str
    value: float
    target: float
    at_least: bool = False
    unit: str = ""
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The figure as a row: name, value, target, and whether the target is reached."""
        met = self.value >= self.target if self.at_least else self.value <= self.target
        value = f"{self.value:.{1 if self.value >= 10 else 2}f}{self.unit} {self.note}".rstrip()
        target = f"{self.target:g}{self.unit} or {'more' if self.at_least else 'less'}"
        return self.name, value, target, "met" if met else "**missed**"


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(map(str, row))} |"


def shown(table: Iterable[str], figures: Iterable[Figure]) -> list[str]:
    """What a part found: its table, then its figures with their targets."""
    lines, rows = list(table), [figure.cells for figure in figures]
    if rows:
        lines += ["", *markdown(("", "measured", "target", ""), rows)]
    return lines


def write(parts: Mapping[str, Sequence[str]], rounds: int, seconds: float) -> None:
    """Replace the tables of docs/benchmarks.md by those of a whole run. Raises NoBlockError if a part has no place."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
              if line.startswith("model name")]  # fmt: skip
    run = f"{conditions()}, {models[0] if models else platform.machine()}, {platform.system()} {os.uname().release}."
    text = PAGE.read_text(encoding="utf-8")
    text = replaced(text, "run", [f"{run} Rounds: {rounds} of {seconds:g} s."])
    for part, lines in parts.items():
        text = replaced(text, part, ["", *lines, ""])
    PAGE.write_text(text, encoding="utf-8")
