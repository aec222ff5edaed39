"""`cks-admission test`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

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
from webhook.cli.findings import Finding, Report, Result
from webhook.cli.judging import path_steps
from webhook.cli.output import InputError, bounded, coloured, reading, say, style, to_yaml
from webhook.files import manifest, yamlfile
from webhook.files.yamlfile import FileError, YamlDocument
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles


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
    problems, files = [], dict[Path, None]()
    for path in paths:
        below = sorted(Path(path).rglob("*.yaml")) if Path(path).is_dir() else []
        suites_of = [file for file in below if policyfiles.is_suite(file) and file.is_file()]
        suites_of = suites_of if Path(path).is_dir() else [Path(path)]
        problems += [] if suites_of else [f"{path}: no suites found"]
        files |= dict.fromkeys(suites_of)
    runs, doubts = [], []
    today = datetime.now(UTC).date()
    for file in files:
        try:
            results, warnings = _run(file, today, pattern, release, verbose=verbose)
            runs += [results] if results else []
            doubts += warnings if results else []
        except InputError as error:
            problems += [error.message]
    if problems:
        raise InputError("\n".join(dict.fromkeys(problems)))
    if pattern and not runs:
        raise InputError(f"--run {pattern}: no case has such a name")
    if junit is not None:
        text = findings.junit([result.shown for results in runs for result in results])
        try:
            junit.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{junit}: cannot be written: {error.strerror}") from None
    say(*dict.fromkeys(doubts), err=True)
    for result in (result for results in runs for result in results):
        report.add(result)
    failed = report.counts["error"]
    suffix = "s" * (len(runs) != 1)
    return report.end([f"{report.total - failed} of {report.total} cases passed in {len(runs)} suite{suffix}"])


def _run(file: Path, today: date, pattern: str, release: Release, *, verbose: bool) -> tuple[list[Result], list[str]]:
    """A result for each case of a suite that is asked for, and warnings of what it names and of its objects.

    Raises InputError with all problems.
    """
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
    results = []
    for index, case in enumerate(suite.cases):
        if not pattern or matches_glob(case.name, [pattern]):
            line = document.line(("cases", index))
            with bounded(f"{file}:{line}: {case.name}", "judge"):
                received = run.received(case)
                results.append(_result(file, suite.name, line, received, run.outcome(received), verbose=verbose))
    # The line of a suite stands with its first case, or with its first failure for who wants to hear of these only.
    failed = [index for index, result in enumerate(results) if result.findings]
    if results:
        head = f"{file}: {suite.name}: {len(results) - len(failed)} of {len(results)} cases passed"
        first = failed[0] if failed and not verbose else 0
        results[first] = results[first]._replace(lines=(head, *results[first].lines))
    schemas = Schemas(release, options.definitions_among(known.value for known in policies.loaded.context))
    return results, [*map(str, policies.loaded.warnings), *_flaws(document, schemas)]


def _result(file: Path, suite: str, line: int, case: Case, actual: Expectation, *, verbose: bool) -> Result:
    """What came of a case: if it differs from what is expected, how, as a diff of all texts and of the objects."""
    expected, passed = case.expect, actual == case.expect
    failures, lines = [], list[str]()
    if passed and verbose:
        lines.append(f"  {file}:{line}: {style(case.name, fg='green')}: passed")
    if not passed:
        before, after = (
            "\n".join([
                f"verdict: {outcome.verdict}",
                *(f"message: {text}" for text in outcome.messages),
                *(f"warning: {text}" for text in outcome.warnings),
                *(f"audit: {text}" for text in outcome.audit),
            ]).split("\n")
            for outcome in (expected, actual)
        )  # fmt: skip
        diff = difflib.unified_diff(before, after, "expected", "found", lineterm="", n=len(before) + len(after))
        shown = [one for one in diff if not one.startswith("@@")]
        message = f"expected {expected.verdict}, found {actual.verdict}"
        if expected.verdict == actual.verdict:
            # With some context only, as objects may be large.
            old, new = (to_yaml(dict(one.patched or case.object or {})).splitlines() for one in (expected, actual))
            shown += difflib.unified_diff(old, new, "expected object", "found object", lineterm="")
            are_same = replace(expected, patched=None) == replace(actual, patched=None)
            message = "the objects differ" if are_same else "the texts differ"
        lines.append(f"  {file}:{line}: {style(case.name, fg='red', bold=True)}")
        lines += (f"    {one}" for one in coloured(shown))
        words = "\n".join([message, *shown])
        failures.append(Finding("error", "case", "a case of a suite", str(file), line, 0, "", words, "", case.name))
    data = {
        "suite": suite,
        "file": str(file),
        "line": line,
        "case": case.name,
        "passed": passed,
        "findings": [failure._asdict() for failure in failures],
    }
    return Result(suite, case.name, str(file), line, tuple(failures), tuple(lines), data)


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
            line = document.line(path_steps(problem.partition(": ")[0]))
            problems.append(f"{file}:{line}: {problem}")
        raise InputError("\n".join(dict.fromkeys(problems))) from None


def _policies(file: Path, suite: Suite, today: date, release: Release) -> PolicyFiles:
    paths = [str(file.parent / name) for name in suite.policies]
    with reading(FileError):
        loaded = policyfiles.read(policyfiles.texts(paths), today, drafts=True, release=release, within=bounded)
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
