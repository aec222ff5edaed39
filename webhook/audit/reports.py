"""Findings as PolicyReports: one for each workload, in the form that the cluster has.

https://github.com/openreports/reports-api; https://github.com/kubernetes-sigs/wg-policy-prototypes. What is optional
there is written as policy-reporter reads it: https://kyverno.github.io/policy-reporter-docs/.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, Self

import msgspec

from policies.engine.violation import shortened, squeezed
from webhook.audit.finding import Finding, Judged, Scope, Verdict


class Form(NamedTuple):
    """An API. Of its two kinds the one is for what is in a Namespace, the other for what is in none."""

    group: str
    version: str
    kind: str
    plural: str
    cluster_kind: str
    cluster_plural: str

    @property
    def api_version(self) -> str:
        """Group and version, as objects name them."""
        return f"{self.group}/{self.version}"


OPEN_REPORTS: Final = Form("openreports.io", "v1alpha1", "Report", "reports", "ClusterReport", "clusterreports")
POLICY_REPORTS: Final = Form(
    "wgpolicyk8s.io", "v1alpha2", "PolicyReport", "policyreports", "ClusterPolicyReport", "clusterpolicyreports"
)  # fmt: skip
FORMS: Final = (OPEN_REPORTS, POLICY_REPORTS)
"""The first that a cluster has is written."""


SOURCE: Final = "cks-admission"
"""Who writes: the source of results, and the value of the label by which our reports are listed."""
LABEL: Final = "app.kubernetes.io/managed-by"
CONTENT: Final = "cks-admission.dev/content"
"""The annotation by which it is seen whether a report has to be written again."""
MOST: Final = 50
"""Results in a report. The summary counts all."""
LONGEST: Final = 500
"""Characters of a message."""
_DIGITS: Final = 32
_SUMMARY: Final = ("pass", "fail", "warn", "error", "skip")
# A mutation is no result: an object that admission would complete is not wrong, and most of those that are older than
# the service would have one.
_RESULTS: Final[Mapping[Verdict, tuple[str, str]]] = {
    "deny": ("fail", "high"),
    "error": ("error", "high"),
    "warn": ("warn", "medium"),
    "audit": ("warn", "low"),
    "exempt": ("skip", "info"),
}
_GRAVEST: Final = tuple(_RESULTS)


class _Said(NamedTuple):
    """What is said once, of however many objects. kind: theirs, if the workload owns them; empty for itself."""

    gravity: int
    policy: str
    path: str
    kind: str
    message: str
    until: str


def name(scope: Scope) -> str:
    """The name of the report: that of a workload's successor is another one."""
    return f"{SOURCE}-{scope.uid}"


def report(form: Form, scope: Scope, findings: Iterable[Finding], now: datetime) -> dict[str, Any]:
    """The report with all that we say of it. findings: those that are reported. now: the time of its results."""
    said: Counter[_Said] = Counter()
    for finding in findings:
        kind = "" if finding.subject.uid == scope.uid else finding.subject.kind
        message = shortened("\n".join(filter(None, (finding.message, finding.remedy))), LONGEST)
        gravity = _GRAVEST.index(finding.verdict)
        said[_Said(gravity, finding.policy, finding.path, kind, message, finding.until)] += 1

    # Results name no resources, so that they are about the scope: what a controller owns comes and goes.
    summary = dict.fromkeys(_SUMMARY, 0)
    for entry, count in said.items():
        summary[_RESULTS[_GRAVEST[entry.gravity]][0]] += count
    results: list[dict[str, Any]] = []
    for entry in sorted(said)[:MOST]:
        result, severity = _RESULTS[_GRAVEST[entry.gravity]]
        properties = {"path": entry.path} if entry.path else {}
        if entry.kind:
            properties |= {"kind": entry.kind, "count": str(said[entry])}
        if entry.until:
            properties["until"] = entry.until
        # By it policy-reporter tells results apart, else two paths were one.
        properties["resultID"] = sha256(msgspec.json.encode((scope.uid, entry))).hexdigest()[:_DIGITS]
        source = {} if form is OPEN_REPORTS else {"source": SOURCE}
        head = {"policy": entry.policy, "result": result, "severity": severity, "message": entry.message}
        results.append({**head, **source, "properties": properties})

    # Whether the report has to be written again is seen by a digest of all but its times.
    place = {"namespace": scope.namespace} if scope.namespace else {}
    reference = {"apiVersion": scope.api_version, "kind": scope.kind, "name": scope.name, "uid": scope.uid}
    metadata = {"name": name(scope), **place, "labels": {LABEL: SOURCE}, "ownerReferences": [reference]}
    content: dict[str, Any] = {
        "apiVersion": form.api_version,
        "kind": form.kind if scope.namespace else form.cluster_kind,
        "metadata": metadata,
        **({"source": SOURCE} if form is OPEN_REPORTS else {}),
        "scope": {**reference, **place},
        "summary": summary,
        "results": results,
    }
    digest = sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:_DIGITS]
    time = {"seconds": int(now.timestamp()), "nanos": 0}
    return {
        **content,
        "metadata": {**metadata, "annotations": {CONTENT: digest}},
        "results": [{**result, "timestamp": time} for result in results],
    }


_REFUSES: Final = ("fail", "error")
_NAMES: Final = 5
"""Policies that are named for a kind of object."""
# All parts together are shorter than an Event's message may be, 1024 characters.
_HEAD, _FIRST = 300, 350


def notice(form: Form, scope: Scope, content: Mapping[str, Any]) -> str:
    """A text on one line; empty if nothing would be refused. content: the report about the scope."""
    refusals = [result for result in content["results"] if result["result"] in _REFUSES]
    if not refusals:
        return ""
    policies: dict[str, dict[str, None]] = {}
    for result in refusals:
        policies.setdefault(result["properties"].get("kind", scope.kind), {})[result["policy"]] = None
    named = ((kind, list(names)) for kind, names in policies.items())
    head = "; ".join(
        f"{kind} by {', '.join(names[:_NAMES])}{' and others' if len(names) > _NAMES else ''}" for kind, names in named
    )
    first = refusals[0]
    said = ": ".join(filter(None, (first["policy"], first["properties"].get("path"), first["message"])))
    plural, place = (form.plural, f" -n {scope.namespace}") if scope.namespace else (form.cluster_plural, "")
    return (
        f"Would be refused if created today: {shortened(head, _HEAD)}. {squeezed(said, _FIRST)} "
        f"Its report: kubectl get {plural}.{form.group} {name(scope)}{place} -o yaml"
    )


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

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, judged: Judged) -> None:
        """Keep what is found about an object, if it belongs into a report."""
        findings, scope = [f for f in judged.findings if f.verdict in _RESULTS], judged.subject.scope
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
