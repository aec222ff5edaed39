"""List after list of a live cluster, with the progress in a file and on the terminal."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import click
from msgspec import structs

from webhook.audit.audit import Judged
from webhook.audit.journal import Entry, Journal
from webhook.cli.findings import UNREADABLE, Finding, Result
from webhook.cluster.api.errors import ApiError
from webhook.cluster.inspection.auditing import ClusterAudit, Unit
from webhook.cluster.inspection.listing import Cursor


class Bar(Protocol):
    """Progress: objects that were judged, of so many."""

    length: int | None

    def update(self, n_steps: int) -> None:
        """Go on by so many."""


class Output(Protocol):
    """Where it goes what is found. counts: objects by verdict, how many there are, and what could not be read."""

    counts: Counter[str]

    def resume(self, counts: Mapping[str, int]) -> None:
        """Count what an interrupted audit has found."""

    def add(self, judged: Judged) -> None:
        """Take an object."""

    def passed(self, name: str, objects: int) -> None:
        """Take a list that is done."""

    def unreadable(self, result: Result) -> None:
        """Take what cannot be read."""


class Run:
    """One audit. kept: whether findings are printed at its end, so that the journal keeps them until then."""

    def __init__(self, work: ClusterAudit, output: Output, journal: Journal, *, kept: bool) -> None:
        self._work = work
        self._output = output
        self._journal = journal
        self._kept = kept

    async def all(self, lists: Sequence[Unit], bar: Bar | None) -> None:
        """Audit what is not done yet. Raises ClusterError and OSError."""
        positions = self._resume()
        left = [unit for unit in lists if not (unit.key in positions and positions[unit.key].ended)]
        if bar is not None:
            bar.length = sum([await self._expected(unit) for unit in left]) // self._work.part.count
        for unit in left:
            await self._one(unit, positions.get(unit.key) or Entry(unit.key), bar)

    def _resume(self) -> Mapping[str, Entry]:
        """Take what an interrupted audit has left. The last position in each list."""
        entries = self._journal.entries
        for entry in entries:
            if entry.judged is not None:
                self._output.add(entry.judged)
            if entry.ended:
                self._output.passed(entry.list, entry.objects)
        if entries:
            self._output.resume(entries[-1].counts)
        return {entry.list: entry for entry in entries}

    async def _one(self, unit: Unit, last: Entry, bar: Bar | None) -> None:
        """Audit a list behind a position. One that cannot be read is reported, and tried again by the next run."""
        token, objects = last.token, last.objects
        try:
            async for step in self._work.steps(unit, Cursor(last.token, last.after)):
                objects += 1
                self._output.add(step.judged)
                if step.judged.findings or step.cursor.token != token:
                    kept = step.judged if self._kept and step.judged.findings else None
                    self._write(Entry(unit.key, step.cursor.token, step.cursor.after, objects, judged=kept))
                token = step.cursor.token
                if bar is not None:
                    bar.update(1)
        except ApiError as error:
            if error.status != 404:  # else the kind is gone
                self._output.unreadable(_unlisted(unit, error))
        else:
            self._output.passed(unit.key, objects)
            self._write(Entry(unit.key, objects=objects, ended=True))

    def _write(self, entry: Entry) -> None:
        counts = {name: times for name, times in self._output.counts.items() if name != "unreadable"}
        self._journal.add(structs.replace(entry, counts=counts))

    async def _expected(self, unit: Unit) -> int:
        """How many objects a list has; 0 if nobody knows. Raises UnreachableError."""
        try:
            return await self._work.lister.count(unit.resource, unit.namespace)
        except ApiError:
            return 0


def _unlisted(unit: Unit, error: ApiError) -> Result:
    name = unit.resource.name
    text = f"{name}: not audited: {error}"
    finding = Finding("error", UNREADABLE, "", "", 0, 0, "", text)
    return Result(name, name, "", 0, (finding,), data={"error": text}, counts=("not read",))


@contextmanager
def bar(*, shown: bool) -> Iterator[Bar | None]:
    """A progress bar on stderr, where it has the terminal to itself. shown: whether results come at the end."""
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not shown):
        yield None
        return
    with click.progressbar(length=1, file=sys.stderr, show_pos=True, label="auditing") as shown_bar:
        yield shown_bar
