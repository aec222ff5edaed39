"""The bundle of CAs that clients are told to trust: the current one, and old ones while their leaves may still live."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certs.x509.certificate import fingerprint
from certs.x509.pem import load_certificates

__all__ = ["Bundle", "merge"]


@dataclass(frozen=True, slots=True)
class Bundle:
    """CA certificates in a fixed order, each at most once. Empty is allowed: it trusts nobody.

    The order means nothing to clients. It is there so that replicas which know the same CAs write the same bytes.
    """

    certificates: tuple[x509.Certificate, ...] = ()

    def __iter__(self) -> Iterator[x509.Certificate]:
        return iter(self.certificates)

    def __len__(self) -> int:
        return len(self.certificates)

    def __contains__(self, certificate: object) -> bool:
        return certificate in self.certificates

    @property
    def pem(self) -> bytes:
        """The certificates as PEM: what `ca-bundle.crt` holds and, in base64, a `caBundle`."""
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in self.certificates)

    @classmethod
    def from_pem(cls, text: bytes) -> "Bundle":
        """Read a bundle as it stands, in its own order, expired ones too; only exact duplicates are dropped.

        Raises PemError where the text is empty or has something else than certificates in it; it says which block.
        """
        return cls(tuple(dict.fromkeys(load_certificates(text))))


def merge(certificates: Iterable[x509.Certificate], now: datetime) -> Bundle:
    """Overlap CAs: all that have not expired at `now`, each once, the newest first.

    One that is not valid yet stays: it was made by a clock ahead of this one, and this one may be the wrong one.
    The result depends on the set of certificates alone, not on the order in which they are given.
    """
    alive = {certificate for certificate in certificates if certificate.not_valid_after_utc >= now}
    newest_first = sorted(alive, key=lambda ca: (-ca.not_valid_before_utc.timestamp(), fingerprint(ca)))
    return Bundle(tuple(newest_first))
