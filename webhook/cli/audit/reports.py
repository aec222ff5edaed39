"""The audit of a live cluster that leaves reports in it, and says on one line what it did."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

import click
import msgspec

from webhook.audit import record
from webhook.audit.audit import Judged, count
from webhook.audit.finding import Verdict
from webhook.audit.journal import Asked, Journal
from webhook.audit.record import Record, by_policy
from webhook.audit.reports.form import FORMS
from webhook.audit.reports.store import Store
from webhook.cli.audit.run import Run, bar
from webhook.cli.exits import OK, USAGE, ToolError
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.inspection.auditing import Unit
from webhook.cluster.inspection.reports import Notices, Place, Reports, Written, kinds, leave

if TYPE_CHECKING:
    from webhook.cli.audit.inquiry import Inquiry
    from webhook.cli.findings import Result
    from webhook.cluster.inspection.auditing import ClusterAudit

_GROUPS = frozenset(form.group for form in FORMS)
_VERDICTS = sorted(get_args(Verdict))


class _Output:
    """Takes what is found into a store. findings: objects by policy and verdict."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.counts: Counter[str] = Counter()
        self.findings: Counter[tuple[str, str]] = Counter()

    def resume(self, counts: Mapping[str, int]) -> None:
        """Nothing is resumed: reports are written from all that was found."""

    def add(self, judged: Judged) -> None:
        """Take an object."""
        count(self.counts, judged)
        record.count(self.findings, judged)
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
    began = time.monotonic()
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
    about = _record(asked, chosen[0].form.api_version, output, done, time.monotonic() - began)
    click.echo(msgspec.json.encode({"event": "audited", **msgspec.to_builtins(about)}).decode())
    await _leave(asked, work, about)
    return USAGE if about.unreadable or done.refused else OK


def _record(asked: Inquiry, api: str, output: _Output, done: Written, seconds: float) -> Record:
    reports = {"written": done.written, "unchanged": done.unchanged, "removed": done.removed}
    return Record(
        shard=str(asked.part),
        api=api,
        ended=int(datetime.now(UTC).timestamp()),
        seconds=round(seconds, 1),
        objects=output.counts["objects"],
        unreadable=output.counts["unreadable"],
        verdicts={verdict: objects for verdict in _VERDICTS if (objects := output.counts[verdict])},
        findings=by_policy(output.findings),
        reports={**reports, "refused": len(done.refused)},
        events=msgspec.structs.asdict(done.told),
    )


async def _leave(asked: Inquiry, work: ClusterAudit, about: Record) -> None:
    """Leave the record where manage reads it. An audit of some Namespaces would hide what the last whole one did."""
    name = asked.settings.audit.record
    if not name or asked.namespaces:
        return
    place = Place(asked.settings.cluster.namespace, name)
    try:
        await leave(work.lister, place, about)
    except ClusterError as error:
        click.echo(f"no record of this audit, so that metrics show an older one: {error}", err=True)
