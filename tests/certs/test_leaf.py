"""Pairs: loaded when they can be served, refused with the cause when they cannot."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from certs.authority import CLOCK_SKEW, LEAF_LIFETIME, Authority, Leaf, load_pair
from certs.errors import KeyMismatchError, PairError, PemError
from certs.material import new_key, public_fingerprint

Forge = Callable[..., tuple[x509.Certificate, Any]]
Pem = Callable[..., bytes]
_CA = x509.BasicConstraints(ca=True, path_length=None)


def test_a_pair_comes_back_from_pem(leaf: Leaf) -> None:
    """What was issued, written and read again is the same leaf."""
    again = load_pair(leaf.cert_pem, leaf.key_pem)

    assert (again, again.cert_pem, again.key_pem) == (leaf, leaf.cert_pem, leaf.key_pem)


def test_a_leaf_tells_its_names_and_dates(leaf: Leaf, now: datetime) -> None:
    """Names, dates and fingerprint are at hand without reading extensions."""
    assert (leaf.names, leaf.not_before, leaf.not_after, len(leaf.fingerprint)) == (
        ("a.example.com", "10.0.0.1"),
        now - CLOCK_SKEW,
        now + LEAF_LIFETIME,
        64,
    )


def test_intermediates_are_kept_in_their_order(forge: Forge, pem: Pem) -> None:
    """A chain of a leaf and two intermediates loads whole, leaf first."""
    root = forge("root", names=[], extensions=[_CA])
    outer = forge("outer", names=[], extensions=[_CA], issuer=root)
    inner = forge("inner", names=[], extensions=[_CA], issuer=outer)
    certificate, key = forge(issuer=inner)

    assert load_pair(pem(certificate, inner[0], outer[0]), pem(key)).chain == (certificate, inner[0], outer[0])


def test_a_self_signed_authority_can_be_a_leaf(forge: Forge, pem: Pem) -> None:
    """What `openssl req -x509` makes, a self-signed certificate that is a CA too, is served if it comes first."""
    certificate, key = forge(extensions=[_CA])

    assert load_pair(pem(certificate), pem(key)).certificate == certificate


def test_an_expired_pair_loads(forge: Forge, pem: Pem, now: datetime) -> None:
    """Dates are for the renewal decision, not for loading."""
    certificate, key = forge(end=now - timedelta(minutes=1))

    assert load_pair(pem(certificate), pem(key)).not_after == now - timedelta(minutes=1)


def test_a_key_of_another_certificate_is_refused(leaf: Leaf, pem: Pem) -> None:
    """The message names the certificate and gives both public keys, so that one can tell which of the two is wrong."""
    other = new_key()

    with pytest.raises(KeyMismatchError) as raised:
        load_pair(leaf.cert_pem, pem(other))

    assert str(raised.value) == (
        "the key does not match the certificate CN=a.example.com:"
        f" SHA-256 of the certificate's public key is {public_fingerprint(leaf.certificate.public_key())},"
        f" of the key's {public_fingerprint(other.public_key())}"
    )


def test_several_leaves_are_refused(forge: Forge, pem: Pem) -> None:
    """Two servers' certificates in one file are an error that names the second."""
    first, key = forge("one.example")
    second, _ = forge("two.example")

    with pytest.raises(PairError) as raised:
        load_pair(pem(first, second), pem(key))

    assert str(raised.value) == "several leaves: after CN=one.example only CAs may follow, not CN=two.example"


def test_a_chain_in_the_wrong_order_is_refused(authority: Authority, leaf: Leaf) -> None:
    """CA first, leaf second: the message says to turn them round, not that the key does not match."""
    with pytest.raises(PairError) as raised:
        load_pair(authority.cert_pem + leaf.cert_pem, leaf.key_pem)

    assert str(raised.value) == ("the key belongs to certificate 2 of 2; the leaf has to be the first of its chain")


def test_swapped_files_are_refused(leaf: Leaf) -> None:
    """Key for certificate and certificate for key is told as what it is."""
    with pytest.raises(PemError) as raised:
        load_pair(leaf.key_pem, leaf.cert_pem)

    assert str(raised.value) == (
        "certificate: block 1 (line 1) is a PRIVATE KEY where only CERTIFICATE blocks belong;"
        " are certificate and key swapped?"
    )


def test_the_damaged_half_is_named(leaf: Leaf) -> None:
    """Of two texts the message says which is not PEM, and whether it was once."""
    with pytest.raises(PemError) as raised:
        load_pair(leaf.cert_pem, b"")

    assert (str(raised.value), raised.value.damaged) == ("key: it is empty", True)


def test_leaves_are_equal_when_their_chains_are(authority: Authority, leaf: Leaf, now: datetime) -> None:
    """Equality asks for the certificates; another leaf for the same names is another leaf."""
    assert leaf == Leaf(leaf.chain, leaf.key)
    assert leaf != authority.issue(leaf.names, now)
