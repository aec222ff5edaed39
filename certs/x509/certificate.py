"""Properties of one certificate: its fingerprint, whether it may sign others, and who signed it."""

from datetime import datetime
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["Certified", "fingerprint", "issued_by", "may_sign", "path_length"]


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate's DER form, 64 hexadecimal digits, as `sha256sum` prints them."""
    return certificate.fingerprint(SHA256()).hex()


class Certified:
    """The base class of a CA and of a leaf."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def certificate(self) -> x509.Certificate:
            """The certificate."""

    @property
    def not_after(self) -> datetime:
        """The last moment at which clients accept it, aware, UTC."""
        return self.certificate.not_valid_after_utc

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, 64 hexadecimal digits."""
        return fingerprint(self.certificate)


def may_sign(certificate: x509.Certificate) -> bool:
    """Whether clients accept certificates that it signed: it is a CA, and its key usage, if stated, allows it."""
    try:
        if not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        return certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    except x509.ExtensionNotFound as absent:
        return absent.oid == x509.KeyUsage.oid


def path_length(authority: x509.Certificate) -> int | None:
    """How many CAs may stand between this one, for which `may_sign` holds, and a leaf; None without a limit."""
    return authority.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether `authority` signed `certificate`: the names fit and the signature verifies."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):  # A different name, kind of key, or key.
        return False
    return True
