"""Certificates, private keys and bundles: read from PEM, judged, named in messages; a CA, and what it issues."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.errors import CertificateError, InvalidNameError, KeyMismatchError, PairError, PemError


def moment(when: datetime) -> str:
    """An instant, to the second, always in UTC: `2026-03-01 12:00:00 UTC`."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(length: timedelta) -> str:
    """A length of time in its largest useful unit: `9 days`, `30 hours`, `12 minutes`."""
    seconds = int(abs(length).total_seconds())
    # At least two of a unit: "1 day" for 47 hours would hide half of the time that is left.
    for unit, size in (("day", 86_400), ("hour", 3_600)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}s"
    minutes = seconds // 60
    return f"{minutes} minute" if minutes == 1 else f"{minutes} minutes"


def titled(name: x509.Name) -> str:
    """A subject or issuer as one line, `CN=cks-admission CA`; `(no name)` when it is empty."""
    return name.rfc4514_string() or "(no name)"


def listed(items: tuple[str, ...]) -> str:
    """Several things in one sentence, in the order given; `nothing` when there are none."""
    return ", ".join(items) or "nothing"


_BEGIN = b"-----BEGIN "
_EDGE = re.compile(rb"^[ \t]*-----(BEGIN|END) ([A-Z0-9 ]+)-----[ \t\r]*$", re.MULTILINE)


class PemBlock(NamedTuple):
    """One block: its kind (`CERTIFICATE`, `EC PRIVATE KEY`, ...), its text, and its place: `block 2 (line 31)`."""

    label: str
    text: bytes
    place: str


def blocks(text: bytes) -> tuple[PemBlock, ...]:
    """The blocks of PEM text, at least one.

    Text between the blocks is skipped, as in RFC 7468 section 2: CA bundles have comments there. Indentation is
    allowed, because PEM that was pasted into YAML often keeps it.

    Raises PemError if there is no block, or one without an end or a beginning.
    """
    found: list[PemBlock] = []
    opened: re.Match[bytes] | None = None
    for edge in _EDGE.finditer(text):
        label, line = edge[2].decode("ascii"), text.count(b"\n", 0, edge.start(1)) + 1
        if edge[1] == b"BEGIN":
            if opened is not None:
                break
            opened, place = edge, f"block {len(found) + 1} (line {line})"
        elif opened is None:
            cut = "the text was cut off at its start"
            raise PemError(f"line {line} ends a {label} that never began: {cut}", damaged=True)
        elif opened[2] != edge[2]:
            break
        else:
            lines = text[opened.start() : edge.end()].splitlines()
            found.append(PemBlock(label, b"\n".join([*map(bytes.strip, lines), b""]), place))
            opened = None
    if opened is not None:
        begun = f"{place} begins a {opened[2].decode('ascii')}"
        raise PemError(f"{begun} and has no END line: it was cut off", damaged=True)
    if found:
        return tuple(found)
    start = text.strip(b"\0 \t\r\n")  # After a power failure a file may contain zeros instead of its text.
    if not start:
        raise PemError("it is empty", damaged=True)
    if _BEGIN.startswith(start[: len(_BEGIN)]):
        raise PemError("it is cut off within its first line", damaged=True)
    if start.startswith(b"\x30"):  # An ASN.1 SEQUENCE, with which every DER certificate and key begins.
        raise PemError(
            "it is binary (DER?), not PEM; convert it: openssl x509 -inform der, or openssl pkey -inform der"
        )
    raise PemError("it has no PEM block (no line like -----BEGIN CERTIFICATE-----)")


def load_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in PEM text, at least one, in the order of the text.

    Raises PemError as `blocks` does, and if a block is of another kind or does not decode; it names the block.
    """
    certificates = []
    for label, content, place in blocks(text):
        if label != "CERTIFICATE":
            swapped = "; are certificate and key swapped?" if label.endswith("PRIVATE KEY") else ""
            raise PemError(f"{place} is a {label} where only CERTIFICATE blocks belong{swapped}")
        try:
            certificate = x509.load_pem_x509_certificate(content)
            # These are decoded lazily. A broken extension or key must be reported here, not in a later decision.
            _ = certificate.extensions
            certificate.public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise PemError(f"{place} does not decode as a certificate: {error}", damaged=True) from error
        certificates.append(certificate)
    return tuple(certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate's DER form, 64 hexadecimal digits, as `sha256sum` prints them."""
    return certificate.fingerprint(SHA256()).hex()


