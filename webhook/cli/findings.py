"""What `check`, `test`, `lint` and `audit` find, printed for people, programs, CI systems and code hosts.

Sources: SARIF 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; JUnit XML,
https://github.com/jenkinsci/xunit-plugin, junit-10.xsd; GitHub's workflow commands,
https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands, and for their escaping the
toolkit's packages/core/src/command.ts; GitLab's code quality report, https://docs.gitlab.com/ci/testing/code_quality/.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree as ET

import click

from policies.engine.violation import printable, prose
from webhook.cli.output import OK, REFUSED, USAGE, harmless, say, style, to_json, to_yaml, write_text

Level = Literal["error", "warning", "note"]

UNREADABLE = "unreadable"
"""The code of what cannot be read."""
LINES = "lines"
"""The form of JSON with an object on each line. The data of a result are several objects."""
DATA = ("json", "yaml", LINES)
"""The forms for which results need their data."""
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_PLACE = re.compile(r"([^\n]+?)(?::(\d+)(?::(\d+))?)?: (.*)", re.DOTALL)
_GITHUB: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}
_GITLAB: dict[Level, str] = {"error": "major", "warning": "minor", "note": "info"}


class Finding(NamedTuple):
    """One thing that is wrong, at a place in a file.

    level: an error fails a run, a warning does with --strict, a note never. code: that of lint, or the rule or policy.
    rule: its name for people. line, column: of the field, from 1; 0 if unknown. path: the field.
    remedy: what to do, empty if the message says it. object: what is wrong, such as `Deployment default/web`.
    """

    level: Level
    code: str
    rule: str
    file: str
    line: int
    column: int
    path: str
    message: str
    remedy: str = ""
    object: str = ""

    @property
    def shown(self) -> Finding:
        """The finding in words that are harmless wherever they are shown; message and remedy may have several lines."""
        words: dict[str, Any] = {name: _line(text) for name, text in self._asdict().items() if isinstance(text, str)}
        return self._replace(**words | {"message": harmless(self.message), "remedy": harmless(self.remedy)})

    @property
    def text(self) -> str:
        """Path, message and remedy as one text; a message that names the field says it for both."""
        what = self.message if self.path in self.message else f"{self.path}: {self.message}"
        return f"{what}\n{self.remedy}" if self.remedy else what


def _line(text: str) -> str:
    return harmless(printable(text))


class Result(NamedTuple):
    """What came of one thing that was judged: an object, a case of a suite, a policy.

    group: what it belongs to, such as its file or suite. name: what it is. line: its own. lines: what people read.
    data: what programs read. counts: what it adds to a summary, by name.
    """

    group: str
    name: str
    file: str
    line: int
    findings: tuple[Finding, ...] = ()
    lines: tuple[str, ...] = ()
    data: Any = None
    counts: tuple[str, ...] = ()

    @property
    def shown(self) -> Result:
        """The result in words that are harmless wherever they are shown."""
        group, name, file = map(_line, (self.group, self.name, self.file))
        return self._replace(group=group, name=name, file=file, findings=tuple(f.shown for f in self.findings))

    @property
    def unreadable(self) -> bool:
        """Whether it could not be read, so that nobody judged it."""
        return any(finding.code == UNREADABLE for finding in self.findings)


def unreadable(text: str) -> Result:
    """The result for input that cannot be read. text: the error, which begins with the file, and the place if known."""
    place = _PLACE.fullmatch(text)
    file, line, column, message = place.groups() if place else ("", "", "", text)
    at = file, int(line or 0), int(column or 0)
    finding = Finding("error", UNREADABLE, "", *at, "", message)
    return Result(file, file or message, file, at[1], (finding,), data={"error": text}, counts=("not read",))


class Report:
    """The output of one run. Only results with findings are kept, or all for JUnit, which counts what passed.

    quiet: whether text has only what has findings. strict: whether warnings fail.
    """

    def __init__(self, form: str, *, quiet: bool = False, strict: bool = False) -> None:
        self._form = form
        self._quiet = quiet
        self._strict = strict
        self._kept: list[Result] = []
        self._items = 0
        self.counts: Counter[str] = Counter()
        self.total = 0

    def add(self, result: Result) -> None:
        """Take a result, and print it if the form lets it be."""
        self.total += 1
        if self._form not in ("text", *DATA):
            result = result.shown._replace(lines=(), data=None)
        self.counts.update(result.counts)
        self.counts.update(finding.level for finding in result.findings)
        if self._form == "text":
            if result.unreadable:
                say(f"{style('Error:', fg='red', bold=True)} {result.data['error']}", err=True)
            elif result.lines and not (self._quiet and not result.findings):
                say(*result.lines)
        elif self._form in DATA:
            self._data(result.data)
        elif self._form == "github":
            for finding in result.findings:
                click.echo(github(finding))  # noqa: TID251 - it is a command, and nothing in it another one
        elif result.findings or self._form == "junit":
            self._kept.append(result)

    def _data(self, data: Any) -> None:
        if data is None:
            return
        if self._form == LINES:
            write_text("".join(f"{to_json(item, None)}\n" for item in (data if isinstance(data, list) else [data])))
        elif self._form == "yaml":
            write_text(to_yaml([data]))
        else:
            shown = to_json(data).replace("\n", "\n  ")
            write_text(f"{',' if self._items else '['}\n  {shown}")
        self._items += 1

    def end(self, summary: Iterable[str] = ()) -> int:
        """Print what is left, and in text the summary.

        The exit code of the run: 2 if something could not be read, 1 for an error, or a warning where it fails.
        """
        if self._form == "text" and not self._quiet:
            for line in summary:
                say(line)
        elif self._form == "json":
            write_text("\n]\n" if self._items else "[]\n")
        elif self._form == "yaml" and not self._items:
            write_text("[]\n")
        elif self._form == "junit":
            write_text(junit(self._kept, strict=self._strict))
        elif self._form in ("sarif", "gitlab"):
            write_text({"sarif": sarif, "gitlab": gitlab}[self._form](self._kept))
        if self.counts["not read"]:
            return USAGE
        return REFUSED if self.counts["error"] or (self._strict and self.counts["warning"]) else OK


def github(finding: Finding) -> str:
    """A finding as a workflow command, which GitHub shows at its line."""
    places = {"file": finding.file, "line": finding.line, "col": finding.column}
    title = " ".join(dict.fromkeys(filter(None, (finding.code, finding.rule))))
    properties = {name: str(value) for name, value in places.items() if value} | {"title": title}
    shown = ",".join(
        f"{name}={_escaped(value).replace(':', '%3A').replace(',', '%2C')}" for name, value in properties.items()
    )
    return f"::{_GITHUB[finding.level]} {shown}::{_escaped(finding.text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def gitlab(results: Iterable[Result]) -> str:
    """All findings as a report. A fingerprint does not depend on lines, so that a finding stays the same one."""
    issues: list[dict[str, Any]] = []
    times: Counter[str] = Counter()
    for finding in (finding for result in results for finding in result.findings):
        identity = repr((finding.code, finding.file, finding.object, finding.path, finding.message))
        times[identity] += 1
        issues.append({
            "description": finding.text,
            "check_name": finding.code,
            "fingerprint": sha256(f"{identity}{times[identity]}".encode(errors="replace")).hexdigest(),
            "severity": _GITLAB[finding.level],
            "location": {"path": finding.file, "lines": {"begin": max(finding.line, 1)}},
        })  # fmt: skip
    return to_json(issues) + "\n"


def sarif(results: Iterable[Result]) -> str:
    """All findings as one log with one run, which code hosts show beside the lines of a change."""
    findings = [finding for result in results for finding in result.findings]
    rules = {finding.code: finding.rule or finding.code for finding in findings}
    indexes = {code: index for index, code in enumerate(rules)}
    shown = []
    for finding in findings:
        location: dict[str, Any] = {}
        if finding.file:
            location["physicalLocation"] = {"artifactLocation": {"uri": quote(finding.file)}}
            if finding.line:
                region = {"startLine": finding.line, **({"startColumn": finding.column} if finding.column else {})}
                location["physicalLocation"]["region"] = region
        if finding.object:
            location["logicalLocations"] = [{"fullyQualifiedName": finding.object}]
        shown.append({
            "ruleId": finding.code,
            "ruleIndex": indexes[finding.code],
            "level": finding.level,
            "message": {"text": finding.text},
            **({"locations": [location]} if location else {}),
        })  # fmt: skip
    driver = {
        "name": "cks-admission",
        "version": version("cks-admission"),
        "rules": [{"id": code, "shortDescription": {"text": name}} for code, name in rules.items()],
    }
    run = {"tool": {"driver": driver}, "results": shown}
    return to_json({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def junit(results: Iterable[Result], *, strict: bool = False) -> str:
    """The results as a test suite for each group: what was judged is a test case. strict: whether warnings fail."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.group, result.file), []).append(result)
    levels = ("error", "warning") if strict else ("error",)
    root = ET.Element("testsuites")
    for (group, file), members in groups.items():
        suite = ET.SubElement(root, "testsuite", name=group, file=file)
        failed = errors = 0
        for result in members:
            case = ET.SubElement(suite, "testcase", classname=group, name=result.name)
            if failures := [finding for finding in result.findings if finding.level in levels]:
                message = "; ".join(dict.fromkeys(finding.message.partition("\n")[0] for finding in failures))
                kind = "error" if result.unreadable else "failure"
                text = "\n".join(prose(f"{finding.file}:{finding.line}: {finding.text}") for finding in failures)
                ET.SubElement(case, kind, message=message, type=failures[0].code).text = text
                failed, errors = failed + 1, errors + result.unreadable
            if others := [finding for finding in result.findings if finding.level not in levels]:
                ET.SubElement(case, "system-out").text = "\n".join(prose(f"{f.level}: {f.text}") for f in others)
        counts = {"tests": len(members), "failures": failed - errors, "errors": errors}
        suite.attrib |= {name: str(count) for name, count in counts.items()}
    ET.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(root, encoding='unicode')}\n"
