"""Private keys: generated, read from PEM, written, and compared with the public key of a certificate."""

import hashlib

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from certs.errors import PairError, PemError
from certs.x509.pem import blocks

__all__ = ["PrivateKey", "key_pem", "load_key", "new_key", "public_fingerprint"]

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
    key_blocks = [block for block in blocks(text) if block.label != "EC PARAMETERS"]
    for block in key_blocks:
        if not block.label.endswith("PRIVATE KEY"):
            raise PemError(
                f"{block.place} is a {block.label} where only a private key belongs"
                + ("; are certificate and key swapped?" if block.label == "CERTIFICATE" else "")
            )
    if len(key_blocks) != 1:
        raise PemError(f"it holds {len(key_blocks)} private keys; exactly one belongs there")
    if key_blocks[0].label == "ENCRYPTED PRIVATE KEY" or b"Proc-Type: 4,ENCRYPTED" in key_blocks[0].text:
        raise PairError(
            "the private key is encrypted, and nobody can type its password here: openssl pkey -in KEY -out PLAIN_KEY"
        )
    try:
        key = load_pem_private_key(key_blocks[0].text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # Without the library's message, which is long and about a secret.
        raise PemError(f"{key_blocks[0].place} does not decode as a private key", damaged=True) from error
    if not isinstance(key, PrivateKey):
        raise PairError(
            f"the private key is a {type(key).__name__.removesuffix('PrivateKey')} key; use EC, RSA or Ed25519"
        )
    return key


def key_pem(key: PrivateKey) -> bytes:
    """The key as one unencrypted PKCS #8 block."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_fingerprint(key: PublicKeyTypes) -> str:
    """SHA-256 of a key's SubjectPublicKeyInfo, 64 hexadecimal digits.

    The same as `openssl x509 -in CERT -noout -pubkey | openssl pkey -pubin -outform der | sha256sum`.
    """
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