def may_sign(certificate: x509.Certificate) -> bool:
    """Whether clients accept certificates that it signed: it is a CA, and its key usage, if stated, allows it."""
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound as absent:
        return absent.oid == x509.KeyUsage.oid


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether `authority` signed `certificate`: the names fit and the signature verifies."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):  # A different name, kind of key, or key.
        return False
    return True


# The kinds of key that both OpenSSL and Go's crypto/tls can use. Go lacks Ed448 and DSA; X25519 cannot sign.
PrivateKey = EllipticCurvePrivateKey | RSAPrivateKey | Ed25519PrivateKey


def new_key() -> PrivateKey:
    """A new EC P-256 key: every TLS client supports it, and it signs in a tenth of the time of RSA 2048."""
    return generate_private_key(SECP256R1())


def load_key(text: bytes) -> PrivateKey:
    """The only private key in PEM text.

    An `EC PARAMETERS` block is skipped, because `openssl ecparam -genkey` writes one.

    Raises PemError if the text is not PEM, has no key or several, or the key does not decode; PairError if the key is
    encrypted, or of a kind that TLS servers cannot use.
    """
    keys = [block for block in blocks(text) if block.label != "EC PARAMETERS"]
    for block in keys:
        if not block.label.endswith("PRIVATE KEY"):
            swapped = "; are certificate and key swapped?" if block.label == "CERTIFICATE" else ""
            raise PemError(f"{block.place} is a {block.label} where only a private key belongs{swapped}")
    if len(keys) != 1:
        raise PemError(f"it holds {len(keys)} private keys; exactly one belongs there")
    label, content, place = keys[0]
    if label == "ENCRYPTED PRIVATE KEY" or b"Proc-Type: 4,ENCRYPTED" in content:
        raise PairError(
            "the private key is encrypted, and nobody can type its password here: openssl pkey -in KEY -out PLAIN_KEY"
        )
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # Without the library's message, which is long and about a secret.
        raise PemError(f"{place} does not decode as a private key", damaged=True) from error
    if not isinstance(key, PrivateKey):
        kind = type(key).__name__.removesuffix("PrivateKey")
        raise PairError(f"the private key is a {kind} key; use EC, RSA or Ed25519")
    return key


def public_fingerprint(key: PublicKeyTypes) -> str:
    """SHA-256 of a key's SubjectPublicKeyInfo, 64 hexadecimal digits.

    The same as `openssl x509 -in CERT -noout -pubkey | openssl pkey -pubin -outform der | sha256sum`.
    """
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


class Bundle(tuple[x509.Certificate, ...]):
    """CA certificates in a fixed order, each at most once. An empty bundle is allowed and trusts nobody.

    The order means nothing to clients. Because of it, replicas that know the same CAs write the same bytes.
    """

    __slots__ = ()

    @property
    def pem(self) -> bytes:
        """The certificates as PEM: what `ca-bundle.crt` holds and, in base64, a `caBundle`."""
        return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in self)

    @classmethod
    def from_pem(cls, text: bytes) -> Bundle:
        """The bundle in PEM text: all its certificates in the same order, expired ones included, without duplicates.

        Raises PemError, which names the block, if the text is empty or contains anything but certificates.
        """
        return cls(dict.fromkeys(load_certificates(text)))


def merge(certificates: Iterable[x509.Certificate], now: datetime) -> Bundle:
    """The bundle of all CAs that have not expired at `now`, the newest first.

    A CA that is not valid yet stays: the clock of its maker is ahead of this one, and either of them may be wrong. The
    order of the argument does not matter.
    """
    alive = {certificate for certificate in certificates if certificate.not_valid_after_utc >= now}
    return Bundle(sorted(alive, key=lambda ca: (-ca.not_valid_before_utc.timestamp(), fingerprint(ca))))


# RFC 1035 section 2.3.4, less the root's byte and a length byte.
_LONGEST: Final = 253
# RFC 1123 section 2.1: at most 63 letters, digits and inner hyphens. Go and Kubernetes have the same rule.
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def subject_names(names: Iterable[str]) -> tuple[x509.GeneralName, ...]:
    """The subject alternative names for strings, in the given order, without duplicates.

    `10.0.0.1` and `::1` become IP addresses, anything else a DNS name in lower case. `*.example.com` is allowed.

    Raises InvalidNameError if there is no name, or some are invalid; it lists each of these with its problem.
    """
    if isinstance(names, str):  # A string is an iterable, too: each letter would become a name.
        raise InvalidNameError(f"names is the string {names!r}; give a list of names")
    canonical = dict.fromkeys(_canonical(name) for name in names)
    if not canonical:
        raise InvalidNameError("no names: a certificate needs at least one DNS name or IP address")
    bad = [f"{name!r} {problem}" for name in canonical if (problem := next(_problems(name), None))]
    if bad:
        raise InvalidNameError(f"not a DNS name or IP address: {'; '.join(bad)}")
    return tuple(x509.IPAddress(address) if (address := _address(name)) else x509.DNSName(name) for name in canonical)


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and IP addresses among the subject alternative names, in their order."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in extension.value if isinstance(name, x509.DNSName | x509.IPAddress))


