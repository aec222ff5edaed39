"""CAs and leaves: what is in them, and when they are renewed."""

from __future__ import annotations

from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st
from support.certificates import forge, pem

from certs.errors import CertificateError, KeyMismatchError, PairError, PemError
from certs.material import (
    AUTHORITY_LIFETIME,
    CLOCK_SKEW,
    LEAF_LIFETIME,
    Authority,
    Leaf,
    issued_by,
    load_pair,
    moment,
    new_authority,
    new_key,
    public_fingerprint,
)
from certs.plan import authority_renewal_due, authority_renewal_reason, leaf_renewal_due, renewal_reason

_CA = x509.BasicConstraints(ca=True, path_length=None)


def _extensions(certificate: x509.Certificate) -> dict[str, tuple[bool, Any]]:
    return {type(entry.value).__name__: (entry.critical, entry.value) for entry in certificate.extensions}


def _usage(*set_bits: str) -> x509.KeyUsage:
    bits = [
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    ]
    return x509.KeyUsage(**{bit: bit in set_bits for bit in bits})


def test_the_authority_has_what_clients_want_of_a_root(authority: Authority) -> None:
    """A CA states, critically, that it is one, with none below it, and that it signs; and it identifies its key."""
    certificate = authority.certificate

    assert _extensions(certificate) == {
        "BasicConstraints": (True, x509.BasicConstraints(ca=True, path_length=0)),
        "KeyUsage": (True, _usage("key_cert_sign", "crl_sign")),
        "SubjectKeyIdentifier": (False, x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())),
    }
    assert certificate.subject == certificate.issuer
    assert certificate.subject.rfc4514_string() == "CN=cks-admission CA"
    assert issued_by(certificate, certificate)


def test_a_leaf_has_what_clients_want_of_a_server(authority: Authority, now: datetime) -> None:
    """A leaf is no CA, signs handshakes, serves, has its names as alternative names, and points to its CA's key."""
    certificate = authority.issue(["webhook.ns.svc", "10.0.0.1", "::1"], now).certificate

    names = x509.SubjectAlternativeName(
        [x509.DNSName("webhook.ns.svc"), x509.IPAddress(ip_address("10.0.0.1")), x509.IPAddress(ip_address("::1"))]
    )
    own_key = x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())
    ca_key = x509.SubjectKeyIdentifier.from_public_key(authority.certificate.public_key())
    assert _extensions(certificate) == {
        "BasicConstraints": (True, x509.BasicConstraints(ca=False, path_length=None)),
        "KeyUsage": (True, _usage("digital_signature")),
        "ExtendedKeyUsage": (False, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])),
        "SubjectAlternativeName": (False, names),
        "SubjectKeyIdentifier": (False, own_key),
        "AuthorityKeyIdentifier": (False, x509.AuthorityKeyIdentifier(ca_key.digest, None, None)),
    }
    assert certificate.subject.rfc4514_string() == "CN=webhook.ns.svc"
    assert issued_by(certificate, authority.certificate)


def test_validity_allows_for_clocks_behind_ours(now: datetime) -> None:
    """All are valid from half a leaf's life ago, a short one from half of its own, and none before its CA."""
    authority, short = new_authority(now), new_authority(now, lifetime=timedelta(minutes=30))
    lives = [(authority, LEAF_LIFETIME), *((authority, timedelta(minutes=10)), (short, timedelta(minutes=20)))]

    assert (authority.certificate.not_valid_before_utc, authority.not_after) == (
        now - CLOCK_SKEW,
        now + AUTHORITY_LIFETIME,
    )
    for issuer, life in (*lives, (short, timedelta(minutes=30))):
        leaf = issuer.issue(["a.example"], now, lifetime=life)
        assert (leaf.not_before, leaf.not_after) == (now - min(CLOCK_SKEW, life / 2), now + life)
    early = short.issue(["a.example"], now - timedelta(minutes=10), lifetime=timedelta(minutes=30))
    assert early.not_before == short.not_before


