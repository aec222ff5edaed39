"""The CA and what it issues: every field that Go's and Python's clients look at."""

from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from certs.authority import (
    AUTHORITY_LIFETIME,
    CLOCK_SKEW,
    LEAF_LIFETIME,
    Authority,
    Leaf,
    load_pair,
    new_authority,
)
from certs.errors import AuthorityError, InvalidNameError
from certs.material import issued_by, moment


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


def test_keys_and_signatures_are_modern(authority: Authority, leaf: Leaf) -> None:
    """Every key is EC P-256 and every signature made with SHA-256: no client refuses them."""
    kinds = []
    for certificate in (authority.certificate, leaf.certificate):
        key, signed = certificate.public_key(), certificate.signature_hash_algorithm
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert signed is not None
        kinds.append((key.curve.name, signed.name))

    assert kinds == [("secp256r1", "sha256"), ("secp256r1", "sha256")]


def test_validity_allows_for_clocks_behind_ours(now: datetime) -> None:
    """CA and leaf are valid from half a leaf's lifetime ago, for the time that was asked for."""
    authority = new_authority(now)
    leaf = authority.issue(["a.example"], now)

    assert authority.certificate.not_valid_before_utc == now - CLOCK_SKEW
    assert authority.not_after == now + AUTHORITY_LIFETIME
    assert (leaf.not_before, leaf.not_after) == (now - CLOCK_SKEW, now + LEAF_LIFETIME)


def test_a_short_life_is_backdated_no_further_than_it_lasts(now: datetime) -> None:
    """A leaf of ten minutes starts five minutes ago: from days ago, half of its life would be over at once."""
    leaf = new_authority(now).issue(["a.example"], now, lifetime=timedelta(minutes=10))

    assert (leaf.not_before, leaf.not_after) == (now - timedelta(minutes=5), now + timedelta(minutes=10))


def test_a_leaf_is_not_backdated_before_its_authority(now: datetime) -> None:
    """No leaf claims a time at which its CA did not exist."""
    authority = new_authority(now, lifetime=timedelta(minutes=30))

    assert authority.issue(["a.example"], now, lifetime=timedelta(minutes=20)).not_before == now - timedelta(minutes=10)
    assert authority.issue(["a.example"], now, lifetime=timedelta(minutes=30)).not_before == now - timedelta(minutes=15)


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


def test_a_bad_name_makes_no_certificate(authority: Authority, now: datetime) -> None:
    """Names are checked before anything is made."""
    with pytest.raises(InvalidNameError, match="'a_b' has the label 'a_b'"):
        authority.issue(["a_b"], now)


@pytest.mark.parametrize(
    ("offset", "lifetime", "message"),
    [
        pytest.param(
            timedelta(days=366),
            LEAF_LIFETIME,
            "the CA CN=cks-admission CA is valid from {start} to 2027-03-01 12:00:00 UTC"
            " and cannot sign at 2027-03-02 12:00:00 UTC; make a new CA",
            id="expired",
        ),
        pytest.param(
            timedelta(days=-4),
            LEAF_LIFETIME,
            "the CA CN=cks-admission CA is valid from {start} to 2027-03-01 12:00:00 UTC"
            " and cannot sign at 2026-02-25 12:00:00 UTC; make a new CA",
            id="not-yet-valid",
        ),
        pytest.param(
            timedelta(days=360),
            LEAF_LIFETIME,
            "a leaf until 2027-03-03 12:00:00 UTC would outlive the CA CN=cks-admission CA,"
            " which ends on 2027-03-01 12:00:00 UTC; ask for a shorter lifetime or make a new CA",
            id="outlived",
        ),
        pytest.param(
            timedelta(), timedelta(), "a lifetime of 0:00:00 is over before it began; give a positive one", id="no-life"
        ),
    ],
)
def test_an_authority_signs_nothing_that_would_not_hold(
    authority: Authority, now: datetime, offset: timedelta, lifetime: timedelta, message: str
) -> None:
    """A leaf that clients would not accept, now or before its end, is refused with the dates."""
    with pytest.raises(AuthorityError) as raised:
        authority.issue(["a.example"], now + offset, lifetime=lifetime)

    assert str(raised.value) == message.format(start=moment(now - CLOCK_SKEW))


@pytest.mark.parametrize("name", ["", "x" * 65], ids=["empty", "long"])
def test_an_authority_needs_a_name_that_fits(name: str, now: datetime) -> None:
    """A CA without a name cannot be found by clients, and a name over 64 characters is no common name."""
    with pytest.raises(AuthorityError, match=f"has {len(name)} characters; give it 1 to 64"):
        new_authority(now, name=name)


def test_an_authority_needs_a_life(now: datetime) -> None:
    """A CA that is over before it began is refused."""
    with pytest.raises(AuthorityError, match="is over before it began"):
        new_authority(now, lifetime=timedelta(seconds=-1))


def test_authorities_made_elsewhere_can_sign(forge: Any, now: datetime) -> None:
    """An RSA CA without identifiers, as openssl makes it, signs, and its leaves point to its key all the same."""
    ca = x509.BasicConstraints(ca=True, path_length=None)
    certificate, key = forge("their CA", key=rsa.generate_private_key(65537, 2048), names=[], extensions=[ca])
    theirs = Authority(certificate, key)

    leaf = theirs.issue(["a.example"], now, lifetime=timedelta(days=1))

    identifier = leaf.certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert issued_by(leaf.certificate, certificate)
    assert identifier.key_identifier == x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest
    assert load_pair(leaf.cert_pem, leaf.key_pem) == leaf


def test_keys_are_not_in_representations(authority: Authority, leaf: Leaf) -> None:
    """Printing an authority or a leaf, as a log or a traceback does, shows no key."""
    assert "key" not in repr(authority).lower()
    assert "key" not in repr(leaf).lower()


def test_a_strict_verifier_accepts_the_chain(authority: Authority, now: datetime) -> None:
    """The Web PKI verifier (alternative name needed, no SHA-1, path length and usages enforced) takes what we issue."""
    leaf = authority.issue(["webhook.ns.svc", "10.0.0.1"], now)

    for subject in (x509.DNSName("webhook.ns.svc"), x509.IPAddress(ip_address("10.0.0.1"))):
        verifier = PolicyBuilder().store(Store([authority.certificate])).time(now).build_server_verifier(subject)

        assert verifier.verify(leaf.certificate, []) == [leaf.certificate, authority.certificate]
