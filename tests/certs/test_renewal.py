"""The decision to renew: every reason, every boundary, and any clock."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from certs.authority import AUTHORITY_LIFETIME, CLOCK_SKEW, LEAF_LIFETIME, Authority, Leaf, new_authority
from certs.material import moment
from certs.plan import authority_renewal_due, authority_renewal_reason, leaf_renewal_due, renewal_reason

Forge = Callable[..., tuple[x509.Certificate, Any]]
_NAMES = ("a.example.com", "10.0.0.1")
_SECOND = timedelta(seconds=1)


def test_a_fresh_leaf_is_kept(leaf: Leaf, authority: Authority, now: datetime) -> None:
    """Nothing is renewed without a reason."""
    assert renewal_reason(leaf, now, names=_NAMES, authority=authority) is None


def test_half_of_a_life(leaf: Leaf, authority: Authority) -> None:
    """The leaf is kept until the second before half of its life is over, and renewed from then on."""
    due = leaf_renewal_due(leaf.certificate)

    def decide(when: datetime) -> str | None:
        return renewal_reason(leaf, when, names=_NAMES, authority=authority)

    assert due == leaf.not_before + (leaf.not_after - leaf.not_before) / 2
    assert decide(due - _SECOND) is None
    assert decide(due) == f"half of its life was over on {moment(due)}; it ends on {moment(leaf.not_after)}"
    assert decide(leaf.not_after) == decide(due)
    assert decide(leaf.not_after + _SECOND) == f"it expired on {moment(leaf.not_after)}"


def test_a_clock_that_was_ahead(leaf: Leaf, authority: Authority) -> None:
    """A leaf from the future is renewed: clients do not accept it yet, and the clock that made it was wrong."""
    assert renewal_reason(leaf, leaf.not_before, names=_NAMES, authority=authority) is None
    assert renewal_reason(leaf, leaf.not_before - _SECOND, names=_NAMES, authority=authority) == (
        f"it is not valid before {moment(leaf.not_before)} and it is {moment(leaf.not_before - _SECOND)}:"
        " a clock was set back"
    )


def test_names_that_are_missing(leaf: Leaf, authority: Authority, now: datetime) -> None:
    """A leaf that lacks a name is renewed; the reason has the missing and the present ones."""
    assert renewal_reason(leaf, now, names=("b.example", *_NAMES, "::1"), authority=authority) == (
        "it is not for b.example, ::1, only for a.example.com, 10.0.0.1"
    )


def test_names_beyond_those_wanted(leaf: Leaf, authority: Authority, now: datetime) -> None:
    """A name that is no longer wanted is no reason to renew."""
    assert renewal_reason(leaf, now, names=_NAMES[:1], authority=authority) is None


def test_another_authority(leaf: Leaf, now: datetime) -> None:
    """A leaf of an older CA of the same name is renewed, and the reason tells the current CA by its fingerprint."""
    other = new_authority(now)

    assert renewal_reason(leaf, now, names=_NAMES, authority=other) == (
        "it is signed by another CA than the current one: its issuer is CN=cks-admission CA,"
        f" the current CA CN=cks-admission CA with SHA-256 {other.fingerprint}"
    )


def test_all_reasons_are_told_at_once(
    forge: Forge, authority: Authority, now: datetime, weak_key: rsa.RSAPrivateKey
) -> None:
    """A leaf with everything wrong gives every reason in one line."""
    certificate, key = forge(key=weak_key, start=now - timedelta(days=9), end=now - timedelta(days=1))

    assert renewal_reason(Leaf((certificate,), key), now, names=["a.example"], authority=authority) == (
        "it is not for a.example, only for forged.example.com;"
        " it expired on 2026-02-28 12:00:00 UTC;"
        " it is signed by another CA than the current one: its issuer is CN=forged.example.com,"
        f" the current CA CN=cks-admission CA with SHA-256 {authority.fingerprint};"
        " its key is RSA 1024; RSA needs 2048 bits or more"
    )


def test_an_authority_is_kept_and_renewed(authority: Authority, now: datetime) -> None:
    """The CA lives for two thirds, ends, and is not taken from the future."""
    due, start, end = authority_renewal_due(authority.certificate), now - CLOCK_SKEW, now + AUTHORITY_LIFETIME

    decisions = [
        authority_renewal_reason(authority, when)
        for when in (now, due - _SECOND, due, authority.not_after + _SECOND, start - _SECOND)
    ]

    assert decisions == [
        None,
        None,
        f"two thirds of its life were over on {moment(start + (end - start) * 2 / 3)}; it ends on {moment(end)}",
        f"it expired on {moment(end)}",
        f"it is not valid before {moment(start)} and it is {moment(start - _SECOND)}: a clock was set back",
    ]


def test_an_authority_ends_its_service_before_a_leaf_could_outlive_it(authority: Authority, now: datetime) -> None:
    """With leaves of 300 days, a CA of 365 days is renewed after 65, though two thirds of its life are far off."""
    long = timedelta(days=300)

    assert authority_renewal_reason(authority, now + timedelta(days=65), leaf_lifetime=long) is None
    assert authority_renewal_reason(authority, now + timedelta(days=65, seconds=1), leaf_lifetime=long) == (
        "a leaf issued now would outlive it: it ends on 2027-03-01 12:00:00 UTC"
    )


def test_a_weak_authority_is_renewed(forge: Forge, now: datetime, weak_key: rsa.RSAPrivateKey) -> None:
    """A CA with a key that clients refuse is no CA to go on with."""
    certificate, key = forge("CA", key=weak_key, end=now + timedelta(days=365))

    assert authority_renewal_reason(Authority(certificate, key), now) == (
        "its key is RSA 1024; RSA needs 2048 bits or more"
    )


@given(
    life=st.timedeltas(timedelta(seconds=3), timedelta(days=4000)),
    when=st.timedeltas(timedelta(-9999), timedelta(9999)),
)
def test_what_was_just_issued_is_kept_at_any_time(
    authority: Authority, now: datetime, life: timedelta, when: timedelta
) -> None:
    """Whatever the clock says and however short a life: a leaf is good when it is made, so renewal never spins."""
    moment = now + when
    authority = new_authority(moment, lifetime=life + LEAF_LIFETIME)
    leaf = authority.issue(["a.example"], moment, lifetime=life)

    assert renewal_reason(leaf, moment, names=["a.example"], authority=authority) is None


@pytest.mark.parametrize("days", [-400, -1, 0, 1, 400, 4000])
def test_a_renewed_pair_is_good_after_any_jump(days: int, now: datetime) -> None:
    """Wherever the clock jumps, what is made there needs no renewal there."""
    there = now + timedelta(days=days)
    authority = new_authority(there)

    assert authority_renewal_reason(authority, there) is None
    assert renewal_reason(authority.issue(_NAMES, there), there, names=_NAMES, authority=authority) is None
