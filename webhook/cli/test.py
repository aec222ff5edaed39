"""`cks-admission test`."""

from __future__ import annotations

import asyncio
import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import click

from policies import suite as suites
from policies.admissionpolicy.rules.suiterun import KindTarget, SuiteRun, is_config_map
from policies.engine.request import UserInfo
from policies.suite import Case, Expectation, Suite, SuiteError
from webhook.cli import exits
from webhook.cli.exits import InputError
from webhook.cli.output import to_yaml
from webhook.files import manifest, watch, yamlfile
from webhook.files.yamlfile import FileError, YamlDocument
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles, PolicyFilesError

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _ProblemsError(Exception):
    """All problems that prevent suites from being run, each with its file."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class _Verdict(NamedTuple):
    """A case, its line in the file, and the actual result."""

    case: Case
    line: int
    actual: Expectation

    @property
    def passed(self) -> bool:
        return self.actual == self.case.expect


class _Report(NamedTuple):
    """A suite that was run; `warnings`: of the documents that it names."""

    file: Path
    name: str
    verdicts: list[_Verdict]
    warnings: list[str]

    @property
    def failed(self) -> list[_Verdict]:
        return [verdict for verdict in self.verdicts if not verdict.passed]


@click.command("test")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write the results to this file as JUnit XML."
)
@click.option(
    "--watch", "again", is_flag=True, help="Run again whenever a file in these folders changes, until Ctrl-C."
)
def command(paths: tuple[str, ...], junit: Path | None, *, again: bool) -> None:
    """Run policy test suites: check that policies decide example cases as expected. No cluster is needed.

    PATH is a suite, or a directory with files named suite.yaml or *.suite.yaml.

    Exit codes: 0 if all cases pass, 1 if some fail, 2 if something cannot be read.

    \b
    Examples:
      cks-admission test policies/packs
      cks-admission test policies/packs/sunk/lock-toleration/suite.yaml
      cks-admission test policies/packs --junit results.xml
      cks-admission test --watch policies/mine
    """
    if again:
        folders = {path if Path(path).is_dir() else str(Path(path).parent) for path in paths}
        asyncio.run(_again(paths, junit, folders))
    sys.exit(exits.OK if _passed(paths, junit) else exits.REFUSED)


async def _again(paths: tuple[str, ...], junit: Path | None, folders: Iterable[str]) -> None:
    """Run the suites now, and again whenever a file below the folders has changed."""
    state = _state(folders)
    _say(paths, junit)
    async for _ in watch.changes(folders):
        if state != (state := _state(folders)):
            _say(paths, junit)


def _state(folders: Iterable[str]) -> Mapping[Path, int]:
    """When files below the folders were written."""
    return {file: file.stat().st_mtime_ns for folder in folders for file in Path(folder).rglob("*.yaml")}


def _say(paths: tuple[str, ...], junit: Path | None) -> None:
    """Run the suites at this time. What cannot be read is said, for it may be mended with the next change."""
    click.echo(f"{datetime.now().astimezone():%H:%M:%S}")
    try:
        _passed(paths, junit)
    except InputError as error:
        error.show()
    click.echo("Waiting for a change; Ctrl-C ends.")


def _passed(paths: tuple[str, ...], junit: Path | None) -> bool:
    """Run the suites and print the results. Whether all cases pass. Raises InputError."""
    problems = [f"{path}: no suites found" for path in paths if not _found(path)]
    reports = []
    today = datetime.now(UTC).date()
    for file in dict.fromkeys(file for path in paths for file in _found(path)):
        try:
            reports.append(_run(file, today))
        except _ProblemsError as error:
            problems += error.problems
    if problems:
        raise InputError("\n".join(dict.fromkeys(problems)))
    if junit is not None:
        _write_junit(junit, reports)
    for warning in dict.fromkeys(warning for report in reports for warning in report.warnings):
        click.echo(warning, err=True)
    for report in reports:
        click.echo("\n".join(_text(report)))
    count, failed = sum(len(report.verdicts) for report in reports), sum(len(report.failed) for report in reports)
    click.echo(f"{count - failed} of {count} cases passed in {len(reports)} suite{'s' * (len(reports) != 1)}")
    return not failed


def _found(path: str) -> tuple[Path, ...]:
    """The suites below a directory, by name; anything else is a suite itself."""
    if not Path(path).is_dir():
        return (Path(path),)
    files = sorted(Path(path).rglob("*.yaml"))
    return tuple(file for file in files if policyfiles.is_suite(file) and file.is_file())


def _run(file: Path, today: date) -> _Report:
    """Read a suite and what it names, and run its cases. Raises _ProblemsError."""
    document = _document(file)
    suite = _suite(file, document)
    policies = _policies(file, suite, today)
    run = SuiteRun(policies.loaded, policies.parameters, _target, schemas=policies.schema, decisions=policies.rights)
    lines = (document.line(("cases", index)) for index in range(len(suite.cases)))
    cases = zip(map(run.received, suite.cases), lines, strict=True)
    verdicts = [_Verdict(case, line, run.outcome(case)) for case, line in cases]
    return _Report(file, suite.name, verdicts, list(map(str, policies.loaded.warnings)))


def _document(file: Path) -> YamlDocument:
    try:
        documents = yamlfile.load(str(file), file.read_bytes())
    except FileError as error:
        raise _ProblemsError([str(error)]) from None
    except OSError as error:
        raise _ProblemsError([f"{file}: cannot be read: {error.strerror}"]) from None
    if len(documents) != 1:
        raise _ProblemsError([f"{file}: holds {len(documents)} documents; one is needed"])
    return documents[0]


def _suite(file: Path, document: YamlDocument) -> Suite:
    def beside(name: str) -> Any:
        try:
            return _document(file.parent / name).value
        except _ProblemsError as error:
            raise LookupError(str(error)) from None

    try:
        return suites.read(document.value, beside)
    except SuiteError as error:
        raise _ProblemsError(f"{file}:{_line(document, problem)}: {problem}" for problem in error.problems) from None


def _line(document: YamlDocument, problem: str) -> int:
    """The line of the path that a problem begins with."""
    steps = re.findall(r"[^.\[\]]+", problem.partition(": ")[0])
    return document.line([int(step) if step.isdecimal() else step for step in steps])


def _policies(file: Path, suite: Suite, today: date) -> PolicyFiles:
    try:
        loaded = policyfiles.load((str(file.parent / name) for name in suite.policies), today, drafts=True)
    except PolicyFilesError as error:
        raise _ProblemsError([str(error)]) from None
    except OSError as error:
        raise _ProblemsError([f"{error.filename}: cannot be read: {error.strerror}"]) from None
    problems = []
    if not loaded.loaded.policies:
        files = ", ".join(suite.policies)
        problems.append(f"{file}: there is no ValidatingAdmissionPolicy or MutatingAdmissionPolicy in {files}")
    known = {item["metadata"].get("name") for item in loaded.parameters.objects if is_config_map(item)}
    given = {name for case in suite.cases for name in case.params}
    problems += [f"{file}: params: the policies' files hold no ConfigMap {name!r}" for name in sorted(given - known)]
    if problems:
        raise _ProblemsError(problems)
    return loaded


def _target(group: str, kind: str) -> KindTarget:
    """As kubectl guesses offline."""
    shown = {"apiVersion": f"{group}/v1".lstrip("/"), "kind": kind}
    request = manifest.request(shown, None, user=UserInfo(), namespace="any")
    return KindTarget(request.resource.resource, "Namespaced" if request.namespace else "Cluster")


def _text(report: _Report) -> Iterator[str]:
    passed = len(report.verdicts) - len(report.failed)
    yield f"{report.file}: {report.name}: {passed} of {len(report.verdicts)} cases passed"
    colours = {"+": "green", "-": "red"}
    for verdict in report.failed:
        yield f"  {report.file}:{verdict.line}: {click.style(verdict.case.name, fg='red', bold=True)}"
        for line in _diff(verdict):
            yield "    " + click.style(line, fg=colours.get(line[0]))


def _diff(verdict: _Verdict) -> list[str]:
    """The diff of all texts, and of the resulting objects with some context."""
    expected, actual = verdict.case.expect, verdict.actual
    before, after = list(_lines(expected)), list(_lines(actual))
    diff = difflib.unified_diff(before, after, "expected", "found", lineterm="", n=len(before) + len(after))
    lines = [line for line in diff if not line.startswith("@@")]
    if expected.verdict == actual.verdict:
        written = verdict.case.object or {}
        objects = [to_yaml(dict(outcome.patched or written)).splitlines() for outcome in (expected, actual)]
        lines += difflib.unified_diff(objects[0], objects[1], "expected object", "found object", lineterm="")
    return lines


def _lines(outcome: Expectation) -> Iterator[str]:
    yield f"verdict: {outcome.verdict}"
    for name, texts in (("message", outcome.messages), ("warning", outcome.warnings), ("audit", outcome.audit)):
        for text in texts:
            yield from f"{name}: {text}".split("\n")


def _write_junit(file: Path, reports: Iterable[_Report]) -> None:
    root = ET.Element("testsuites")
    for report in reports:
        counts = {"tests": str(len(report.verdicts)), "failures": str(len(report.failed))}
        top = ET.SubElement(root, "testsuite", {"name": _xml(report.name), "file": str(report.file), **counts})
        for verdict in report.verdicts:
            names = {"classname": _xml(report.name), "name": _xml(verdict.case.name), "line": str(verdict.line)}
            case = ET.SubElement(top, "testcase", names)
            if not verdict.passed:
                failure = ET.SubElement(case, "failure", {"message": _summary(verdict.case.expect, verdict.actual)})
                failure.text = _xml("\n".join(_diff(verdict)))
    ET.indent(root)
    try:
        ET.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from None


def _summary(expected: Expectation, actual: Expectation) -> str:
    if expected.verdict != actual.verdict:
        return f"expected {expected.verdict}, found {actual.verdict}"
    same_texts = replace(expected, patched=None) == replace(actual, patched=None)
    return "the objects differ" if same_texts else "the texts differ"


def _xml(text: str) -> str:
    """A text without the characters that XML does not allow."""
    return _NO_XML.sub("\ufffd", text)
