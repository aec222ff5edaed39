"""The table of faults, of which a run replaces the rows that it did."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import isinf

from faults import page
from faults.row import Row

_HEAD = (
    "| fault | promise | what people saw | what was lost | healthy after | held | run |",
    "|---|---|---|---|---|---|---|",
)
_NAME = re.compile(r"\| `([a-z0-9-]+)`: ")


def line(row: Row) -> str:
    """A row as a line of the table."""
    result = row.result
    healthy = "never" if isinf(result.healthy) else f"{result.healthy:.1f} s" if result.healthy else "no loss"
    cells = (f"`{row.name}`: {row.fault}", row.promise, result.seen, result.lost, healthy, _held(row), row.when)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def replaced(text: str, rows: Iterable[Row], order: Sequence[str], ran_on: str) -> str:
    """The page with these rows in its table, in an order of names; other rows stay, unless the order lacks them.

    ran_on: what the run ran on, for the line above the table. Raises NoBlockError.
    """
    lines = {found[1]: known for known in page.block(text, "faults") if (found := _NAME.match(known))}
    lines |= {row.name: line(row) for row in rows}
    kept = [lines[name] for name in order if name in lines]
    return page.replaced(text, "faults", [f"Last run: {ran_on}.", "", *_HEAD, *kept])


def _held(row: Row) -> str:
    """Whether the promises held, and which did not."""
    if row.failures:
        return f"**no**: {'; '.join(row.failures)}"
    return f"not judged (machine busy: {row.busy}): {'; '.join(row.result.slow)}" if row.result.slow else "yes"


def _cell(text: str) -> str:
    """Text that neither ends a cell nor a line."""
    return " ".join(text.split()).replace("|", "\\|")
