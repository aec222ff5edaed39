"""`cks-admission convert`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.document import Path as FieldPath
from policies.conversion.conversion import convert, is_foreign
from policies.conversion.outcome import Conversion
from policies.kubernetes.release import Release
from policies.objects.fieldpath import render
from webhook.cli import exits, options
from webhook.cli.exits import InputError, reading
from webhook.cli.output import to_yaml
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFilesError

_STEP = re.compile(r"[^.\[\]]+")


class _Line(NamedTuple):
    """A line for people. lost: whether it tells of something that has no counterpart."""

    text: str
    lost: bool


@click.command("convert")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True))
@options.kubernetes
def command(paths: tuple[str, ...], policies__kubernetes: str | None) -> None:
    """Turn CEL policies of Kyverno and Gatekeeper into ValidatingAdmissionPolicies with their bindings.

    They are: rules of a ClusterPolicy or Policy with validate.cel, ValidatingPolicies, and ConstraintTemplates with
    K8sNativeValidation together with their constraints. What cannot be turned is told on stderr, with its place.

    Exit codes: 0 if everything was turned, 1 if something is lost, 2 if something cannot be read.

    \b
    Examples:
      cks-admission convert kyverno/ > policies/from-kyverno.yaml
      cks-admission convert template.yaml constraint.yaml > policies/from-gatekeeper.yaml
      cks-admission lint policies/from-kyverno.yaml
    """
    with reading(PolicyFilesError, FileError):
        files = [policyfiles.parse(text, name) for name, text in policyfiles.texts(paths)]
    documents = [part for file in files for document in file for part in _parts(document)]
    if not any(is_foreign(document.value) for document in documents):
        raise InputError(f"{', '.join(paths)}: no policies of Kyverno or Gatekeeper found")
    release = options.release(policies__kubernetes)
    lines, texts = [], []
    for document, conversion in zip(documents, convert([one.value for one in documents]), strict=True):
        problems = dict(_problems(document, conversion, release))
        lines += [*_remarks(document, conversion), *problems.values()]
        # A policy that is not taken goes with its binding, which follows it.
        refused = {index + more for index, _ in problems for more in (0, 1)}
        if kept := [made for index, made in enumerate(conversion.objects) if index not in refused]:
            subject = f"{document.value['kind']} {document.value['metadata'].get('name')}"
            texts.append(f"# {document.name}:{document.line}: {subject}\n" + "---\n".join(map(to_yaml, kept)))
    for line in lines:
        click.echo(line.text, err=True)
    click.echo("---\n".join(texts), nl=False)
    sys.exit(exits.REFUSED if any(line.lost for line in lines) else exits.OK)


def _parts(document: Document) -> Iterator[Document]:
    """The objects of a document, or of a List."""
    value = document.value
    items = value.get("items") if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") else None
    parts = [document.at("items", index) for index in range(len(items))] if isinstance(items, list) else [document]
    yield from (part for part in parts if isinstance(part.value, dict) and isinstance(part.value.get("metadata"), dict))


def _remarks(document: Document, conversion: Conversion) -> Iterator[_Line]:
    for remark in conversion.remarks:
        sort = "lost" if remark.lost else "note"
        yield _Line(_told(document, remark.path, f"{sort}: {render(remark.path)}: {remark.text}"), remark.lost)


def _problems(document: Document, conversion: Conversion, release: Release) -> Iterator[tuple[tuple[int, int], _Line]]:
    """Why Kubernetes would not take what was made, where an expression uses what only others know.

    Each with the position of the policy among the objects, and its own.
    """
    if not conversion.objects:
        return
    try:
        policyfiles.read(
            [(document.name, "---\n".join(map(to_yaml, conversion.objects)))], drafts=True, release=release
        )
    except PolicyFilesError as error:
        starts = _starts(conversion)
        for number, problem in enumerate(error.problems):
            index = max(position for position, start in enumerate(starts) if start <= problem.line)
            path = _origin(conversion, index, problem.path)
            text = f"lost: {render(path)}: Kubernetes does not take it: {problem.message.splitlines()[0]}"
            yield (index, number), _Line(_told(document, path, text), lost=True)


def _starts(conversion: Conversion) -> Sequence[int]:
    """The first line of each object in the text of all."""
    starts = [1]
    for made in conversion.objects:
        starts.append(starts[-1] + to_yaml(made).count("\n") + 1)
    return starts


def _origin(conversion: Conversion, index: int, written: str) -> FieldPath:
    """The place in the document from which the part of an object came."""
    path = tuple(int(step) if step.isdecimal() else step for step in _STEP.findall(written))
    for length in range(len(path), -1, -1):
        if (index, path[:length]) in conversion.origins:
            return (*conversion.origins[index, path[:length]], *path[length:])
    return path


def _told(document: Document, path: FieldPath, text: str) -> str:
    line, column = document.place(path)
    return f"{document.name}:{line}:{column}: {text}"
