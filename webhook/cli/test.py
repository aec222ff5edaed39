"""`cks-admission test`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from policies import suite as suites
from policies.admissionpolicy.rules.suiterun import KindTarget, SuiteRun, is_config_map
from policies.engine.request import UserInfo
from policies.kubernetes.name import matches_glob
from policies.kubernetes.release import Release
from policies.objects.fieldpath import Location
from policies.schema.schemas import Schemas
from policies.suite import Case, Expectation, Suite, SuiteError
from webhook.cli import findings, options, watching
from webhook.cli.exits import InputError, bounded, reading
from webhook.cli.findings import Finding, Report, Result
from webhook.cli.output import say, style, to_yaml
from webhook.files import manifest, yamlfile
from webhook.files.yamlfile import FileError, YamlDocument
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles


class _Verdict(NamedTuple):
    """A case, its line in the file, and the actual result."""

    case: Case
    line: int
    actual: Expectation

    @property
    def passed(self) -> bool:
        return self.actual == self.case.expect


class _Run(NamedTuple):
    """A suite that was run; `warnings`: of the documents that it names, and of its objects."""

    file: Path
    name: str
    verdicts: list[_Verdict]
    warnings: list[str]

    @property
    def failed(self) -> list[_Verdict]:
        return [verdict for verdict in self.verdicts if not verdict.passed]


@click.command("test")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=options.PATH)
@click.option(
    "--run", "pattern", default="", metavar="PATTERN", help="Run only cases of such a name; * and ? are wildcards."
)
@click.option("-v", "--verbose", is_flag=True, help="Name every case, those that pass too.")
@click.option(
    "--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write the results to this file as JUnit XML."
)
@options.kubernetes
@options.findings
@options.watch
def command(
    paths: tuple[str, ...], pattern: str, junit: Path | None, output: str, policies__kubernetes: str | None, *,
    verbose: bool, quiet: bool, strict: bool, watch: bool,
) -> None:  # fmt: skip
    """Run policy test suites: check that policies decide example cases as expected. No cluster is needed.

    PATH is a suite, or a directory with files named suite.yaml or *.suite.yaml.

    Exit codes: 0 if all cases pass, 1 if some fail, 2 if something cannot be read.

    \b
    Examples:
      cks-admission test policies/packs
      cks-admission test policies/packs --run '*toleration*' -v
      cks-admission test policies/packs/sunk/lock-toleration/suite.yaml
      cks-admission test policies/packs --junit results.xml
      cks-admission test --watch policies/packs/sunk
    """
    release = options.release(policies__kubernetes)

    def run() -> int:
        report = Report(output, quiet=quiet, strict=strict)
        return _tested(paths, pattern, junit, release, report, verbose=verbose)

    watching.run(run, paths, again=watch)


def _tested(
    paths: tuple[str, ...], pattern: str, junit: Path | None, release: Release, report: Report, *, verbose: bool
) -> int:
    """Run the suites and print the results. The exit code. Raises InputError."""
    problems = [f"{path}: no suites found" for path in paths if not _found(path)]
    runs = []
    today = datetime.now(UTC).date()
    for file in dict.fromkeys(file for path in paths for file in _found(path)):
        try:
            runs.append(_run(file, today, pattern, release))
        except InputError as error:
            problems += [error.message]
    if problems:
        raise InputError("\n".join(dict.fromkeys(problems)))
    runs = [run for run in runs if run.verdicts]
    if pattern and not runs:
        raise InputError(f"--run {pattern}: no case has such a name")
    if junit is not None:
        text = findings.junit([result.shown for run in runs for result in _results(run, verbose=False)])
        try:
            junit.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{junit}: cannot be written: {error.strerror}") from None
    say(*dict.fromkeys(warning for run in runs for warning in run.warnings), err=True)
    for result in (result for run in runs for result in _results(run, verbose=verbose)):
        report.add(result)
    count, failed = sum(len(run.verdicts) for run in runs), sum(len(run.failed) for run in runs)
    return report.end([f"{count - failed} of {count} cases passed in {len(runs)} suite{'s' * (len(runs) != 1)}"])


def _results(run: _Run, *, verbose: bool) -> Iterator[Result]:
    """A result for each case; the lines of a suite stand with its first one."""
    head = f"{run.file}: {run.name}: {len(run.verdicts) - len(run.failed)} of {len(run.verdicts)} cases passed"
    # Who wants to hear of failures only is told of the suite with its first one.
    first = run.failed[0] if run.failed and not verbose else run.verdicts[0]
    for verdict in run.verdicts:
        failures: tuple[Finding, ...] = ()
        if not verdict.passed:
            message = "\n".join([_difference(verdict.case.expect, verdict.actual), *_diff(verdict)])
            place = str(run.file), verdict.line, 0, ""
            failures = (Finding("error", "case", "a case of a suite", *place, message, "", verdict.case.name),)
        lines = ((head,) if verdict is first else ()) + tuple(_text(run, verdict, verbose=verbose))
        data = {
            "suite": run.name,
            "file": str(run.file),
            "line": verdict.line,
            "case": verdict.case.name,
            "passed": verdict.passed,
            "findings": [made._asdict() for made in failures],
        }
        yield Result(run.name, verdict.case.name, str(run.file), verdict.line, failures, lines, data)


def _found(path: str) -> tuple[Path, ...]:
    if not Path(path).is_dir():
        return (Path(path),)
    files = sorted(Path(path).rglob("*.yaml"))
    return tuple(file for file in files if policyfiles.is_suite(file) and file.is_file())


def _run(file: Path, today: date, pattern: str, release: Release) -> _Run:
    """Read a suite and what it names, and run the cases that are asked for. Raises InputError with all problems."""
    with bounded(str(file)):
        document = _document(file)
        suite = _suite(file, document)
    policies = _policies(file, suite, today, release)
    with bounded(str(file)):
        run = SuiteRun(
            policies.loaded,
            policies.parameters,
            target,
            schemas=policies.schema,
            decisions=policies.rights,
            release=release,
        )
    verdicts = []
    for index, case in enumerate(suite.cases):
        if not pattern or matches_glob(case.name, [pattern]):
            line = document.line(("cases", index))
            with bounded(f"{file}:{line}: {case.name}", "judge"):
                read = run.received(case)
                verdicts.append(_Verdict(read, line, run.outcome(read)))
    schemas = Schemas(release, options.definitions_among(known.value for known in policies.loaded.context))
    warnings = [*map(str, policies.loaded.warnings), *_flaws(document, schemas)]
    return _Run(file, suite.name, verdicts, warnings)


def _flaws(document: YamlDocument, schemas: Schemas) -> Iterator[str]:
    """A warning for each field that the API server cannot read in the objects that stand in a suite.

    What a field must hold besides is not judged: the objects of a suite may be as small as their case needs.
    """
    suite = document.value
    places: list[tuple[Location, Any]] = [
        (("objects", name), obj) for name, obj in (suite.get("objects") or {}).items()
    ]
    for index, case in enumerate(suite.get("cases") or ()):
        if isinstance(case, dict):
            places += [(("cases", index, field), case.get(field)) for field in ("object", "oldObject")]
    for path, obj in places:
        if isinstance(obj, dict) and all(isinstance(obj.get(field), str) for field in ("apiVersion", "kind")):
            for flaw in schemas.judge(obj).decoding:
                if flaw.level == "error":
                    line, column = document.place((*path, *flaw.path))
                    yield f"{document.name}:{line}:{column}: warning: {flaw.text}"


def _document(file: Path) -> YamlDocument:
    with reading(FileError):
        documents = yamlfile.load(str(file), yamlfile.content(file))
    if len(documents) != 1:
        raise InputError(f"{file}: holds {len(documents)} documents; one is needed")
    return documents[0]


def _suite(file: Path, document: YamlDocument) -> Suite:
    def beside(name: str) -> Any:
        try:
            return _document(file.parent / name).value
        except InputError as error:
            raise LookupError(error.message) from None

    try:
        return suites.read(document.value, beside)
    except SuiteError as error:
        problems = []
        for problem in error.problems:  # each begins with a path
            steps = re.findall(r"[^.\[\]]+", problem.partition(": ")[0])
            line = document.line([int(step) if step.isdecimal() else step for step in steps])
            problems.append(f"{file}:{line}: {problem}")
        raise InputError("\n".join(dict.fromkeys(problems))) from None


def _policies(file: Path, suite: Suite, today: date, release: Release) -> PolicyFiles:
    paths = [str(file.parent / name) for name in suite.policies]
    with reading(FileError):
        loaded = policyfiles.load(paths, today, drafts=True, release=release, within=bounded)
    problems = []
    if not loaded.loaded.policies:
        files = ", ".join(suite.policies)
        problems.append(f"{file}: there is no ValidatingAdmissionPolicy or MutatingAdmissionPolicy in {files}")
    known = {item["metadata"].get("name") for item in loaded.parameters.objects if is_config_map(item)}
    given = {name for case in suite.cases for name in case.params}
    problems += [f"{file}: params: the policies' files hold no ConfigMap {name!r}" for name in sorted(given - known)]
    if problems:
        raise InputError("\n".join(problems))
    return loaded


def target(group: str, kind: str) -> KindTarget:
    """As kubectl guesses offline."""
    shown = {"apiVersion": f"{group}/v1".lstrip("/"), "kind": kind}
    request = manifest.request(shown, None, user=UserInfo(), namespace="any")
    return KindTarget(request.resource.resource, "Namespaced" if request.namespace else "Cluster")


def _text(run: _Run, verdict: _Verdict, *, verbose: bool) -> Iterator[str]:
    if verdict.passed:
        if verbose:
            yield f"  {run.file}:{verdict.line}: {style(verdict.case.name, fg='green')}: passed"
        return
    colours = {"+": "green", "-": "red"}
    yield f"  {run.file}:{verdict.line}: {style(verdict.case.name, fg='red', bold=True)}"
    for line in _diff(verdict):
        yield "    " + style(line, fg=colours.get(line[0]))


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


def _difference(expected: Expectation, actual: Expectation) -> str:
    if expected.verdict != actual.verdict:
        return f"expected {expected.verdict}, found {actual.verdict}"
    same_texts = replace(expected, patched=None) == replace(actual, patched=None)
    return "the objects differ" if same_texts else "the texts differ"
