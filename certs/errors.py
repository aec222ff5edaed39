"""Everything that this package raises on purpose.

    CertificateError            the one to catch
    ├── InvalidNameError        a name that no certificate can carry
    ├── PemError                text that is not the PEM it should be; `damaged` says whether it was once
    ├── PairError               a certificate and a key that cannot be served together
    │   └── KeyMismatchError    the key belongs to another certificate
    └── StoreError              a file that cannot be read or written
        └── ForeignFileError    a file that was not made here, so it is not overwritten either

Messages are for people: what was found, where, and what to do about it. They never hold key material.
"""


class CertificateError(Exception):
    """Something about a certificate, a key or the place where they are kept is wrong."""


class InvalidNameError(CertificateError):
    """A name is neither a DNS name nor an IP address, or there is no name at all."""


class PemError(CertificateError):
    """Text is not PEM, is cut off, or holds blocks of the wrong kind.

    `damaged` is true for text that starts as PEM does or is empty: it was PEM once, and was cut or changed since.
    It is false for anything else, which somebody else must have put there.
    """

    def __init__(self, message: str, *, damaged: bool = False) -> None:
        super().__init__(message)
        self.damaged = damaged


class PairError(CertificateError):
    """A certificate chain and a private key cannot be served together."""


class KeyMismatchError(PairError):
    """The private key is not the one of the certificate."""


class StoreError(CertificateError):
    """A file of a store cannot be read, written or locked."""


class ForeignFileError(StoreError):
    """A file of a store holds something that was not made here."""
