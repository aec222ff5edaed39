"""The report about a workload: what is found about it and all that it owns, the gravest first.

https://github.com/openreports/reports-api; https://github.com/kubernetes-sigs/wg-policy-prototypes. What is optional
there is written as policy-reporter reads it: https://kyverno.github.io/policy-reporter-docs/.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from policies.engine.violation import shortened
from webhook.audit.finding import Finding, Scope, Verdict
from webhook.audit.reports.form import OPEN_REPORTS, Form

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


def is_reported(finding: Finding) -> bool:
    """Whether a finding becomes a result."""
    return finding.verdict in _RESULTS


def name(scope: Scope) -> str:
    """The name of the report: that of a workload's successor is another one."""
    return f"{SOURCE}-{scope.uid}"


def report(form: Form, scope: Scope, findings: Iterable[Finding], now: datetime) -> dict[str, Any]:
    """The report with all that we say of it. findings: those that are reported. now: the time of its results."""
    said = Counter(_said(finding, scope) for finding in findings)
    summary = dict.fromkeys(_SUMMARY, 0)
    for entry, count in said.items():
        summary[_result(entry)] += count
    results = [_written(form, scope, entry, said[entry]) for entry in sorted(said)[:MOST]]
    content: dict[str, Any] = {
        "apiVersion": form.api_version,
        "kind": form.kind if scope.namespace else form.cluster_kind,
        "metadata": _metadata(scope),
        **({"source": SOURCE} if form is OPEN_REPORTS else {}),
        "scope": {**_reference(scope), **_place(scope)},
        "summary": summary,
        "results": results,
    }
    digest = sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:_DIGITS]
    metadata = {**_metadata(scope), "annotations": {CONTENT: digest}}
    time = {"seconds": int(now.timestamp()), "nanos": 0}
    return {**content, "metadata": metadata, "results": [{**result, "timestamp": time} for result in results]}


def _said(finding: Finding, scope: Scope) -> _Said:
    subject = finding.subject
    kind = "" if subject.uid == scope.uid else subject.kind
    message = shortened("\n".join(filter(None, (finding.message, finding.remedy))), LONGEST)
    return _Said(_GRAVEST.index(finding.verdict), finding.policy, finding.path, kind, message, finding.until)


def _result(entry: _Said) -> str:
    return _RESULTS[_GRAVEST[entry.gravity]][0]


def _metadata(scope: Scope) -> dict[str, Any]:
    return {
        "name": name(scope),
        **_place(scope),
        "labels": {LABEL: SOURCE},
        "ownerReferences": [_reference(scope)],
    }


def _reference(scope: Scope) -> dict[str, str]:
    return {"apiVersion": scope.api_version, "kind": scope.kind, "name": scope.name, "uid": scope.uid}


def _place(scope: Scope) -> dict[str, str]:
    return {"namespace": scope.namespace} if scope.namespace else {}


def _written(form: Form, scope: Scope, entry: _Said, count: int) -> dict[str, Any]:
    """A result. It names no resources, so that it is about the scope: what a controller owns comes and goes."""
    result, severity = _RESULTS[_GRAVEST[entry.gravity]]
    return {
        "policy": entry.policy,
        "result": result,
        "severity": severity,
        "message": entry.message,
        **({} if form is OPEN_REPORTS else {"source": SOURCE}),
        "properties": dict(_properties(scope, entry, count)),
    }


def _properties(scope: Scope, entry: _Said, count: int) -> Iterator[tuple[str, str]]:
    """What else there is to say. resultID: by which policy-reporter tells results apart, else two paths were one."""
    if entry.path:
        yield "path", entry.path
    if entry.kind:
        yield "kind", entry.kind
        yield "count", str(count)
    if entry.until:
        yield "until", entry.until
    yield "resultID", sha256(msgspec.json.encode((scope.uid, entry))).hexdigest()[:_DIGITS]
