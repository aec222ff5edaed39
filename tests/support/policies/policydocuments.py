"""Policy documents from YAML text, with the place of every value, as files are read."""

from __future__ import annotations

from policies.admissionpolicy.documents.document import Document
from webhook.sources import policyfiles


def documents(text: str, name: str = "policy.yaml") -> list[Document]:
    """The documents of a file."""
    return policyfiles.parse(text, name)
