"""The bundle of CAs that clients should trust: the current one, and old ones while their leaves may be valid."""

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
    """CA certificates in a fixed order, each at most once. An empty bundle is allowed and trusts nobody.

    The order means nothing to clients. Because of it, replicas that know the same CAs write the same bytes.
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
        """The bundle in PEM text: all its certificates in the same order, expired ones included, without duplicates.

        Raises PemError, which names the block, if the text is empty or contains anything but certificates.
        """
        return cls(tuple(dict.fromkeys(load_certificates(text))))


def merge(certificates: Iterable[x509.Certificate], now: datetime) -> Bundle:
    """The bundle of all CAs that have not expired at `now`, the newest first.

    A CA that is not valid yet stays: the clock of its maker is ahead of this one, and either of them may be wrong. The
    order of the argument does not matter.
    """
    alive = {certificate for certificate in certificates if certificate.not_valid_after_utc >= now}
    newest_first = sorted(alive, key=lambda ca: (-ca.not_valid_before_utc.timestamp(), fingerprint(ca)))
    return Bundle(tuple(newest_first))