def test_serials_are_random_and_positive(authority: Authority, now: datetime) -> None:
    """No two certificates share a serial number, and each has over 64 bits of chance and fits RFC 5280's 20 bytes."""
    serials = [authority.issue(["a.example"], now).certificate.serial_number for _ in range(20)]

    assert len(set(serials)) == len(serials)
    assert all(0 < serial < 1 << 159 for serial in serials)
    assert max(serial.bit_length() for serial in serials) > 64


def test_a_long_first_name_is_cut_in_the_common_name_only(authority: Authority, now: datetime) -> None:
    """A Service name over 64 characters is whole among the alternative names, where clients look."""
    name = f"{'a' * 60}.{'b' * 20}.svc.cluster.local"

    leaf = authority.issue([name], now)

    (common_name,) = leaf.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert (common_name.value, leaf.names) == (name[:64], (name,))


_CANNOT = (
    "the CA CN=cks-admission CA is valid from {start} to 2027-03-01 12:00:00 UTC and cannot sign at {at}; make a new CA"
)
_OUTLIVES = (
    "a leaf until 2027-03-03 12:00:00 UTC would outlive the CA CN=cks-admission CA,"
    " which ends on 2027-03-01 12:00:00 UTC; ask for a shorter lifetime or make a new CA"
)


@pytest.mark.parametrize(
    ("offset", "lifetime", "message"),
    [
        (timedelta(days=366), LEAF_LIFETIME, _CANNOT),
        (timedelta(days=-4), LEAF_LIFETIME, _CANNOT),
        (timedelta(days=360), LEAF_LIFETIME, _OUTLIVES),
        (timedelta(), timedelta(), "a lifetime of 0:00:00 is over before it began; give a positive one"),
    ],
    ids=["expired", "not-yet-valid", "outlived", "no-life"],
)
def test_an_authority_signs_nothing_that_would_not_hold(
    authority: Authority, now: datetime, offset: timedelta, lifetime: timedelta, message: str
) -> None:
    """A leaf that clients would not accept, now or before its end, is refused with the dates."""
    with pytest.raises(CertificateError) as raised:
        authority.issue(["a.example"], now + offset, lifetime=lifetime)

    assert str(raised.value) == message.format(start=moment(now - CLOCK_SKEW), at=moment(now + offset))


@pytest.mark.parametrize("name", ["", "x" * 65], ids=["empty", "long"])
def test_an_authority_needs_a_name_that_fits(name: str, now: datetime) -> None:
    """A CA without a name cannot be found by clients, and a name over 64 characters is no common name."""
    with pytest.raises(CertificateError, match=f"has {len(name)} characters; give it 1 to 64"):
        new_authority(now, name=name)


def test_authorities_made_elsewhere_can_sign(now: datetime) -> None:
    """An RSA CA without identifiers, as openssl makes it, signs, and its leaves point to its key all the same."""
    certificate, key = forge("their CA", key=rsa.generate_private_key(65537, 2048), names=[], extensions=[_CA])
    theirs = Authority((certificate,), key)

    leaf = theirs.issue(["a.example"], now, lifetime=timedelta(days=1))

    identifier = leaf.certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert issued_by(leaf.certificate, certificate)
    assert identifier.key_identifier == x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest
    assert load_pair(leaf.cert_pem, leaf.key_pem) == leaf


def test_keys_are_not_in_representations(authority: Authority, leaf: Leaf) -> None:
    """Printing an authority or a leaf, as a log or a traceback does, shows no key."""
    assert "key" not in repr(authority).lower()
    assert "key" not in repr(leaf).lower()


def test_intermediates_are_kept_in_their_order() -> None:
    """A chain of a leaf and two intermediates loads whole, leaf first."""
    root = forge("root", names=[], extensions=[_CA])
    outer = forge("outer", names=[], extensions=[_CA], issuer=root)
    inner = forge("inner", names=[], extensions=[_CA], issuer=outer)
    certificate, key = forge(issuer=inner)

    assert load_pair(pem(certificate, inner[0], outer[0]), pem(key)).chain == (certificate, inner[0], outer[0])


