"""What the tests of `certs` share: a fixed clock, a CA made once, and certificates that are not as they should be."""

import ipaddress
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from certs.authority import Authority, Leaf, new_authority

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def now() -> datetime:
    """A moment on the second, since certificates know nothing finer."""
    return NOW


@pytest.fixture(scope="session")
def authority() -> Authority:
    """A CA made at `now`."""
    return new_authority(NOW)


@pytest.fixture(scope="session")
def leaf(authority: Authority) -> Leaf:
    """A leaf of that CA for one DNS name and one address, made at `now`."""
    return authority.issue(["a.example.com", "10.0.0.1"], NOW)


@pytest.fixture(scope="session")
def pem() -> Callable[..., bytes]:
    """Write certificates and keys as PEM, one after the other."""

    def write(*things: Any) -> bytes:
        return b"".join(
            thing.public_bytes(Encoding.PEM)
            if isinstance(thing, x509.Certificate)
            else thing.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            for thing in things
        )

    return write


@pytest.fixture(scope="session")
def sha1_certificate() -> x509.Certificate:
    """A certificate as cryptography itself refuses to sign one: `openssl req -x509 -sha1 -days 36500 ...`."""
    return x509.load_pem_x509_certificate((Path(__file__).parent / "data" / "sha1.pem").read_bytes())


@pytest.fixture(scope="session")
def weak_key() -> RSAPrivateKey:
    """An RSA key that Go, OpenSSL and we refuse, of the least size that can still be made."""
    return generate_rsa_key(65537, 1024)  # noqa: S505 - weak on purpose


@pytest.fixture(scope="session")
def forge() -> Callable[..., tuple[x509.Certificate, Any]]:
    """Make a certificate of any quality and its key: every part can be given, and nothing is checked."""
    return _forge


def _forge(
    subject: str = "forged.example.com",
    *,
    key: Any = None,
    issuer: tuple[x509.Certificate, Any] | None = None,
    names: Iterable[str] = ("forged.example.com",),
    extensions: Iterable[x509.ExtensionType] = (),
    start: datetime = NOW - timedelta(hours=1),
    end: datetime = NOW + timedelta(days=7),
) -> tuple[x509.Certificate, Any]:
    key = key or generate_private_key(SECP256R1())
    own_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(own_name)
        .issuer_name(issuer[0].subject if issuer else own_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )
    if general := [_general(name) for name in names]:
        builder = builder.add_extension(x509.SubjectAlternativeName(general), critical=False)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    signer = issuer[1] if issuer else key
    return builder.sign(signer, SHA256() if isinstance(signer, EllipticCurvePrivateKey | RSAPrivateKey) else None), key


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
