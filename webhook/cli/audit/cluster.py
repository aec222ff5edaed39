"""The audit of a live cluster: list after list, with the progress in a file and on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from webhook.audit.journal import Asked, Journal
from webhook.cli.audit import reports
from webhook.cli.audit.inquiry import REPORTS
from webhook.cli.audit.report import AT_ONCE, AuditReport, tell
from webhook.cli.audit.run import Run, bar
from webhook.cluster.api.client import connect
from webhook.cluster.inspection.auditing import ClusterAudit, Unit, auditing, units
from webhook.configuration.rules import workload_table

if TYPE_CHECKING:
    from webhook.cli.audit.inquiry import Inquiry

_AGENT: Final = "cks-admission-audit"


async def audit(asked: Inquiry) -> int:
    """Audit a cluster and print what is found. The exit code.

    Raises ClusterError, SettingsError, JournalError, UnknownKindError, NoReportsError and OSError.
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
    async with auditing(api, asked.settings, asked.qps, asked.part) as work:
        rules = work.audit.rules
        tell(rules.silent, work.doubts)
        lists = units(work.served, rules.ruleset, workload_table(asked.settings), asked.namespaces, asked.kinds)
        if asked.output == REPORTS:
            return await reports.written(asked, work, lists)
        return await _printed(asked, work, lists, api.configuration.host)


async def _printed(asked: Inquiry, work: ClusterAudit, lists: Sequence[Unit], host: str) -> int:
    names = tuple(rule.name for rule in work.audit.rules.ruleset.rules)
    about = Asked(host, asked.namespaces, asked.kinds, names, asked.output, str(asked.part))
    at_once = asked.output in AT_ONCE
    with Journal(asked.journal, about) as journal:
        report = AuditReport(asked, host, work.audit.rules.silent)
        with bar(shown=not at_once) as shown:
            await Run(work, report, journal, kept=not at_once).all(lists, shown)
        if not report.counts["unreadable"]:
            journal.end()
    return report.end()
