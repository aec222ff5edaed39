"""Bundles: old and new CAs overlap, expired ones go, and the bytes depend on the set alone."""

from datetime import datetime, timedelta
from functools import cache

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from certs.authority import Authority, Leaf, new_authority
from certs.errors import PemError
from certs.material import Bundle, fingerprint, merge

_START = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


@cache
def _authorities() -> tuple[x509.Certificate, ...]:
    """CAs whose lives of 20 days begin ten days apart, two at each beginning."""
    return tuple(
        new_authority(_START + timedelta(days=10 * (i // 2)), lifetime=timedelta(days=20)).certificate
        for i in range(12)
    )


_SETS = st.lists(st.integers(0, 11), max_size=16).map(lambda picks: tuple(_authorities()[pick] for pick in picks))
_WHEN = st.integers(-5, 90).map(lambda days: _START + timedelta(days=days))


def test_the_newest_is_first_and_the_expired_are_gone() -> None:
    """A rotation keeps the old CA behind the new one until it has expired."""
    oldest, _, old, _, new, *_ = _authorities()

    assert merge([oldest, old, new], _START + timedelta(days=20)).certificates == (new, old, oldest)
    assert merge([oldest, old, new], _START + timedelta(days=20, seconds=1)).certificates == (new, old)


def test_one_that_is_not_valid_yet_stays() -> None:
    """A CA from the future is kept: the clock that made it may be the right one."""
    future = _authorities()[-1]

    assert merge([future], _START).certificates == (future,)


@given(_SETS, _WHEN)
def test_merging_again_changes_nothing(certificates: tuple[x509.Certificate, ...], when: datetime) -> None:
    """Merging is idempotent."""
    once = merge(certificates, when)

    assert merge(once, when) == once


@given(_SETS, _WHEN)
def test_all_that_live_are_there_once(certificates: tuple[x509.Certificate, ...], when: datetime) -> None:
    """Every unexpired CA is in the bundle exactly once, and no other."""
    merged = merge(certificates, when)

    assert set(merged) == {certificate for certificate in certificates if certificate.not_valid_after_utc >= when}
    assert len(set(merged)) == len(merged)


@given(_SETS.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))), _WHEN)
def test_the_order_given_does_not_matter(
    orders: tuple[tuple[x509.Certificate, ...], list[x509.Certificate]], when: datetime
) -> None:
    """Replicas that learned of the same CAs in different orders write the same bytes."""
    assert merge(orders[0], when).pem == merge(orders[1], when).pem


@given(_SETS, _WHEN)
def test_a_bundle_comes_back_from_pem(certificates: tuple[x509.Certificate, ...], when: datetime) -> None:
    """What is written is read again, order and all; nothing at all cannot be read."""
    merged = merge(certificates, when)

    if merged.certificates:
        assert Bundle.from_pem(merged.pem) == merged
    else:
        with pytest.raises(PemError, match="it is empty"):
            Bundle.from_pem(merged.pem)


def test_comments_and_duplicates_are_read_over(authority: Authority) -> None:
    """A hand-made bundle with comments and a CA twice reads as that CA once."""
    text = b"# our CA\n" + authority.cert_pem + b"\n# again\n" + authority.cert_pem

    assert Bundle.from_pem(text).certificates == (authority.certificate,)


def test_garbage_is_placed(authority: Authority, leaf: Leaf) -> None:
    """Something else than a certificate is an error that says which block it is."""
    lines = len(authority.cert_pem.splitlines())

    with pytest.raises(PemError, match=rf"^block 2 \(line {lines + 1}\) is a PRIVATE KEY where only CERTIFICATE"):
        Bundle.from_pem(authority.cert_pem + leaf.key_pem)


def test_a_bundle_is_a_collection_of_certificates(authority: Authority) -> None:
    """It has a length, members and fingerprints, and an empty one trusts nobody."""
    bundle = Bundle((authority.certificate,))

    assert (len(bundle), authority.certificate in bundle) == (1, True)
    assert tuple(map(fingerprint, bundle)) == (authority.fingerprint,)
    assert (len(Bundle()), authority.certificate in Bundle(), Bundle().pem) == (0, False, b"")
