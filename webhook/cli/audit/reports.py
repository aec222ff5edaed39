"""The audit of a live cluster that leaves reports in it, and says on one line what it did."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
from msgspec import structs

from webhook.audit.audit import Judged
from webhook.audit.journal import Asked, Journal
from webhook.audit.reports.form import FORMS
from webhook.audit.reports.store import Store
from webhook.cli.audit.run import Run, bar
from webhook.cli.exits import OK, USAGE, ToolError
from webhook.cluster.inspection.auditplan import Unit
from webhook.cluster.inspection.notices import Notices, Told
from webhook.cluster.inspection.reports import Reports, Written, kinds

if TYPE_CHECKING:
    from webhook.cli.audit.inquiry import Inquiry
    from webhook.cli.findings.finding import Result
    from webhook.cluster.inspection.auditing import ClusterAudit

_GROUPS = frozenset(form.group for form in FORMS)


class _Output:
    """Takes what is found into a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.counts: Counter[str] = Counter()

    def resume(self, counts: Mapping[str, int]) -> None:
        """Nothing is resumed: reports are written from all that was found."""

    def add(self, judged: Judged) -> None:
        """Take an object."""
        self.counts["objects"] += 1
        self.counts.update({finding.verdict for finding in judged.findings})
        self._store.add(judged)

    def passed(self, name: str, objects: int) -> None:
        """A list that is done is nothing that anybody reads."""

    def unreadable(self, result: Result) -> None:
        """Say what cannot be read."""
        self.counts["unreadable"] += 1
        click.echo(result.data["error"], err=True)


async def written(asked: Inquiry, work: ClusterAudit, lists: Sequence[Unit]) -> int:
    """Audit lists and write the reports. The exit code, for which what is found is no failure.

    Raises ClusterError, NoReportsError and ToolError.
    """
    try:
        return await _written(asked, work, lists)
    except sqlite3.Error as error:
        raise ToolError(
            f"what was found cannot be kept in a temporary file ({error}); TMPDIR names its folder"
        ) from None


async def _written(asked: Inquiry, work: ClusterAudit, lists: Sequence[Unit]) -> int:
    chosen = kinds(work.served)
    # A report about a report would get a report in the next run.
    judged = [unit for unit in lists if unit.resource.resource.group not in _GROUPS]
    with Store() as store:
        output = _Output(store)
        with bar(shown=True) as progress:
            await Run(work, output, Journal("", Asked("")), kept=False).all(judged, progress)
        notices = Notices(work.lister, on=asked.settings.events.findings)
        reports = Reports(work.lister, chosen, notices, work.part, asked.namespaces)
        done = await reports.write(store, complete=not output.counts["unreadable"])
    for line in (*done.refused, *notices.problems):
        click.echo(line, err=True)
    click.echo(json.dumps(_line(asked, chosen[0].form.api_version, output.counts, done, notices.told)))
    return USAGE if output.counts["unreadable"] or done.refused else OK


def _line(asked: Inquiry, api: str, counts: Mapping[str, int], done: Written, told: Told) -> dict[str, object]:
    reports = {"written": done.written, "unchanged": done.unchanged, "removed": done.removed}
    return {
        "event": "audited",
        "shard": str(asked.part),
        "api": api,
        **dict(sorted(counts.items())),
        "reports": {**reports, "refused": len(done.refused)},
        "events": structs.asdict(told),
    }
