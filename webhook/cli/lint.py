"""`cks-admission lint`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from policies.admissionpolicy.model import Policy
from policies.kubernetes.release import Release
from policies.lint.finding import CODES, LintFinding, UnknownCodeError, named
from policies.lint.review import review
from policies.lint.typecheck import catalog, warnings
from webhook.cli import options, watching
from webhook.cli.findings import Finding, Report, Result
from webhook.cli.output import OK, REFUSED, InputError, bounded, reading, style, write
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles


@click.command("lint")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True))
@click.option("--select", multiple=True, metavar="CODE", help="Show only findings of this code; repeatable.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Show no findings of this code; repeatable.")
@click.option(
    "--type-checking", is_flag=True, help="Show only what Kubernetes would write to status.typeChecking of each policy."
)
@options.kubernetes
@options.findings
@options.watch
def command(
    paths: tuple[str, ...], select: tuple[str, ...], ignore: tuple[str, ...], output: str,
    policies__kubernetes: str | None, *, type_checking: bool, quiet: bool, strict: bool, watch: bool,
) -> None:  # fmt: skip
    """Find mistakes in admission policies, without running them.

    PATH is a file with policies, or a directory with such files. CODE is a code, the beginning of codes or a name, such
    as CKS102, CKS1 or missing-has; separate several by commas.

    Exit codes: 0 if there are no findings, 1 if there are any, 2 if something cannot be read.

    \b
    Examples:
      cks-admission lint policies/packs
      cks-admission lint policy.yaml crds/ -o json
      cks-admission lint policies/ --select CKS101,CKS102 --ignore no-remedy
      cks-admission lint policy.yaml --type-checking
    """
    del strict  # findings fail as it is
    chosen = _codes("--select", select) or set(CODES)
    shown = chosen - _codes("--ignore", ignore)
    release = options.release(policies__kubernetes)
    if type_checking:
        sys.exit(_type_checking(_read(paths, release)[0], output))
    watching.run(lambda: _run(paths, release, shown, Report(output, quiet=quiet, strict=True)), paths, again=watch)


def _codes(option: str, given: Iterable[str]) -> set[str]:
    """The codes that an option names. Raises InputError."""
    try:
        return {code for text in given for name in text.split(",") if name.strip() for code in named(name.strip())}
    except UnknownCodeError as error:
        raise InputError(f"{option} {error}") from None


def _run(paths: tuple[str, ...], release: Release, codes: set[str], report: Report) -> int:
    """Review the policies and print the findings. The exit code. Raises InputError."""
    files, texts = _read(paths, release)
    # The documents of the policies and bindings once more: what was read of them knows few places.
    origins = [policy.origin.file for policy in files.loaded.policies]
    origins += [binding.origin.file for binding in files.loaded.bindings]
    written = [document for file in dict.fromkeys(origins) for document in policyfiles.parse(texts[file], file)]
    findings = [f for f in review(files.loaded, written, files.release, _bounded) if f.code in codes]
    faulty = {finding.subject for finding in findings}
    for finding in findings:
        report.add(_result(finding))
    for policy in files.loaded.policies:
        name, origin = f"{policy.kind} {policy.name}", policy.origin
        if name not in faulty:
            report.add(Result(origin.file, name, origin.file, origin.line))
    count = f"{len(findings)} finding{'s' * (len(findings) != 1)}" if findings else "nothing found"
    policies = len(files.loaded.policies)
    return report.end([f"{count} in {policies} {'policy' if policies == 1 else 'policies'}"])


def _bounded(policy: Policy) -> AbstractContextManager[None]:
    return bounded(f"{policy.origin.file}:{policy.origin.line}: {policy.kind} {policy.name}", "review")


def _result(finding: LintFinding) -> Result:
    named, file = finding.subject or Path(finding.file).name, finding.file
    found = Finding(
        "warning", finding.code, finding.id, file, finding.line, finding.column, finding.path, finding.message,
        finding.remedy, finding.subject,
    )  # fmt: skip
    place = style(f"{file}:{finding.line}:{finding.column}:", bold=True)
    code = f"{style(finding.code, fg='yellow')} {finding.id}"
    lines = [f"{place} {style('warning', fg='yellow')}: {code}: {finding.path}: {finding.message}"]
    lines += (f"  {line}" for line in finding.excerpt)
    lines += [f"  hint: {finding.remedy}"] if finding.remedy else []
    data = {**found._asdict(), "excerpt": "\n".join(finding.excerpt)}
    return Result(file, named, file, finding.line, (found,), tuple(lines), data)


def _read(paths: tuple[str, ...], release: Release) -> tuple[PolicyFiles, Mapping[str, str]]:
    """The policies in files, and the texts of these by name. Raises InputError."""
    with reading(FileError):
        options.tell_passed_over(paths)
        texts = dict(policyfiles.texts(paths))
        today = datetime.now(UTC).date()
        files = policyfiles.read(texts.items(), today, drafts=True, release=release, within=bounded)
    if not files.loaded.policies:
        raise InputError(f"{', '.join(paths)}: no ValidatingAdmissionPolicy or MutatingAdmissionPolicy found")
    return files, texts


def _type_checking(files: PolicyFiles, form: str) -> int:
    """Print the part of the status of each ValidatingAdmissionPolicy; Kubernetes checks no types of mutating ones.

    The exit code. Raises InputError.
    """
    if form not in ("text", "json", "yaml"):
        raise InputError(f"--type-checking has no findings for -o {form}; print it as text, json or yaml")
    known = catalog((document.value for document in files.loaded.context), files.release)
    statuses: dict[str, dict[str, Any]] = {}  # of policies of one name the last one counts
    for policy in files.loaded.policies:
        if policy.kind == "ValidatingAdmissionPolicy":
            with _bounded(policy):
                entries = warnings(policy, known)
            statuses[policy.name] = {"expressionWarnings": entries} if entries else {}
    write([{"name": name, "typeChecking": s} for name, s in statuses.items()], "yaml" if form == "text" else form)
    return REFUSED if any(statuses.values()) else OK
