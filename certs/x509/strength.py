"""The strength of a certificate's key and signature, by the rules of Go, the strictest client."""

from collections.abc import Mapping
from types import MappingProxyType

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

__all__ = ["key_title", "signature_title", "weakness"]

# The minimum of OpenSSL's security level 2 and of the CA/Browser Forum; Go itself refuses RSA below 1024 bits.
_RSA_BITS = 2048
# The curves of Go's crypto/x509 (https://pkg.go.dev/crypto/elliptic) with at least 128 bits of security: not P-224.
_CURVES: Mapping[str, str] = MappingProxyType({"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"})
# Go has refused them since 1.18 (https://go.dev/doc/go1.18#sha1), so every current API server does.
_BROKEN_HASHES = ("md5", "sha1")


def weakness(certificate: x509.Certificate) -> str | None:
    """Why the certificate is too weak to be accepted everywhere; None if it is not."""
    return _key_weakness(certificate) or _signature_weakness(certificate)


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


def _key_weakness(certificate: x509.Certificate) -> str | None:
    key = certificate.public_key()
    match key:
        case EllipticCurvePublicKey() if key.curve.name in _CURVES:
            return None
        case EllipticCurvePublicKey():
            return f"its key is {key_title(certificate)}; use {', '.join(_CURVES.values())}"
        case RSAPublicKey() if key.key_size >= _RSA_BITS:
            return None
        case RSAPublicKey():
            return f"its key is {key_title(certificate)}; RSA needs {_RSA_BITS} bits or more"
        case Ed25519PublicKey():
            return None
        case _:
            return f"its key is {key_title(certificate)}, which Go's TLS does not accept; use EC, RSA or Ed25519"


def _signature_weakness(certificate: x509.Certificate) -> str | None:
    try:
        algorithm = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return f"its signature algorithm {certificate.signature_algorithm_oid.dotted_string} is unknown"
    if algorithm is not None and algorithm.name in _BROKEN_HASHES:
        return f"it is signed with {algorithm.name.upper()}, which Go refuses; sign it with SHA-256"
    return None
