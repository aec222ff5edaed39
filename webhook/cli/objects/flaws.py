"""What is wrong with an object as it is written, by the schema of its kind, at the lines of its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from policies.objects.fieldpath import render
from policies.schema.flaw import Flaw, in_line
from policies.schema.schemas import Schemas
from webhook.cli.findings.finding import Finding
from webhook.files.manifest import Manifest

CODE = "schema"
"""The code of all these findings."""


def finder(schemas: Schemas) -> Callable[[Manifest], Iterator[Finding]]:
    """The function that finds the flaws of an object."""
    return lambda written: (_finding(written, flaw) for flaw in schemas.flaws(written.object))


def _finding(written: Manifest, flaw: Flaw) -> Finding:
    line, column = written.places(flaw.path)
    path = render(flaw.path)
    return Finding(flaw.level, CODE, CODE, written.file, line, column, path, flaw.message, flaw.remedy)


def line(finding: Finding) -> str:
    """A finding in a line, with its place."""
    text = in_line(finding.path, finding.message, finding.remedy)
    return f"{finding.file}:{finding.line}:{finding.column}: {text}"
