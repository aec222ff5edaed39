"""Certificates that are not as they should be."""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""A moment on the second, since certificates know nothing finer."""


def pem(*things: Any) -> bytes:
    """Write certificates and keys as PEM, one after the other."""
    return b"".join(
        thing.public_bytes(Encoding.PEM)
        if isinstance(thing, x509.Certificate)
        else thing.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        for thing in things
    )


def forge(
    subject: str = "forged.example.com",
    *,
    key: Any = None,
    issuer: tuple[x509.Certificate, Any] | None = None,
    names: Iterable[str] = ("forged.example.com",),
    extensions: Iterable[x509.ExtensionType] = (),
    start: datetime = NOW - timedelta(hours=1),
    end: datetime = NOW + timedelta(days=7),
) -> tuple[x509.Certificate, Any]:
    """Make a certificate of any quality and its key: every part can be given, and nothing is checked."""
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
