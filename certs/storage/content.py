"""Classifies stored files: a pair of our own, a damaged one that may be replaced, or a foreign one that may not.

A file is our own if it names our CA, if it is empty or truncated PEM, or if it is a key beside files that name our CA.
Somebody else made any other file, and overwriting it could destroy the only copy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from cryptography import x509

from certs.display import titled
from certs.errors import ForeignFileError, KeyMismatchError, PairError, PemError
from certs.x509.authority import authority_subject
from certs.x509.bundle import Bundle
from certs.x509.certificate import may_sign
from certs.x509.keys import load_key
from certs.x509.leaf import Leaf, join_pair
from certs.x509.pem import load_certificates

__all__ = [
    "BUNDLE",
    "CA_CERT",
    "CA_KEY",
    "LEAF_CERT",
    "LEAF_KEY",
    "NONE",
    "StoredPair",
    "find_authority",
    "find_bundle",
    "find_leaf",
]

CA_CERT: Final = "ca.crt"
CA_KEY: Final = "ca.key"
LEAF_CERT: Final = "tls.crt"
LEAF_KEY: Final = "tls.key"
BUNDLE: Final = "ca-bundle.crt"

# The problem of files that do not exist yet: creating them is not a renewal.
NONE: Final = "there was none"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StoredPair:
    """The contents of a pair of files: a pair, or else a `problem`, the reason to make a new one.

    certificates: those that could be read, with or without their key.
    """

    pair: Leaf | None = None
    problem: str = ""
    certificates: tuple[x509.Certificate, ...] = ()


def find_authority(stored: Mapping[str, bytes]) -> StoredPair:
    """Our CA in `ca.crt` and `ca.key`. Raises ForeignFileError if one of them was not made here."""
    return _find(stored, CA_CERT, CA_KEY, lambda certificate: _is_ours(certificate.subject) and may_sign(certificate))


def find_leaf(stored: Mapping[str, bytes]) -> StoredPair:
    """The leaf in `tls.crt` and `tls.key`, issued by a CA of ours.

    Raises ForeignFileError if one of them was not made here.
    """
    return _find(stored, LEAF_CERT, LEAF_KEY, lambda certificate: _is_ours(certificate.issuer))


def find_bundle(stored: Mapping[str, bytes]) -> tuple[Bundle, str]:
    """The CAs in `ca-bundle.crt`, and what is wrong with the file (empty: nothing). It may contain CAs of others.

    Raises ForeignFileError if the file is not a bundle of certificates.
    """
    if BUNDLE not in stored:
        return Bundle(), NONE
    certificates = _parsed(stored, BUNDLE, load_certificates)
    return (Bundle(), certificates) if isinstance(certificates, str) else (Bundle(certificates), "")


def _find(
    stored: Mapping[str, bytes], cert_name: str, key_name: str, is_own: Callable[[x509.Certificate], bool]
) -> StoredPair:
    if cert_name not in stored and key_name not in stored:
        return StoredPair(problem=NONE)
    chain = _parsed(stored, cert_name, load_certificates)
    if not isinstance(chain, str) and not is_own(chain[0]):
        raise _foreign(cert_name, f"it holds {titled(chain[0].subject)}, issued by {titled(chain[0].issuer)}")
    key = _parsed(stored, key_name, load_key)
    if isinstance(chain, str):
        if cert_name not in stored and not isinstance(key, str) and not _names_us(stored):
            raise _foreign(key_name, f"it holds a private key and there is no {cert_name} to tell whose")
        return StoredPair(problem=chain)
    if isinstance(key, str):
        return StoredPair(problem=key, certificates=chain)
    try:
        return StoredPair(pair=join_pair(chain, key), certificates=chain)
    except KeyMismatchError as error:
        return StoredPair(problem=str(error), certificates=chain)
    except PairError as error:
        raise _foreign(cert_name, str(error)) from error


def _parsed(stored: Mapping[str, bytes], name: str, parse: Callable[[bytes], _T]) -> _T | str:
    """The parsed file, or the reason why it can be replaced."""
    if name not in stored:
        return f"{name} is missing"
    try:
        return parse(stored[name])
    except PemError as error:
        if error.damaged:
            return f"{name} is damaged: {error}"
        raise _foreign(name, str(error)) from error
    except PairError as error:
        raise _foreign(name, str(error)) from error


def _foreign(name: str, reason: str) -> ForeignFileError:
    return ForeignFileError(f"{name}: {reason}; it was not made here")


def _is_ours(name: x509.Name) -> bool:
    return name == authority_subject()


def _names_us(stored: Mapping[str, bytes]) -> bool:
    for name in (CA_CERT, LEAF_CERT, BUNDLE):
        try:
            certificates = load_certificates(stored.get(name, b""))
        except PemError:
            continue
        if any(_is_ours(certificate.issuer) for certificate in certificates):
            return True
    return False
