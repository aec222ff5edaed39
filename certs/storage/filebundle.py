"""A bundle of CAs in a file that somebody else changes, read again and again."""

from dataclasses import dataclass
from pathlib import Path

from certs.errors import CertificateError, StoreError
from certs.storage.filepair import Failed, Unchanged
from certs.storage.files import read_present
from certs.x509.bundle import Bundle

__all__ = ["ChangedBundle", "FileBundle"]


@dataclass(frozen=True, slots=True)
class ChangedBundle:
    """The file holds a bundle that is not the last one: at least one certificate, and nothing else."""

    bundle: Bundle


class FileBundle:
    """Watches a file by its content, for the reasons that `FilePair` has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: bytes | None = None

    def poll(self) -> ChangedBundle | Unchanged | Failed:
        """Look once. Never raises because of what is in the file or missing; a bundle counts as seen once it loads."""
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
        """Make the next look take the file for new: what it held could not be put to use."""
        self._last = None
