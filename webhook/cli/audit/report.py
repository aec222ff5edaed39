"""What an audit prints: its findings object by object, and a summary; and the audit of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import groupby
from typing import Any, Final, NamedTuple

from policies.engine.facts import StaticFacts
from policies.engine.request import AdmissionRequest
from policies.kubernetes.release import NEWEST
from webhook.audit import rules as auditrules
from webhook.audit.audit import Audit, Judged, count
from webhook.audit.finding import Finding as AuditFinding
from webhook.audit.finding import Part, Subject, Verdict
from webhook.audit.owners import Owners
from webhook.audit.rules import ANYBODY, NotAuditable, as_sent
from webhook.cli import options
from webhook.cli.exits import InputError
from webhook.cli.findings import LINES, Finding, Level, Report, Result, unreadable
from webhook.cli.judging import Source, as_received, documents, path_steps, schemas
from webhook.cli.output import say, style
from webhook.configuration.settings import Settings
from webhook.files import manifest
from webhook.files.manifest import Manifest
from webhook.files.walk import walk
from webhook.sources.policyset import EMPTY

REPORTS: Final = "reports"
"""The output that is written into the cluster."""
AT_ONCE: Final = ("text", "json")
"""The forms whose findings are printed as they are found. Others are printed at the end."""
LEVELS: Final[Mapping[Verdict, Level]] = {
    "deny": "error", "error": "error", "warn": "warning", "audit": "note", "mutate": "note", "exempt": "note",
}  # fmt: skip
_COLOURS: Final[Mapping[Verdict, str]] = {"deny": "red", "error": "red", "warn": "yellow"}
_WORDS: Final[Mapping[Verdict, str]] = {
    "deny": "would be refused", "error": "could not be judged", "warn": "would be warned of",
    "audit": "would be noted", "mutate": "would be changed", "exempt": "exempt",
}  # fmt: skip


class Inquiry(NamedTuple):
    """What is to be audited, and how it is printed. files: paths; empty for a cluster."""

    settings: Settings
    files: tuple[str, ...]
    ignore: tuple[str, ...]
    kubeconfig: str
    namespaces: tuple[str, ...]
    kinds: tuple[str, ...]
    qps: float
    part: Part
    output: str
    quiet: bool
    strict: bool


class AuditReport:
    """The output of an audit in the form that is asked for. counts: objects by verdict, and how many there are."""

    def __init__(self, asked: Inquiry) -> None:
        form = LINES if asked.output == "json" else asked.output
        self._report = Report(form, quiet=asked.quiet, strict=asked.strict)
        self._form = asked.output
        self.counts: Counter[str] = Counter()

    def add(self, judged: Judged, written: Manifest | None = None) -> None:
        """Take an object. written: its place, if it stands in a file."""
        count(self.counts, judged)
        if judged.findings or (self._form == "junit" and written is not None):
            self._report.add(_result(judged, written))

    def passed(self, name: str, objects: int) -> None:
        """Take a list that is done, for forms that count what passed."""
        if self._form == "junit":
            self._report.add(Result(name, f"{objects} objects", "", 0))

    def unreadable(self, result: Result) -> None:
        """Take what cannot be read."""
        self.counts["unreadable"] += 1
        self._report.add(result)

    def end(self) -> int:
        """Print what is left. The exit code."""
        return self._report.end(self._summary())

    def _summary(self) -> Iterator[str]:
        parts = [f"{self.counts[verdict]} {words}" for verdict, words in _WORDS.items() if self.counts[verdict]]
        objects = self.counts["objects"]
        unread = [f"{self.counts['unreadable']} not read"] if self.counts["unreadable"] else []
        told = ", ".join((*parts, *unread)) or "nothing found"
        yield f"{objects} object{'s' * (objects != 1)} audited: {told}"


def _result(judged: Judged, written: Manifest | None) -> Result:
    name = title(judged.subject)
    file = "" if written is None else written.file
    place = (0, 0) if written is None else written.places(())
    findings = tuple(_finding(finding, name, written) for finding in judged.findings)
    head = f"{written.where}: {name}" if written is not None else name
    lines = (head, *_lines(judged)) if findings else ()
    data = [record(finding) for finding in judged.findings]
    group = file or judged.subject.namespace or judged.subject.kind
    return Result(group, name, file, place[0], findings, lines, data)


def title(subject: Subject) -> str:
    """What an object is called: kind, Namespace and name."""
    return f"{subject.kind} {'/'.join(filter(None, (subject.namespace, subject.name)))}"


def record(finding: AuditFinding) -> dict[str, Any]:
    """A finding as an object of JSON."""
    subject = finding.subject
    return {
        "policy": finding.policy,
        "verdict": finding.verdict,
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
        "workload": subject.workload,
        "path": finding.path,
        "message": finding.message,
        "remedy": finding.remedy,
        "until": finding.until,
    }


def _finding(finding: AuditFinding, name: str, written: Manifest | None) -> Finding:
    line, column = (0, 0) if written is None else written.places(path_steps(finding.path))
    file = "" if written is None else written.file
    level, policy = LEVELS[finding.verdict], finding.policy
    return Finding(level, policy, policy, file, line, column, finding.path, finding.message, finding.remedy, name)


def _lines(judged: Judged) -> Iterator[str]:
    subject = judged.subject
    if subject.workload and subject.workload != f"{subject.kind}/{subject.name}":
        yield f"  of {subject.workload}"
    for verdict, findings in groupby(judged.findings, lambda finding: finding.verdict):
        for finding in findings:
            mark = style(f"{verdict}:", fg=_COLOURS.get(verdict))
            where = f" {finding.path}:" if finding.path else ""
            first, *more = [*finding.message.splitlines(), *finding.remedy.splitlines()] or [""]
            yield f"  {mark} {finding.policy}:{where} {first}"
            yield from (f"    {line}" for line in more)


def tell(silent: Iterable[NotAuditable], doubts: Iterable[str]) -> None:
    """Say on stderr what is not judged, and what may be judged otherwise than in admission."""
    for entry in silent:
        say(f"not auditable: {entry.policy}: {entry.reason}", err=True)
    say(*doubts, err=True)


_DEFAULT = "default"


async def of_files(asked: Inquiry, today: date) -> int:
    """Judge the objects in files and print what is found. The exit code. Raises InputError and SettingsError."""
    written = options.policy_files(asked.settings, today, drafts=True)
    release = asked.settings.policies.release or NEWEST
    rules = auditrules.made(asked.settings, written or EMPTY.files._replace(release=release))
    tell(rules.silent, rules.doubts)
    owners = Owners()
    work = Audit(rules, written.facts(today) if written else StaticFacts(today), None, owners)
    report, walked = AuditReport(asked), walk(asked.files, asked.ignore)
    for problem in walked.problems:
        report.unreadable(unreadable(problem))
    source = Source.of(walked.files)
    known = schemas(source.context(options.CRD), written, release)
    for item in (item for part in source.parts() for item in documents(part)):
        if isinstance(item, Result):
            report.unreadable(item)
            continue
        received = as_received(item.object, known)
        # The request that would create it; its resource is guessed from its kind.
        request = manifest.request(as_sent(received), None, user=ANYBODY, namespace=_DEFAULT, uid="audit")
        if _is_asked(request, asked):
            owners.remember(received)
            report.add(await work.judged(request), item)
    if not (report.counts["objects"] or report.counts["unreadable"]):
        raise InputError(f"{', '.join(asked.files)}: no objects found")
    return report.end()


def _is_asked(request: AdmissionRequest, asked: Inquiry) -> bool:
    kind, resource = request.kind, request.resource
    group = f".{kind.group}" if kind.group else ""
    names = {name.lower() for name in (kind.kind, kind.kind + group, resource.resource, resource.resource + group)}
    in_namespace = not asked.namespaces or request.scope_namespace in asked.namespaces
    return in_namespace and (not asked.kinds or any(name.lower() in names for name in asked.kinds))
