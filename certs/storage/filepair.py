"""A certificate and a key in two files that somebody else renews, read again and again."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from certs.errors import CertificateError, StoreError
from certs.storage.files import read_present
from certs.x509.leaf import Leaf, load_pair

__all__ = ["Changed", "Failed", "FilePair", "Unchanged"]


@dataclass(frozen=True, slots=True)
class Changed:
    """The files hold a pair that is not the last one, and its two halves belong together."""

    leaf: Leaf
    cert_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The files hold what they held at the last `Changed`."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The files hold nothing that can be served. The same trouble gives the same reason, so that it is logged once."""

    reason: str


class FilePair:
    """Watches two files by their content.

    Content, because a mounted Secret tells nobody: kubelet swaps a symbolic link above the files, so that neither an
    event nor their modification time is to be relied on. The two are read one after the other, so one may be old and
    one new: such a pair fails, and the next look, a moment later, finds both new.
    """

    def __init__(self, cert_path: Path, key_path: Path) -> None:
        self.cert_path = cert_path
        self.key_path = key_path
        self._last: bytes | None = None

    def poll(self) -> Changed | Unchanged | Failed:
        """Look once. Never raises because of what is in the files or missing; a pair counts as seen once it loads."""
        try:
            cert_pem, key_pem = read_present(self.cert_path), read_present(self.key_path)
        except StoreError as error:
            return Failed(str(error))
        # Each hashed by itself: of the two texts joined, two different splits would look the same.
        digest = hashlib.sha256(cert_pem).digest() + hashlib.sha256(key_pem).digest()
        if digest == self._last:
            return Unchanged()
        try:
            leaf = load_pair(cert_pem, key_pem)
        except CertificateError as error:
            return Failed(f"{self.cert_path} and {self.key_path}: {error}")
        self._last = digest
        return Changed(leaf, cert_pem, key_pem)

    def forget(self) -> None:
        """Make the next look take the files for new: what they held could not be put to use."""
        self._last = None
