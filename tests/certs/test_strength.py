"""Weak keys and signatures, by the rules of the strictest client."""

from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from certs.material import key_title, signature_title, weakness

Forge = Callable[..., tuple[x509.Certificate, Any]]


@pytest.mark.parametrize(
    ("key", "title", "weak"),
    [
        pytest.param(ec.generate_private_key(ec.SECP256R1()), "EC P-256", None, id="p256"),
        pytest.param(ec.generate_private_key(ec.SECP384R1()), "EC P-384", None, id="p384"),
        pytest.param(ec.generate_private_key(ec.SECP521R1()), "EC P-521", None, id="p521"),
        pytest.param(ed25519.Ed25519PrivateKey.generate(), "Ed25519", None, id="ed25519"),
        pytest.param(rsa.generate_private_key(65537, 2048), "RSA 2048", None, id="rsa2048"),
        pytest.param(
            ec.generate_private_key(ec.SECP224R1()),
            "EC secp224r1",
            "its key is EC secp224r1; use P-256, P-384, P-521",
            id="p224",
        ),
        pytest.param(
            ec.generate_private_key(ec.SECP256K1()),
            "EC secp256k1",
            "its key is EC secp256k1; use P-256, P-384, P-521",
            id="k256",
        ),
        pytest.param(
            ed448.Ed448PrivateKey.generate(),
            "Ed448",
            "its key is Ed448, which Go's TLS does not accept; use EC, RSA or Ed25519",
            id="ed448",
        ),
    ],
)
def test_keys_are_named_and_judged(key: Any, title: str, weak: str | None, forge: Forge) -> None:
    """Each kind and size of key has a name, and those that some client refuses are weak, with what to use instead."""
    certificate, _ = forge(key=key)

    assert (key_title(certificate), weakness(certificate)) == (title, weak)


def test_an_unknown_signature_is_weak(forge: Forge) -> None:
    """A signature algorithm that nobody knows is told by its OID."""
    certificate, _ = forge()
    # ecdsa-with-SHA256 is 1.2.840.10045.4.3.2; nothing is at 15.
    family = b"\x2a\x86\x48\xce\x3d\x04\x03"
    der = certificate.public_bytes(Encoding.DER).replace(family + b"\x02", family + b"\x0f")
    odd = x509.load_der_x509_certificate(der)

    assert (signature_title(odd), weakness(odd)) == (
        "1.2.840.10045.4.3.15",
        "its signature algorithm 1.2.840.10045.4.3.15 is unknown",
    )


def test_signatures_without_a_hash_have_an_oid(forge: Forge) -> None:
    """Ed25519 signs without a hash of its own; its OID stands in for that."""
    certificate, _ = forge(key=ed25519.Ed25519PrivateKey.generate())

    assert signature_title(certificate) == "1.3.101.112"


def test_short_rsa_keys_are_weak(weak_key: rsa.RSAPrivateKey, forge: Forge) -> None:
    """RSA below 2048 bits is named with its size and refused with the size that it should have."""
    certificate, _ = forge(key=weak_key)

    assert (key_title(certificate), weakness(certificate)) == (
        "RSA 1024",
        "its key is RSA 1024; RSA needs 2048 bits or more",
    )


def test_sha1_is_weak(sha1_certificate: x509.Certificate) -> None:
    """A SHA-1 signature is named and refused, as Go does."""
    assert (signature_title(sha1_certificate), weakness(sha1_certificate)) == (
        "SHA1",
        "it is signed with SHA1, which Go refuses; sign it with SHA-256",
    )
