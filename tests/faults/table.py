"""The table of faults, in a marked block of the documentation, of which a run replaces the rows that it did."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isinf
from typing import NamedTuple

from faults import page
from faults.site import Site


class Result(NamedTuple):
    """What a fault did.

    healthy: the seconds until everything was as before, from the beginning of a fault that stays, from the end of one
    that goes; 0 where nothing was lost from then on, infinite where it did not get well. promises: with whether they
    held. slow: promises of latency that did not, which a busy machine breaks by itself.
    """

    seen: str
    lost: str
    healthy: float
    promises: Mapping[str, bool]
    slow: tuple[str, ...] = ()

    @property
    def broken(self) -> tuple[str, ...]:
        """The promises that did not hold, but for those of latency."""
        return broken(self.promises)


Fault = Callable[[Site], Result]
"""Does the fault and says what happened. The docstring has two paragraphs: the fault, and what is promised."""


class Row(NamedTuple):
    """A fault with its result. when: the date of its run, as text. busy: with what the machine was, besides the run.

    busy is empty where the machine could do all that at once.
    """

    name: str
    fault: str
    promise: str
    result: Result
    when: str
    busy: str = ""

    @property
    def failures(self) -> tuple[str, ...]:
        """The promises that did not hold. On a busy machine those of latency are not judged."""
        return self.result.broken if self.busy else (*self.result.broken, *self.result.slow)


def name(fault: Fault) -> str:
    """The name of a fault, as in `--row` and in the table."""
    return fault.__name__.replace("_", "-")


def words(fault: Fault) -> tuple[str, str]:
    """What the fault is, and what is promised."""
    first, _, second = (inspect.getdoc(fault) or "").partition("\n\n")
    return " ".join(first.split()), " ".join(second.split())


def broken(promises: Mapping[str, bool]) -> tuple[str, ...]:
    """Those that did not hold, of promises with whether they held."""
    return tuple(promise for promise, held in promises.items() if not held)


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
