"""Watches a certificate and a key in two files that somebody else renews."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from certs.errors import CertificateError, StoreError
from certs.storage.files import read_present
from certs.x509.leaf import Leaf, load_pair

__all__ = ["Changed", "Failed", "FilePair", "Unchanged"]


@dataclass(frozen=True, slots=True)
class Changed:
    """The files hold a new pair, and its certificate and key belong together."""

    leaf: Leaf
    cert_pem: bytes = field(repr=False)
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The files are as they were at the last `Changed`."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The files hold no usable pair. The same problem has the same reason each time, so that it is logged once."""

    reason: str


class FilePair:
    """Watches two files by their content.

    Events and modification times are not reliable for a mounted Secret, because the kubelet swaps a symbolic link above
    the files. The two files are read one after the other, so one may be old and the other new. Such a pair fails, and
    the next poll finds both new.
    """

    def __init__(self, cert_path: Path, key_path: Path) -> None:
        self.cert_path = cert_path
        self.key_path = key_path
        self._last: bytes | None = None

    def poll(self) -> Changed | Unchanged | Failed:
        """Read the files once. Missing or invalid files raise nothing. A pair counts as seen once it loads."""
        try:
            cert_pem, key_pem = read_present(self.cert_path), read_present(self.key_path)
        except StoreError as error:
            return Failed(str(error))
        # Each file is hashed separately: the hash of both joined would not show where one ends.
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
        """Make the next poll treat the files as changed, because their pair could not be used."""
        self._last = None
