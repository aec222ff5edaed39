"""The cluster's certificate authority. Its client certificates authenticate the user that they name."""

from __future__ import annotations

import base64
import ipaddress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_VALIDITY = timedelta(days=30)
_SKEW = timedelta(minutes=5)


class Authority:
    """A CA in a folder: `ca.crt` there, serving pairs and kubeconfigs beside it on demand."""

    def __init__(self, directory: Path) -> None:
        """Make the CA; nothing of it outlives the folder."""
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cks-admission test cluster")])
        self._certificate = self._sign(
            self._name,
            self._key.public_key(),
            [(x509.BasicConstraints(ca=True, path_length=0), True), (_usage(ca=True), True)],
        )
        self.ca_file = directory / "ca.crt"
        self.ca_file.write_bytes(_pem(self._certificate))

    def serving(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate and its key with which a component serves on 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = self._leaf(name, [], key, ExtendedKeyUsageOID.SERVER_AUTH, names)
        return self._write(f"{name}.crt", _pem(certificate)), self._write(f"{name}.key", _private(key))

    def signing_pair(self, name: str) -> tuple[Path, Path]:
        """Return the files of a private key and its public half, for service account tokens."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return self._write(f"{name}.key", _private(key)), self._write(f"{name}.pub", public)

    def certificate_kubeconfig(self, path: Path, server: str, user: str, groups: Sequence[str]) -> Path:
        """Write a kubeconfig whose certificate says who its owner is. Raises ValueError for a user over 64 bytes."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._leaf(user, groups, key, ExtendedKeyUsageOID.CLIENT_AUTH, [])
        credentials = {
            "client-certificate-data": base64.b64encode(_pem(certificate)).decode(),
            "client-key-data": base64.b64encode(_private(key)).decode(),
        }
        return self.kubeconfig(path, server, user, credentials)

    def kubeconfig(self, path: Path, server: str, user: str, credentials: dict[str, str]) -> Path:
        """Write a kubeconfig for one user of the one cluster."""
        ca = base64.b64encode(self.ca_file.read_bytes()).decode()
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": ca}}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return path

    def _leaf(
        self,
        user: str,
        groups: Sequence[str],
        key: ec.EllipticCurvePrivateKey,
        usage: x509.ObjectIdentifier,
        names: Sequence[x509.GeneralName],
    ) -> x509.Certificate:
        """Sign what Kubernetes reads: the common name is the user, each organization a group."""
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (_usage(ca=False), True),
            (x509.ExtendedKeyUsage([usage]), False),
        ]
        if names:
            extensions.append((x509.SubjectAlternativeName(names), False))
        return self._sign(subject, key.public_key(), extensions)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, extensions: Sequence[tuple[x509.ExtensionType, bool]]
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - _SKEW,
            not_valid_after=now + _VALIDITY,
        )
        identifiers: list[tuple[x509.ExtensionType, bool]] = [  # Python 3.13 and later refuse certificates without
            (x509.SubjectKeyIdentifier.from_public_key(key), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
        ]
        for extension, critical in [*extensions, *identifiers]:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, content: bytes) -> Path:
        path = self._directory / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path


def signing_request(name: str) -> str:
    """Return a certificate signing request for a user, as a CertificateSigningRequest holds it."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
