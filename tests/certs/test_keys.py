"""Private keys: read from what people have, refused with what to do about it."""

from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from certs.authority import Leaf
from certs.errors import PairError, PemError
from certs.material import key_pem, load_key, new_key, public_fingerprint

# What `openssl ecparam -name prime256v1 -genkey` writes before the key.
_EC_PARAMETERS = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(new_key(), id="ec"),
        pytest.param(rsa.generate_private_key(65537, 2048), id="rsa"),
        pytest.param(ed25519.Ed25519PrivateKey.generate(), id="ed25519"),
    ],
)
def test_keys_come_back_as_they_were(key: Any) -> None:
    """Each kind of key that can serve TLS is written and read again."""
    text = key_pem(key)

    assert public_fingerprint(load_key(text).public_key()) == public_fingerprint(key.public_key())


def test_new_keys_are_p256_and_differ() -> None:
    """Every call makes another EC P-256 key."""
    first, second = new_key(), new_key()

    assert isinstance(first, ec.EllipticCurvePrivateKey)
    assert first.curve.name == "secp256r1"
    assert public_fingerprint(first.public_key()) != public_fingerprint(second.public_key())


def test_ec_parameters_before_the_key_are_skipped() -> None:
    """The output of `openssl ecparam -genkey` loads as it is."""
    key = new_key()
    text = _EC_PARAMETERS + key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())

    assert public_fingerprint(load_key(text).public_key()) == public_fingerprint(key.public_key())


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL], ids=["pkcs8", "traditional"])
def test_encrypted_keys_are_refused(form: PrivateFormat) -> None:
    """Both ways of encrypting a key are recognised, and the message says how to decrypt it."""
    text = new_key().private_bytes(Encoding.PEM, form, BestAvailableEncryption(b"secret"))

    with pytest.raises(PairError) as raised:
        load_key(text)

    assert str(raised.value) == (
        "the private key is encrypted, and nobody can type its password here: openssl pkey -in KEY -out PLAIN_KEY"
    )


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        pytest.param(ed448.Ed448PrivateKey.generate(), "Ed448", id="ed448"),
        pytest.param(x25519.X25519PrivateKey.generate(), "X25519", id="x25519"),
    ],
)
def test_kinds_that_cannot_serve_are_refused(key: Any, kind: str, pem: Callable[..., bytes]) -> None:
    """A key that Go or OpenSSL cannot use in TLS is refused, with the kinds that can be."""
    with pytest.raises(PairError) as raised:
        load_key(pem(key))

    assert str(raised.value) == f"the private key is a {kind} key; use EC, RSA or Ed25519"


def test_several_keys_are_refused(pem: Callable[..., bytes]) -> None:
    """Which of two keys is meant cannot be guessed."""
    with pytest.raises(PemError, match="it holds 2 private keys; exactly one belongs there"):
        load_key(pem(new_key(), new_key()))


def test_parameters_alone_are_no_key() -> None:
    """A file with only the curve in it has no key."""
    with pytest.raises(PemError, match="it holds 0 private keys"):
        load_key(_EC_PARAMETERS)


def test_a_certificate_in_place_of_the_key_is_told(leaf: Leaf) -> None:
    """Swapped files are the likely cause, and the message says so."""
    with pytest.raises(PemError) as raised:
        load_key(leaf.cert_pem)

    assert str(raised.value) == (
        "block 1 (line 1) is a CERTIFICATE where only a private key belongs; are certificate and key swapped?"
    )


def test_a_broken_key_is_told_without_its_content(leaf: Leaf) -> None:
    """A key that does not decode is damaged, and nothing of it is in the message."""
    text = leaf.key_pem.replace(leaf.key_pem.splitlines()[1][:8], b"AAAAAAAA")

    with pytest.raises(PemError) as raised:
        load_key(text)

    assert (str(raised.value), raised.value.damaged) == ("block 1 (line 1) does not decode as a private key", True)
