"""Policy documents from YAML text, read with the place of every value, as from files."""

from __future__ import annotations

from policies.admissionpolicy.documents.document import Document
from webhook.sources import policyfiles


def documents(text: str, name: str = "policy.yaml") -> list[Document]:
    """The documents of a file."""
    return policyfiles.parse(text, name)
