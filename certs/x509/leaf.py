"""A leaf: the certificate that a server presents, its intermediates, and the private key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certs.display import titled
from certs.errors import KeyMismatchError, PairError, PemError
from certs.x509.certificate import Certified, may_sign
from certs.x509.keys import PrivateKey, key_pem, load_key, public_fingerprint
from certs.x509.names import names_of
from certs.x509.pem import load_certificates

__all__ = ["Leaf", "join_pair", "load_pair"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Leaf(Certified):
    """A certificate chain and its key, which can be served. `chain` has the leaf first, then its intermediates.

    Make one with `load_pair` or `Authority.issue`, which ensure that chain and key belong together. Two leaves are
    equal if their chains are, because a certificate has only one key.
    """

    chain: tuple[x509.Certificate, ...]
    key: PrivateKey = field(repr=False, compare=False)

    @property
    def certificate(self) -> x509.Certificate:
        """The leaf itself."""
        return self.chain[0]

    @property
    def cert_pem(self) -> bytes:
        """The chain as PEM, leaf first: what `tls.crt` holds."""
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in self.chain)

    @property
    def key_pem(self) -> bytes:
        """The key as PEM, not encrypted: what `tls.key` holds."""
        return key_pem(self.key)

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS names and IP addresses for which the leaf is valid."""
        return names_of(self.certificate)

    @property
    def not_before(self) -> datetime:
        """The first moment at which clients accept it, aware, UTC."""
        return self.certificate.not_valid_before_utc


def load_pair(cert_pem: bytes, key_pem: bytes) -> Leaf:
    """The leaf with this chain and key. Dates are not checked: an expired pair loads, and renewal decides about it.

    Raises PemError, which names the culprit, if one of the two is not PEM or not of its kind; PairError if there are
    several leaves, or the key is encrypted or of an unusable kind; KeyMismatchError, with both fingerprints, if the key
    belongs to another certificate.
    """
    chain = _named("certificate", load_certificates, cert_pem)
    return join_pair(chain, _named("key", load_key, key_pem))


def join_pair(chain: Sequence[x509.Certificate], key: PrivateKey) -> Leaf:
    """The leaf with this chain of at least one certificate and this key.

    Raises PairError if there are several leaves; KeyMismatchError, with both fingerprints, if the key belongs to
    another certificate.
    """
    of_key = public_fingerprint(key.public_key())
    of_chain = [public_fingerprint(certificate.public_key()) for certificate in chain]
    if of_key in of_chain[1:] and of_chain[0] != of_key:
        place = of_chain.index(of_key) + 1
        raise PairError(
            f"the key belongs to certificate {place} of {len(chain)}; the leaf has to be the first of its chain"
        )
    # The first certificate is the leaf even if it claims to be a CA: `openssl req -x509` makes such ones by default.
    others = [titled(certificate.subject) for certificate in chain[1:] if not may_sign(certificate)]
    if others:
        raise PairError(
            f"several leaves: after {titled(chain[0].subject)} only CAs may follow, not {'; '.join(others)}"
        )
    if of_chain[0] != of_key:
        raise KeyMismatchError(
            f"the key does not match the certificate {titled(chain[0].subject)}:"
            f" SHA-256 of the certificate's public key is {of_chain[0]}, of the key's {of_key}"
        )
    return Leaf(tuple(chain), key)


def _named(what: str, load: Callable[[bytes], _T], text: bytes) -> _T:
    try:
        return load(text)
    except PemError as error:
        raise PemError(f"{what}: {error}", damaged=error.damaged) from error
