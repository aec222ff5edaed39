"""Watches a file with a bundle of CAs that somebody else changes."""

from dataclasses import dataclass
from pathlib import Path

from certs.errors import CertificateError, StoreError
from certs.storage.filepair import Failed, Unchanged
from certs.storage.files import read_present
from certs.x509.bundle import Bundle

__all__ = ["ChangedBundle", "FileBundle"]


@dataclass(frozen=True, slots=True)
class ChangedBundle:
    """The file holds a new bundle: at least one certificate, and nothing else."""

    bundle: Bundle


class FileBundle:
    """Watches a file by its content, for the same reasons as `FilePair`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: bytes | None = None

    def poll(self) -> ChangedBundle | Unchanged | Failed:
        """Read the file once. A missing or invalid file raises nothing. A bundle counts as seen once it loads."""
        try:
            content = read_present(self.path)
        except StoreError as error:
            return Failed(str(error))
        if content == self._last:
            return Unchanged()
        try:
            bundle = Bundle.from_pem(content)
        except CertificateError as error:
            return Failed(f"{self.path}: {error}")
        self._last = content
        return ChangedBundle(bundle)

    def forget(self) -> None:
        """Make the next poll treat the file as changed, because its bundle could not be used."""
        self._last = None
