"""What an audit has found and which reports there are, in a temporary file: memory does not grow with the cluster.

A report needs all findings of a workload, and those of its Pods come at the very end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from webhook.audit.audit import Judged
from webhook.audit.finding import Finding, Scope
from webhook.audit.reports.report import is_reported

_TABLES: Final = """
CREATE TABLE finding (namespace TEXT, uid TEXT, scope BLOB, findings BLOB);
CREATE TABLE report (
  api TEXT, namespace TEXT, name TEXT, uid TEXT, content TEXT, PRIMARY KEY (api, namespace, name)
) WITHOUT ROWID;
"""
_SCOPE: Final = msgspec.json.Decoder(Scope)
_FINDINGS: Final = msgspec.json.Decoder(tuple[Finding, ...])


class Known(NamedTuple):
    """A report of ours that is there. api: its group. content: what its annotation says."""

    api: str
    namespace: str
    name: str
    uid: str
    content: str


class Store:
    """The file, which is gone with the block."""

    def __init__(self) -> None:
        self._file = sqlite3.connect("")  # a file without a name, in the folder for temporary files
        self._file.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, judged: Judged) -> None:
        """Keep what is found about an object, if it belongs into a report."""
        findings, scope = tuple(filter(is_reported, judged.findings)), judged.subject.scope
        if findings and scope is not None:
            row = (scope.namespace, scope.uid, msgspec.json.encode(scope), msgspec.json.encode(findings))
            self._file.execute("INSERT INTO finding VALUES (?, ?, ?, ?)", row)

    def workloads(self) -> Iterator[tuple[Scope, list[Finding]]]:
        """The findings of each workload, one workload after the other."""
        rows = self._file.execute("SELECT uid, scope, findings FROM finding ORDER BY namespace, uid, rowid")
        for _, group in groupby(rows, itemgetter(0)):
            some = list(group)
            yield _SCOPE.decode(some[0][1]), [finding for row in some for finding in _FINDINGS.decode(row[2])]

    def note(self, report: Known) -> None:
        """Keep that a report is there."""
        self._file.execute("INSERT OR REPLACE INTO report VALUES (?, ?, ?, ?, ?)", report)

    def take(self, api: str, namespace: str, name: str) -> Known | None:
        """A report that is there, which is not left over; None if it is not there."""
        where = (api, namespace, name)
        row = self._file.execute("SELECT * FROM report WHERE (api, namespace, name) = (?, ?, ?)", where).fetchone()
        self._file.execute("DELETE FROM report WHERE (api, namespace, name) = (?, ?, ?)", where)
        return None if row is None else Known(*row)

    def left_over(self) -> Iterator[Known]:
        """The reports that were not taken."""
        return map(Known._make, self._file.execute("SELECT * FROM report ORDER BY api, namespace, name"))
