"""What the tests of `certs` share: a fixed clock, a CA made once, and what is weak."""

from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_key
from support.certificates import NOW

from certs.material import Authority, Leaf, new_authority


@pytest.fixture(scope="session")
def now() -> datetime:
    """The moment of all tests but those of real handshakes."""
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
def sha1_certificate() -> x509.Certificate:
    """A certificate as cryptography itself refuses to sign one: `openssl req -x509 -sha1 -days 36500 ...`."""
    return x509.load_pem_x509_certificate((Path(__file__).parent / "data" / "sha1.pem").read_bytes())


@pytest.fixture(scope="session")
def weak_key() -> RSAPrivateKey:
    """An RSA key that Go, OpenSSL and we refuse, of the least size that can still be made."""
    return generate_rsa_key(65537, 1024)  # noqa: S505 - weak on purpose
