"""The audit of a live cluster: list after list, printed, or left in the cluster as reports."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, get_args

import click
import msgspec
import structlog

from webhook.audit.finding import Judged, Record, Verdict, by_policy, count, count_policies
from webhook.audit.reports import FORMS, Store
from webhook.cli.auditreport import AT_ONCE, REPORTS, AuditReport, Inquiry, tell
from webhook.cli.findings import UNREADABLE, Finding, Result
from webhook.cli.output import OK, USAGE, ToolError, say, to_json, write_text
from webhook.cluster.api.client import Connection
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.inspection.auditing import (
    ClusterAudit,
    FindingEvents,
    Place,
    Reports,
    Unit,
    auditing,
    kinds,
    leave,
    units,
)
from webhook.configuration.rules import workload_table

_AGENT: Final = "cks-admission-audit"
_GROUPS: Final = frozenset(form.group for form in FORMS)


async def audit(asked: Inquiry, api: Connection) -> int:
    """Audit a cluster and print what is found. The exit code.

    Raises ClusterError, SettingsError, AuditError and ToolError.
    """
    with _warnings_alone():
        api.user_agent = api.watches.user_agent = _AGENT
        async with auditing(api, asked.settings, asked.qps, asked.part) as work:
            rules = work.audit.rules
            tell(rules.silent, work.doubts)
            lists = units(work.served, rules.ruleset, workload_table(asked.settings), asked.namespaces, asked.kinds)
            if asked.output == REPORTS:
                return await _reported(asked, work, lists)
            report = AuditReport(asked)
            with _bar(shown=asked.output not in AT_ONCE) as bar:
                await _run(work, report, lists, bar)
            return report.end()


@contextmanager
def _warnings_alone() -> Iterator[None]:
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


@contextmanager
def _bar(*, shown: bool) -> Iterator[Any]:
    """A progress bar on stderr, where it has the terminal to itself. shown: whether results come at the end."""
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not shown):
        yield None
        return
    with click.progressbar(length=1, file=sys.stderr, show_pos=True, label="auditing") as bar:
        yield bar


async def _run(work: ClusterAudit, output: AuditReport | _Stored, lists: Sequence[Unit], bar: Any) -> None:
    """Audit list after list. One that cannot be read is reported, unless its kind is gone. Raises ClusterError."""
    if bar is not None:
        objects = 0
        for unit in lists:
            with suppress(ApiError):  # nobody knows how many there are
                objects += await work.lister.count(unit.resource, unit.namespace)
        bar.length = objects // work.part.count
    for unit in lists:
        objects = 0
        try:
            async for judged in work.judged(unit):
                objects += 1
                output.add(judged)
                if bar is not None:
                    bar.update(1)
        except ApiError as error:
            if error.status != 404:
                name, text = unit.resource.name, f"{unit.resource.name}: not audited: {error}"
                finding = Finding("error", UNREADABLE, "", "", 0, 0, "", text)
                output.unreadable(Result(name, name, "", 0, (finding,), data={"error": text}, counts=("not read",)))
        else:
            output.passed(unit.key, objects)


class _Stored:
    """Keeps findings in a store. counts: as of an AuditReport. findings: objects by policy and verdict."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.counts: Counter[str] = Counter()
        self.findings: Counter[tuple[str, str]] = Counter()

    def add(self, judged: Judged) -> None:
        count(self.counts, judged)
        count_policies(self.findings, judged)
        self._store.add(judged)

    def passed(self, name: str, objects: int) -> None:
        """A list that is done is nothing that anybody reads."""

    def unreadable(self, result: Result) -> None:
        self.counts["unreadable"] += 1
        say(result.data["error"], err=True)


async def _reported(asked: Inquiry, work: ClusterAudit, lists: Sequence[Unit]) -> int:
    """Audit lists and write the reports. The exit code, for which what is found is no failure.

    Raises ClusterError, AuditError and ToolError.
    """
    began = time.monotonic()
    chosen = kinds(work.served)
    # A report about a report would get a report in the next run.
    judged = [unit for unit in lists if unit.resource.resource.group not in _GROUPS]
    try:
        with Store() as store:
            output = _Stored(store)
            with _bar(shown=True) as bar:
                await _run(work, output, judged, bar)
            events = FindingEvents(work.lister, on=asked.settings.events.findings)
            reports = Reports(work.lister, chosen, events, work.part, asked.namespaces)
            done = await reports.write(store, complete=not output.counts["unreadable"])
    except sqlite3.Error as error:
        raise ToolError(
            f"what was found cannot be kept in a temporary file ({error}); TMPDIR names its folder"
        ) from None
    say(*done.refused, *events.problems, err=True)
    counts = output.counts
    about = Record(
        shard=str(asked.part),
        api=chosen[0].form.api_version,
        ended=int(datetime.now(UTC).timestamp()),
        seconds=round(time.monotonic() - began, 1),
        objects=counts["objects"],
        unreadable=counts["unreadable"],
        verdicts={verdict: counts[verdict] for verdict in sorted(get_args(Verdict)) if counts[verdict]},
        findings=by_policy(output.findings),
        reports={
            "written": done.written,
            "unchanged": done.unchanged,
            "removed": done.removed,
            "refused": len(done.refused),
        },
        events=msgspec.structs.asdict(done.events),
    )
    write_text(f"{to_json({'event': 'audited', **msgspec.to_builtins(about)}, None)}\n")
    name = asked.settings.audit.record
    if name and not asked.namespaces:  # an audit of some Namespaces would hide what the last whole one did
        try:
            await leave(work.lister, Place(asked.settings.cluster.namespace, name), about)
        except ClusterError as error:
            say(f"no record of this audit, so that metrics show an older one: {error}", err=True)
    return USAGE if about.unreadable or done.refused else OK
