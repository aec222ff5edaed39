"""A CA and a leaf of the service's own in a directory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import structlog

from certs.authority import Authority
from certs.bundle import Bundle
from certs.leaf import Leaf
from certs.store import DirectoryStore, ensure


class OwnDirectory:
    """What the directory holds, as of the last look; see `webhook.tls.certificates.Own`."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.authority: Authority | None = None
        self.leaf: Leaf | None = None
        self.bundle = Bundle()
        self._store = DirectoryStore(path)
        self._names = names
        self._log = structlog.get_logger()

    def look(self, now: datetime) -> None:
        """Make and renew what is due. Raises CertificateError."""
        ensured = ensure(self._store, self._names, now)
        self.authority, self.leaf, self.bundle = ensured.authority, ensured.leaf, ensured.bundle
        for reason in ensured.reasons:
            self._log.info("certificate", reason=reason)

    async def save(self, now: datetime) -> None:
        """Nothing: what is due is stored at each look."""

    def lacking(self) -> str:
        """Nothing: where there is no CA, one is made."""
        return ""
