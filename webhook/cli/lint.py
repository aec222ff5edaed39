"""`cks-admission lint`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from policies.admissionpolicy.documents.document import Document
from policies.kubernetes.release import Release
from policies.lint.catalog import catalog
from policies.lint.finding import LintFinding
from policies.lint.review import review
from policies.lint.typecheck import warnings
from webhook.cli import exits, options
from webhook.cli.exits import InputError, reading
from webhook.cli.output import write
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles, PolicyFilesError


@click.command("lint")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True))
@click.option(
    "--type-checking", is_flag=True, help="Show only what Kubernetes would write to status.typeChecking of each policy."
)
@options.kubernetes
@options.output
def command(paths: tuple[str, ...], output: str, policies__kubernetes: str | None, *, type_checking: bool) -> None:
    """Find mistakes in admission policies, without running them.

    PATH is a file with policies, or a directory with such files.

    Exit codes: 0 if there are no findings, 1 if there are any, 2 if something cannot be read.

    \b
    Examples:
      cks-admission lint policies/packs
      cks-admission lint policy.yaml crds/ -o json
      cks-admission lint policy.yaml --type-checking
    """
    files = _read(paths, options.release(policies__kubernetes))
    if type_checking:
        status = _type_checking(files)
        write(status, "yaml" if output == "text" else output)
        sys.exit(exits.REFUSED if any(policy["typeChecking"] for policy in status) else exits.OK)
    findings = review(files.loaded, _documents(files), files.release)
    if output == "text":
        for finding in findings:
            click.echo("\n".join(_text(finding)))
        click.echo(_summary(findings, len(files.loaded.policies)))
    else:
        write([{**asdict(finding), "excerpt": "\n".join(finding.excerpt)} for finding in findings], output)
    sys.exit(exits.REFUSED if findings else exits.OK)


def _read(paths: tuple[str, ...], release: Release) -> PolicyFiles:
    with reading(PolicyFilesError):
        files = policyfiles.load(paths, datetime.now(UTC).date(), drafts=True, release=release)
    if not files.loaded.policies:
        raise InputError(f"{', '.join(paths)}: no ValidatingAdmissionPolicy or MutatingAdmissionPolicy found")
    return files


def _documents(files: PolicyFiles) -> Iterator[Document]:
    """The documents of the policies and bindings once more: what was read of them knows few places."""
    loaded = files.loaded
    origins = [policy.origin for policy in loaded.policies] + [binding.origin for binding in loaded.bindings]
    for file in dict.fromkeys(origin.file for origin in origins):
        yield from policyfiles.parse(Path(file).read_text(encoding="utf-8"), file)


def _type_checking(files: PolicyFiles) -> list[dict[str, Any]]:
    """The part of the status of each ValidatingAdmissionPolicy; Kubernetes checks no types of mutating ones."""
    known = catalog((document.value for document in files.loaded.context), files.release)
    statuses: dict[str, dict[str, Any]] = {}  # of policies of one name the last one counts
    for policy in files.loaded.policies:
        if policy.kind == "ValidatingAdmissionPolicy":
            entries = [{"fieldRef": w.field_ref, "warning": w.warning} for w in warnings(policy, known)]
            statuses[policy.name] = {"expressionWarnings": entries} if entries else {}
    return [{"name": name, "typeChecking": status} for name, status in statuses.items()]


def _text(finding: LintFinding) -> Iterator[str]:
    place = click.style(f"{finding.file}:{finding.line}:{finding.column}:", bold=True)
    yield f"{place} {click.style('warning', fg='yellow')}: {finding.id}: {finding.path}: {finding.message}"
    yield from finding.excerpt
    if finding.remedy:
        yield f"hint: {finding.remedy}"


def _summary(findings: tuple[LintFinding, ...], policies: int) -> str:
    looked = f"{policies} {'policy' if policies == 1 else 'policies'}"
    count = f"{len(findings)} finding{'s' * (len(findings) != 1)}" if findings else "nothing found"
    return f"{count} in {looked}"
