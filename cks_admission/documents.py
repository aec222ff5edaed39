"""Documents in: text of YAML or JSON, or decoded objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cks_admission.errors import DocumentError
from policies.admissionpolicy.documents.document import Document
from policies.lint import review
from policies.lint.finding import LintFinding
from webhook.files.yamlfile import FileError
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles, PolicyFilesError

Documents = Document | Mapping[str, Any] | Iterable[Document | Mapping[str, Any]]
"""One document or several, as `read` returns them or decoded by other means."""


def read(text: str | bytes, name: str = "<text>") -> tuple[Document, ...]:
    """The documents in a text of YAML or JSON, as kubectl reads it; name: of the file, for messages.

    Raises DocumentError.
    """
    try:
        return tuple(policyfiles.parse(text, name))
    except FileError as error:
        raise DocumentError(str(error)) from None


def lint(documents: Documents) -> tuple[LintFinding, ...]:
    """The mistakes in policies that Kubernetes accepts, each with its place and a remedy. Raises DocumentError."""
    given = listed(documents)
    return review.review(files(given).loaded, given)


def files(documents: Documents) -> PolicyFiles:
    """What is in documents. A policy without a binding counts as if one denied. Raises DocumentError."""
    try:
        return policyfiles.of_documents(listed(documents), drafts=True)
    except PolicyFilesError as error:
        raise DocumentError(str(error), error.problems) from None


def listed(documents: Documents) -> list[Document]:
    """The documents one by one. Decoded objects have no places; kind and name stand for the file."""
    given = [documents] if isinstance(documents, Document | Mapping) else documents
    return [
        document
        if isinstance(document, Document)
        else Document(value=document, name=_name(document, number), places=lambda _: (1, 1))
        for number, document in enumerate(given, 1)
    ]


def _name(value: Any, number: int) -> str:
    match value:
        case {"kind": str(kind), "metadata": {"name": str(name)}}:
            return f"{kind} {name}"
        case _:
            return f"document {number}"
