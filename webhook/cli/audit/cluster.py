"""The audit of a live cluster: list after list, with the progress in a file and on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import click
import structlog
from msgspec import structs

from webhook.audit.journal import Asked, Entry, Journal
from webhook.cli.audit.report import AT_ONCE, AuditReport, tell
from webhook.cli.findings.finding import UNREADABLE, Finding, Result
from webhook.cluster.api.client import connect
from webhook.cluster.api.errors import ApiError
from webhook.cluster.inspection.auditing import ClusterAudit, auditing
from webhook.cluster.inspection.auditplan import Unit, units
from webhook.cluster.inspection.listing import Cursor
from webhook.configuration.rules import workload_table

if TYPE_CHECKING:
    from webhook.cli.audit.inquiry import Inquiry

_AGENT: Final = "cks-admission-audit"


class _Bar(Protocol):
    """Progress: objects that were judged, of so many."""

    length: int | None

    def update(self, n_steps: int) -> None:
        """Go on by so many."""


async def audit(asked: Inquiry) -> int:
    """Audit a cluster and print what is found. The exit code.

    Raises ClusterError, SettingsError, JournalError, UnknownKindError and OSError.
    """
    with _quiet():
        return await _audit(asked)


@contextmanager
def _quiet() -> Iterator[None]:
    """Only warnings are logged, on stderr: findings are on stdout."""
    before = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    try:
        yield
    finally:
        structlog.configure(**before)


async def _audit(asked: Inquiry) -> int:
    chosen = asked.settings.cluster
    kubeconfig = asked.kubeconfig or chosen.kubeconfig
    api = await connect(kubeconfig or None, chosen.in_cluster and not asked.kubeconfig, chosen.service_account)
    api.user_agent = _AGENT
    api.watches.user_agent = _AGENT
    async with auditing(api, asked.settings, asked.qps) as work:
        rules = work.audit.rules
        tell(rules.silent, work.doubts)
        lists = units(work.served, rules.ruleset, workload_table(asked.settings), asked.namespaces, asked.kinds)
        names = tuple(rule.name for rule in rules.ruleset.rules)
        about = Asked(api.configuration.host, asked.namespaces, asked.kinds, names, asked.output)
        with Journal(asked.journal, about) as journal:
            report = AuditReport(asked, about.cluster, rules.silent)
            run = _Run(work, report, journal, kept=asked.output not in AT_ONCE)
            with _bar(shown=asked.output not in AT_ONCE) as bar:
                await run.all(lists, bar)
            if not report.counts["unreadable"]:
                journal.end()
        return report.end()


class _Run:
    """One audit. kept: whether findings are printed at its end, so that the journal keeps them until then."""

    def __init__(self, work: ClusterAudit, report: AuditReport, journal: Journal, *, kept: bool) -> None:
        self._work = work
        self._report = report
        self._journal = journal
        self._kept = kept

    async def all(self, lists: Sequence[Unit], bar: _Bar | None) -> None:
        """Audit what is not done yet. Raises ClusterError and OSError."""
        positions = self._resume()
        left = [unit for unit in lists if not (unit.key in positions and positions[unit.key].ended)]
        if bar is not None:
            bar.length = sum([await self._expected(unit) for unit in left])
        for unit in left:
            await self._one(unit, positions.get(unit.key) or Entry(unit.key), bar)

    def _resume(self) -> Mapping[str, Entry]:
        """Take what an interrupted audit has left. The last position in each list."""
        entries = self._journal.entries
        for entry in entries:
            if entry.judged is not None:
                self._report.add(entry.judged)
            if entry.ended:
                self._report.passed(entry.list, entry.objects)
        if entries:
            self._report.resume(entries[-1].counts)
        return {entry.list: entry for entry in entries}

    async def _one(self, unit: Unit, last: Entry, bar: _Bar | None) -> None:
        """Audit a list behind a position. One that cannot be read is reported, and tried again by the next run."""
        token, objects = last.token, last.objects
        try:
            async for step in self._work.steps(unit, Cursor(last.token, last.after)):
                objects += 1
                self._report.add(step.judged)
                if step.judged.findings or step.cursor.token != token:
                    kept = step.judged if self._kept and step.judged.findings else None
                    self._write(Entry(unit.key, step.cursor.token, step.cursor.after, objects, judged=kept))
                token = step.cursor.token
                if bar is not None:
                    bar.update(1)
        except ApiError as error:
            if error.status != 404:  # else the kind is gone
                self._report.unreadable(_unlisted(unit, error))
        else:
            self._report.passed(unit.key, objects)
            self._write(Entry(unit.key, objects=objects, ended=True))

    def _write(self, entry: Entry) -> None:
        counts = {name: times for name, times in self._report.counts.items() if name != "unreadable"}
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
def _bar(*, shown: bool) -> Iterator[_Bar | None]:
    """A progress bar on stderr, where it has the terminal to itself. shown: whether results come at the end."""
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not shown):
        yield None
        return
    with click.progressbar(length=1, file=sys.stderr, show_pos=True, label="auditing") as bar:
        yield bar
