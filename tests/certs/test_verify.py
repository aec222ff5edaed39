"""Findings and descriptions: what people are told about a chain."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from support.certificates import forge

from certs.material import CLOCK_SKEW, LEAF_LIFETIME, Authority, Bundle, Leaf, fingerprint, moment, new_authority
from certs.verify import Finding, describe, verify


def _ca(path_length: int | None = None) -> x509.BasicConstraints:
    return x509.BasicConstraints(ca=True, path_length=path_length)


def _faults(findings: Sequence[Finding]) -> list[str]:
    return [finding.text for finding in findings if not finding.ok]


def test_a_good_pair_has_only_good_findings(leaf: Leaf, authority: Authority, now: datetime) -> None:
    """Every thing that was looked at is told, good ones too, with the days that are left."""
    assert verify(leaf.chain, Bundle((authority.certificate,)), ["a.example.com", "10.0.0.1"], now) == (
        Finding(ok=True, text="it is for a.example.com"),
        Finding(ok=True, text="it is for 10.0.0.1"),
        Finding(ok=True, text="it may be used by a server"),
        Finding(ok=True, text="its chain ends in the bundle: CN=a.example.com <- CN=cks-admission CA"),
        Finding(ok=True, text="CN=a.example.com is valid until 2026-03-08 12:00:00 UTC, for 7 days"),
        Finding(ok=True, text="CN=cks-admission CA is valid until 2027-03-01 12:00:00 UTC, for 365 days"),
    )


def test_all_faults_are_told_at_once(authority: Authority, now: datetime, weak_key: rsa.RSAPrivateKey) -> None:
    """A pair with everything wrong gives a finding for each fault."""
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate, _ = forge(
        key=weak_key, extensions=[purposes], start=now - timedelta(days=9), end=now - timedelta(hours=30)
    )

    assert verify([certificate], Bundle((authority.certificate,)), ["a.example", "b.example"], now) == (
        Finding(ok=False, text="it is not for a.example, only for forged.example.com"),
        Finding(ok=False, text="it is not for b.example, only for forged.example.com"),
        Finding(ok=False, text="it may not be used by a server: its extended key usage has no serverAuth"),
        Finding(ok=False, text="CN=forged.example.com is self-signed, and the bundle does not have it"),
        Finding(ok=False, text="CN=forged.example.com expired on 2026-02-28 06:00:00 UTC, 30 hours ago"),
        Finding(ok=False, text="CN=forged.example.com: its key is RSA 1024; RSA needs 2048 bits or more"),
    )


def test_another_key_under_the_same_name(leaf: Leaf, now: datetime) -> None:
    """A bundle with an older CA of the same name is told as that, with its fingerprint."""
    other = new_authority(now)

    (fault,) = _faults(verify(leaf.chain, Bundle((other.certificate,)), [], now))

    assert fault == (
        "CN=a.example.com is signed by a CA called CN=cks-admission CA, but not by the one in the bundle"
        f" (SHA-256 {other.fingerprint}): that name has another key there"
    )


def test_intermediates_of_any_order_are_climbed(now: datetime) -> None:
    """The chain is found through its intermediates, and each date on it is looked at."""
    root = forge("root", names=[], extensions=[_ca()])
    outer = forge("outer", names=[], extensions=[_ca()], issuer=root, end=now - timedelta(minutes=1))
    inner = forge("inner", names=[], extensions=[_ca()], issuer=outer)
    leaf, _ = forge("leaf", issuer=inner)

    findings = verify([leaf, outer[0], inner[0]], Bundle((root[0],)), [], now)

    assert findings[1] == Finding(
        ok=True, text="its chain ends in the bundle: CN=leaf <- CN=inner <- CN=outer <- CN=root"
    )
    assert _faults(findings) == ["CN=outer expired on 2026-03-01 11:59:00 UTC, 1 minute ago"]


def test_chains_that_lead_nowhere(now: datetime) -> None:
    """The place where a chain breaks is named: what is missing, a path length that is exceeded, what is no CA."""
    root, narrow = (forge("root", names=[], extensions=[_ca(length)]) for length in (None, 0))
    lost, long = (forge("inner", names=[], extensions=[_ca()], issuer=above) for above in (root, narrow))
    no_ca = forge("no CA", names=[])
    leaves = [forge("leaf", issuer=issuer)[0] for issuer in (lost, long, no_ca)]
    chains = ([leaves[0]], root), ([leaves[1], long[0]], narrow), ([leaves[2]], no_ca)
    found = [_faults(verify(chain, Bundle((trusted[0],)), [], now)) for chain, trusted in chains]

    assert found == [
        ["CN=leaf is signed by CN=inner, which neither the chain nor the bundle has; the bundle has CN=root"],
        ["CN=root allows 0 CAs below it, and there are 1"],
        ["CN=leaf is signed by CN=no CA, which may not sign: its basic constraints or key usage forbid it"],
    ]


def test_a_renewed_authority_with_its_old_key(now: datetime) -> None:
    """Of two certificates of one CA the one that is valid now is taken, wherever it stands."""
    old = forge("CA", names=[], extensions=[_ca()], start=now - timedelta(9), end=now - timedelta(1))
    new = forge("CA", names=[], extensions=[_ca()], key=old[1])
    leaf, _ = forge("leaf", issuer=old)

    assert _faults(verify([leaf], Bundle((old[0], new[0])), [], now)) == []


def test_one_that_is_not_valid_yet(leaf: Leaf, authority: Authority) -> None:
    """A clock behind the one that made the certificate is told with the time to wait."""
    early = leaf.not_before - timedelta(hours=2)

    assert _faults(verify(leaf.chain, Bundle((authority.certificate,)), [], early)) == [
        f"CN=a.example.com is not valid before {moment(leaf.not_before)}, in 2 hours",
        f"CN=cks-admission CA is not valid before {moment(leaf.not_before)}, in 2 hours",
    ]


@pytest.mark.parametrize("name", ["a.example.com", "b.example.com"])
@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "not-trusted"])
@pytest.mark.parametrize("days", [-4, -3, 0, 6, 8, 366])
def test_findings_agree_with_a_verifier(
    name: str, days: int, leaf: Leaf, authority: Authority, now: datetime, *, trusted: bool
) -> None:
    """All is well exactly when an independent, strict verifier accepts the chain."""
    when = now + timedelta(days=days, hours=1)
    root = authority if trusted else new_authority(when)
    verifier = PolicyBuilder().store(Store([root.certificate])).time(when).build_server_verifier(x509.DNSName(name))

    try:
        verifier.verify(leaf.certificate, [])
        accepted = True
    except VerificationError:
        accepted = False

    assert accepted == (_faults(verify(leaf.chain, Bundle((root.certificate,)), [name], when)) == [])


@pytest.mark.parametrize(
    ("when", "days"), [(timedelta(), 7), (timedelta(days=6, hours=1), 0), (timedelta(days=7, seconds=1), -1)]
)
def test_a_certificate_is_described(leaf: Leaf, now: datetime, when: timedelta, days: int) -> None:
    """A description has all that `certs show` prints, in its order."""
    described = describe(leaf.certificate, now + when)

    assert list(described.items()) == [
        ("subject", "CN=a.example.com"),
        ("issuer", "CN=cks-admission CA"),
        ("serial", f"{leaf.certificate.serial_number:x}"),
        ("names", ["a.example.com", "10.0.0.1"]),
        ("not_before", moment(now - CLOCK_SKEW)),
        ("not_after", moment(now + LEAF_LIFETIME)),
        ("days_left", days),
        ("key", "EC P-256"),
        ("signature", "SHA256"),
        ("fingerprint_sha256", fingerprint(leaf.certificate)),
    ]