def covers(present: Iterable[str], name: str) -> bool:
    """Whether a certificate for the names `present` is valid for `name`.

    A wildcard stands for exactly one label, the first, and never for an IP address (RFC 6125 section 6.4.3).
    """
    canonical = _canonical(name)
    candidates = {_canonical(candidate) for candidate in present}
    if canonical in candidates:
        return True
    first, _, rest = canonical.partition(".")
    return first != "" and _address(canonical) is None and f"*.{rest}" in candidates


def _canonical(name: str) -> str:
    address = _address(name)
    return str(address) if address is not None else name.lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _problems(name: str) -> Iterator[str]:
    if (address := _address(name)) is not None:
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
            yield "has a zone, which means something on one host only; leave it out"
        return
    if not name:
        yield "is empty"
    if not name.isascii():
        yield "is not ASCII; write it as Punycode (xn--...)"
    if len(name) > _LONGEST:
        yield f"has {len(name)} characters, {_LONGEST} at most"
    if ":" in name or "/" in name:
        yield "has a port, a scheme, a prefix length or brackets; give the bare host"
    labels = name.removeprefix("*.").split(".")
    for label in labels:
        if _LABEL.fullmatch(label) is None:
            yield f"has the label {label!r}; a label is 1 to 63 letters, digits and inner hyphens"
    if labels[-1].isdigit():  # No top-level domain is a number, so this is probably a mistyped IPv4 address.
        yield "ends in a number, but is no IPv4 address"


# The minimum of OpenSSL's security level 2 and of the CA/Browser Forum; Go itself refuses RSA below 1024 bits.
_RSA_BITS = 2048
# The curves of Go's crypto/x509 (https://pkg.go.dev/crypto/elliptic) with at least 128 bits of security: not P-224.
_CURVES: Mapping[str, str] = MappingProxyType({"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"})
# Go has refused them since 1.18 (https://go.dev/doc/go1.18#sha1), so every current API server does.
_BROKEN_HASHES = ("md5", "sha1")


def weakness(certificate: x509.Certificate) -> str | None:
    """Why the certificate is too weak to be accepted everywhere; None if it is not."""
    match certificate.public_key():
        case EllipticCurvePublicKey() as key:
            remedy = "" if key.curve.name in _CURVES else f"; use {', '.join(_CURVES.values())}"
        case RSAPublicKey() as key:
            remedy = "" if key.key_size >= _RSA_BITS else f"; RSA needs {_RSA_BITS} bits or more"
        case Ed25519PublicKey():
            remedy = ""
        case _:
            remedy = ", which Go's TLS does not accept; use EC, RSA or Ed25519"
    if remedy:
        return f"its key is {key_title(certificate)}{remedy}"
    try:
        algorithm = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return f"its signature algorithm {certificate.signature_algorithm_oid.dotted_string} is unknown"
    if algorithm is not None and algorithm.name in _BROKEN_HASHES:
        return f"it is signed with {algorithm.name.upper()}, which Go refuses; sign it with SHA-256"
    return None


def key_title(certificate: x509.Certificate) -> str:
    """The kind and size of the certificate's public key: `EC P-256`, `RSA 2048`, `Ed25519`."""
    key = certificate.public_key()
    match key:
        case EllipticCurvePublicKey():
            return f"EC {_CURVES.get(key.curve.name, key.curve.name)}"
        case RSAPublicKey():
            return f"RSA {key.key_size}"
        case _:
            return type(key).__name__.removeprefix("_").removesuffix("PublicKey")


def signature_title(certificate: x509.Certificate) -> str:
    """The hash of the signature, such as `SHA256`; the algorithm's OID if it has none, as with Ed25519."""
    try:
        algorithm = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        algorithm = None
    return algorithm.name.upper() if algorithm is not None else certificate.signature_algorithm_oid.dotted_string


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
