"""What is wrong with an object as it is written, by the schema of its kind, at the lines of its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date

from policies.admissionpolicy.documents import exception, reader
from policies.admissionpolicy.documents.document import Document
from policies.objects.fieldpath import render
from policies.schema.flaw import Flaw, in_line
from policies.schema.schemas import Schemas
from webhook.cli.findings.finding import Finding
from webhook.files.manifest import Manifest

CODE = "schema"
"""The code of all these findings."""


def finder(schemas: Schemas, today: date) -> Callable[[Manifest], Iterator[Finding]]:
    """The function that finds the flaws of an object. today: for exceptions that have ended, or soon will."""

    def flaws(written: Manifest) -> Iterator[Finding]:
        group = str(written.object["apiVersion"]).rpartition("/")[0]
        if exception.is_meant(group, str(written.object["kind"])):
            return _of_exception(written, today)
        return (_finding(written, flaw) for flaw in schemas.flaws(written.object))

    return flaws


def _finding(written: Manifest, flaw: Flaw) -> Finding:
    line, column = written.places(flaw.path)
    path = render(flaw.path)
    return Finding(flaw.level, CODE, CODE, written.file, line, column, path, flaw.message, flaw.remedy)


def _of_exception(written: Manifest, today: date) -> Iterator[Finding]:
    """The flaws of an exception, a kind of our own that no API server has: what the service itself would say of it."""
    document = Document(value=written.object, name=written.file, places=written.places)
    for found in reader.read([document], today).problems:
        yield Finding(
            found.severity, CODE, CODE, found.file, found.line, found.column, found.path, found.message, found.hint
        )


def line(finding: Finding) -> str:
    """A finding in a line, with its place."""
    text = in_line(finding.path, finding.message, finding.remedy)
    return f"{finding.file}:{finding.line}:{finding.column}: {text}"
