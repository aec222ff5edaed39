"""What an audit prints: its findings object by object, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final, NamedTuple

from webhook.audit.audit import NotAuditable
from webhook.audit.finding import Judged, Part, Verdict, count
from webhook.cli.findings import LINES, Finding, Level, Report, Result
from webhook.cli.judging import path_steps
from webhook.cli.output import say, style
from webhook.configuration.settings import Settings
from webhook.files.manifest import Manifest

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
        if not judged.findings and (self._form != "junit" or written is None):
            return
        about = judged.subject
        name = f"{about.kind} {'/'.join(filter(None, (about.namespace, about.name)))}"
        file, line = ("", 0) if written is None else (written.file, written.places(())[0])
        findings, data = [], []
        lines = [name if written is None else f"{written.where}: {name}"] if judged.findings else []
        if judged.findings and about.workload and about.workload != f"{about.kind}/{about.name}":
            lines.append(f"  of {about.workload}")
        for verdict, group in groupby(judged.findings, lambda finding: finding.verdict):
            for one in group:
                mark, where = style(f"{verdict}:", fg=_COLOURS.get(verdict)), f" {one.path}:" if one.path else ""
                first, *more = [*one.message.splitlines(), *one.remedy.splitlines()] or [""]
                lines += [f"  {mark} {one.policy}:{where} {first}", *(f"    {text}" for text in more)]
                place = (0, 0) if written is None else written.places(path_steps(one.path))
                at = (one.policy, one.policy, file, *place, one.path)
                findings.append(Finding(LEVELS[verdict], *at, one.message, one.remedy, name))
                data.append({
                    "policy": one.policy,
                    "verdict": verdict,
                    "apiVersion": about.api_version,
                    "kind": about.kind,
                    "namespace": about.namespace,
                    "name": about.name,
                    "uid": about.uid,
                    "workload": about.workload,
                    "path": one.path,
                    "message": one.message,
                    "remedy": one.remedy,
                    "until": one.until,
                })  # fmt: skip
        group_name = file or about.namespace or about.kind
        self._report.add(Result(group_name, name, file, line, tuple(findings), tuple(lines), data))

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
        words = (*_WORDS.items(), ("unreadable", "not read"))
        parts = [f"{self.counts[name]} {what}" for name, what in words if self.counts[name]]
        objects = self.counts["objects"]
        return self._report.end(
            [f"{objects} object{'s' * (objects != 1)} audited: {', '.join(parts) or 'nothing found'}"]
        )


def tell(silent: Iterable[NotAuditable], doubts: Iterable[str]) -> None:
    """Say on stderr what is not judged, and what may be judged otherwise than in admission."""
    say(*(f"not auditable: {entry.policy}: {entry.reason}" for entry in silent), *doubts, err=True)