def test_an_expired_pair_loads(now: datetime) -> None:
    """Dates are for the renewal decision, not for loading."""
    certificate, key = forge(end=now - timedelta(minutes=1))

    assert load_pair(pem(certificate), pem(key)).not_after == now - timedelta(minutes=1)


def test_a_key_of_another_certificate_is_refused(leaf: Leaf) -> None:
    """The message names the certificate and gives both public keys, so that one can tell which of the two is wrong."""
    other = new_key()

    with pytest.raises(KeyMismatchError) as raised:
        load_pair(leaf.cert_pem, pem(other))

    assert str(raised.value) == (
        "the key does not match the certificate CN=a.example.com:"
        f" SHA-256 of the certificate's public key is {public_fingerprint(leaf.certificate.public_key())},"
        f" of the key's {public_fingerprint(other.public_key())}"
    )


def test_pairs_that_are_none(authority: Authority, leaf: Leaf) -> None:
    """Two servers' certificates in one file, a chain in the wrong order and swapped files are told as what they are."""
    first, key = forge("one.example")
    second, _ = forge("two.example")

    with pytest.raises(PairError, match=r"^several leaves: after CN=one\.example only CAs may follow, not CN=two\."):
        load_pair(pem(first, second), pem(key))
    with pytest.raises(PairError, match=r"^the key belongs to certificate 2 of 2; the leaf has to be the first of its"):
        load_pair(authority.cert_pem + leaf.cert_pem, leaf.key_pem)
    with pytest.raises(PemError) as raised:
        load_pair(leaf.key_pem, leaf.cert_pem)

    assert str(raised.value) == (
        "certificate: block 1 (line 1) is a PRIVATE KEY where only CERTIFICATE blocks belong;"
        " are certificate and key swapped?"
    )


_NAMES = ("a.example.com", "10.0.0.1")
_SECOND = timedelta(seconds=1)


def test_the_life_of_a_leaf(leaf: Leaf, authority: Authority) -> None:
    """It is kept until half of its life is over, and renewed from then on, and where it is from the future."""
    due, start, end = leaf_renewal_due(leaf.certificate), leaf.not_before, leaf.not_after
    over = f"half of its life was over on {moment(due)}; it ends on {moment(end)}"
    early = f"it is not valid before {moment(start)} and it is {moment(start - _SECOND)}: a clock was set back"
    moments = (start - _SECOND, start, due - _SECOND, due, end, end + _SECOND)

    assert due == start + (end - start) / 2
    assert [renewal_reason(leaf, when, names=_NAMES, authority=authority) for when in moments] == [
        *(early, None, None, over, over, f"it expired on {moment(end)}")
    ]


def test_all_reasons_are_told_at_once(authority: Authority, now: datetime, weak_key: rsa.RSAPrivateKey) -> None:
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


def test_an_authority_ends_its_service_before_a_leaf_could_outlive_it(now: datetime) -> None:
    """A CA of 10 days is renewed 7 days before its end, though two thirds of its life are not over."""
    short, last = new_authority(now, lifetime=timedelta(days=10)), now + timedelta(days=3)

    assert authority_renewal_reason(short, last) is None
    assert authority_renewal_reason(short, last + _SECOND) == (
        f"a leaf issued now would outlive it: it ends on {moment(now + timedelta(days=10))}"
    )


def test_a_weak_authority_is_renewed(now: datetime, weak_key: rsa.RSAPrivateKey) -> None:
    """A CA with a key that clients refuse is no CA to go on with."""
    certificate, key = forge("CA", key=weak_key, end=now + timedelta(days=365))

    assert authority_renewal_reason(Authority((certificate,), key), now) == (
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
