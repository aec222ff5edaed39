"""A leaf with its key, and the certificate authority that issues leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.errors import CertificateError, KeyMismatchError, PairError, PemError
from certs.material import (
    PrivateKey,
    fingerprint,
    load_certificates,
    load_key,
    may_sign,
    moment,
    names_of,
    new_key,
    public_fingerprint,
    subject_names,
    titled,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate chain and its key. Two are equal if their chains are, because a certificate has only one key."""

    chain: tuple[x509.Certificate, ...]
    key: PrivateKey = field(repr=False, compare=False)

    @property
    def certificate(self) -> x509.Certificate:
        """The first certificate of the chain."""
        return self.chain[0]

    @property
    def cert_pem(self) -> bytes:
        """The chain as PEM: what `tls.crt` or `ca.crt` holds."""
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in self.chain)

    @property
    def key_pem(self) -> bytes:
        """The key as PEM, not encrypted: what `tls.key` or `ca.key` holds."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def not_before(self) -> datetime:
        """The first moment at which clients accept it, aware, UTC."""
        return self.certificate.not_valid_before_utc

    @property
    def not_after(self) -> datetime:
        """The last moment at which clients accept it, aware, UTC."""
        return self.certificate.not_valid_after_utc

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, 64 hexadecimal digits."""
        return fingerprint(self.certificate)


class Leaf(Pair):
    """A chain and its key, which can be served: the leaf first, then its intermediates.

    Make one with `load_pair` or `Authority.issue`, which ensure that chain and key belong together.
    """

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS names and IP addresses for which the leaf is valid."""
        return names_of(self.certificate)


def load_pair(cert_pem: bytes, key_pem: bytes) -> Leaf:
    """The leaf with this chain and key. Dates are not checked: an expired pair loads, and renewal decides about it.

    Raises PemError, which names the culprit, if one of the two is not PEM or not of its kind; PairError if there are
    several leaves, or the key is encrypted or of an unusable kind; KeyMismatchError, with both fingerprints, if the key
    belongs to another certificate.
    """
    culprit = "certificate"
    try:
        chain = load_certificates(cert_pem)
        culprit = "key"
        key = load_key(key_pem)
    except PemError as error:
        raise PemError(f"{culprit}: {error}", damaged=error.damaged) from error
    return join_pair(chain, key)


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


AUTHORITY_NAME: Final = "cks-admission CA"
# Renewed at two thirds, on day 242. The old and the new CA overlap for 122 days, 17 times the lifetime of a leaf.
AUTHORITY_LIFETIME: Final = timedelta(days=365)
# cert-manager's choice for its own webhook. Backdated as it is, it is renewed on day 1.75: if a renewal fails on a
# Friday evening, the weekend is left to notice. A stolen key can be used for a week at most.
LEAF_LIFETIME: Final = timedelta(days=7)
# How far a client's clock may be behind ours. Hosts with NTP differ by milliseconds, but a host whose clock is days
# ahead when it makes a CA or a leaf would lock out every caller until those days are over. If it were the whole
# lifetime of a leaf, half of the leaf's life would be over when it is made.
CLOCK_SKEW: Final = LEAF_LIFETIME / 2
# X.520's upper bound ub-common-name, which OpenSSL enforces. Names of Services in a cluster can be longer.
_LONGEST_COMMON_NAME: Final = 64


class Authority(Pair):
    """A CA certificate and its key."""

    __slots__ = ()

    def issue(self, names: Iterable[str], now: datetime, *, lifetime: timedelta = LEAF_LIFETIME) -> Leaf:
        """Make a key and a certificate for a server of these names (DNS or IP), valid for `lifetime` from now.

        Raises InvalidNameError if a name cannot stand in a certificate, or no name is given; CertificateError if the CA
        is not valid now, or would expire before the leaf.
        """
        subjects = subject_names(names)
        title = titled(self.certificate.subject)
        if lifetime <= timedelta():
            raise CertificateError(f"a lifetime of {lifetime} is over before it began; give a positive one")
        if not self.not_before <= now <= self.not_after:
            raise CertificateError(
                f"the CA {title} is valid from {moment(self.not_before)} to {moment(self.not_after)}"
                f" and cannot sign at {moment(now)}; make a new CA"
            )
        if now + lifetime > self.not_after:
            raise CertificateError(
                f"a leaf until {moment(now + lifetime)} would outlive the CA {title},"
                f" which ends on {moment(self.not_after)}; ask for a shorter lifetime or make a new CA"
            )
        try:  # The identifier in the CA's certificate, whoever made it: it distinguishes two CAs with the same name.
            own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
        except x509.ExtensionNotFound:
            identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        key = new_key()
        # It may be cut: only people read it. Clients use the subject alternative names.
        common_name = authority_subject(str(subjects[0].value)[:_LONGEST_COMMON_NAME])
        builder = (
            _builder(common_name, self.certificate.subject, key, now, lifetime, signs=False)
            .not_valid_before(max(now - _backdated(lifetime), self.not_before))
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName(subjects), critical=False)
            .add_extension(identifier, critical=False)
        )
        algorithm = None if isinstance(self.key, Ed25519PrivateKey) else SHA256()
        return Leaf((builder.sign(self.key, algorithm),), key)


def new_authority(now: datetime, *, name: str = AUTHORITY_NAME, lifetime: timedelta = AUTHORITY_LIFETIME) -> Authority:
    """A new self-signed CA that may sign leaves but not further CAs, valid for `lifetime` from now.

    Raises CertificateError if the name is empty or longer than 64 characters, or the lifetime is not positive.
    """
    if not 0 < len(name) <= _LONGEST_COMMON_NAME:
        raise CertificateError(
            f"the CA's name {name!r} has {len(name)} characters; give it 1 to {_LONGEST_COMMON_NAME}"
        )
    if lifetime <= timedelta():
        raise CertificateError(f"a lifetime of {lifetime} is over before it began; give a positive one")
    key = new_key()
    subject = authority_subject(name)
    builder = _builder(subject, subject, key, now, lifetime, signs=True).not_valid_before(now - _backdated(lifetime))
    return Authority((builder.sign(key, SHA256()),), key)


def authority_subject(name: str = AUTHORITY_NAME) -> x509.Name:
    """The subject of a CA with that name, by which a store recognizes its own certificates."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _backdated(lifetime: timedelta) -> timedelta:
    # By half of the lifetime at most: a lifetime of minutes that began days ago would be due for renewal at once.
    return min(CLOCK_SKEW, lifetime / 2)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, now: datetime, lifetime: timedelta, *, signs: bool
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        # In TLS an EC key only signs. Key encipherment is for RSA key exchange, which TLS 1.3 dropped.
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        # 159 random bits: clients refuse a second certificate with the same issuer and serial number.
        .serial_number(x509.random_serial_number())
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
    )
