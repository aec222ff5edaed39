"""Certificates and keys as PEM: what is read, refused and shown, and the errors that tell it."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from support.certificates import forge, pem

from certs import errors
from certs.errors import InvalidNameError, PairError, PemError
from certs.material import (
    Authority,
    Bundle,
    Leaf,
    PemBlock,
    blocks,
    covers,
    fingerprint,
    key_title,
    load_certificates,
    load_key,
    merge,
    moment,
    names_of,
    new_authority,
    new_key,
    public_fingerprint,
    signature_title,
    span,
    subject_names,
    weakness,
)

_BLOCK = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_blocks_are_numbered_and_placed() -> None:
    """Comments, indentation and Windows line ends are passed over; each block knows its number and line."""
    text = b"# ours\r\n  -----BEGIN CERTIFICATE-----\r\n  AAAA\r\n  -----END CERTIFICATE-----\r\n\r\nnext:\r\n" + _BLOCK

    assert blocks(text) == (
        PemBlock("CERTIFICATE", _BLOCK, "block 1 (line 2)"),
        PemBlock("CERTIFICATE", _BLOCK, "block 2 (line 7)"),
    )


_NO_END = "block {} (line {}) begins a CERTIFICATE and has no END line: it was cut off"
_DER = "it is binary (DER?), not PEM; convert it: openssl x509 -inform der, or openssl pkey -inform der"


@pytest.mark.parametrize(
    ("text", "message", "damaged"),
    [
        *((text, "it is empty", True) for text in (b"", b"\0\0\0\0")),
        (b"-----BEG", "it is cut off within its first line", True),
        (_BLOCK[:-10], _NO_END.format(1, 1), True),
        (_BLOCK + b"# x\n" + _BLOCK[:30] + b"\n" + _BLOCK, _NO_END.format(2, 5), True),
        (_BLOCK[28:], "line 2 ends a CERTIFICATE that never began: the text was cut off at its start", True),
        (_BLOCK.replace(b"END CERTIFICATE", b"END PRIVATE KEY"), _NO_END.format(1, 1), True),
        (b"hello", "it has no PEM block (no line like -----BEGIN CERTIFICATE-----)", False),
        (b"\x30\x82\x01", _DER, False),
    ],
)
def test_text_that_is_not_pem_is_refused(text: bytes, message: str, *, damaged: bool) -> None:
    """The message says what was found and where, and whether it was PEM once."""
    with pytest.raises(PemError) as raised:
        blocks(text)

    assert (str(raised.value), raised.value.damaged) == (message, damaged)


def test_a_key_among_certificates_is_refused(leaf: Leaf) -> None:
    """A key where certificates belong is an error that names the block and guesses the cause: it would be published."""
    with pytest.raises(PemError) as raised:
        load_certificates(leaf.cert_pem + leaf.key_pem)

    line = len(leaf.cert_pem.splitlines()) + 1
    assert str(raised.value) == (
        f"block 2 (line {line}) is a PRIVATE KEY where only CERTIFICATE blocks belong; are certificate and key swapped?"
    )


def test_a_block_that_does_not_decode_is_named(authority: Authority) -> None:
    """One bad certificate among good ones is told by its number and line."""
    with pytest.raises(PemError, match=r"^block 2 \(line \d+\) does not decode as a certificate: ") as raised:
        load_certificates(authority.cert_pem + _BLOCK)

    assert raised.value.damaged


def test_every_cut_of_a_file_is_damage(authority: Authority) -> None:
    """Wherever our own file is cut, it is told as damaged and never as somebody else's."""
    whole = authority.cert_pem.rstrip()
    verdicts = set()
    for length in range(len(whole)):
        with pytest.raises(PemError) as raised:
            load_certificates(whole[:length])
        verdicts.add(raised.value.damaged)

    assert verdicts == {True}


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_pem_or_an_error(before: bytes, after: bytes) -> None:
    """No input makes anything but a PemError."""
    for text in (before, before + _BLOCK + after, _BLOCK[:40] + before + _BLOCK[40:]):
        try:
            load_certificates(text)
        except PemError:
            continue


_START = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


@cache
def _authorities() -> tuple[x509.Certificate, ...]:
    """CAs whose lives of 20 days begin ten days apart, two at each beginning."""
    return tuple(
        new_authority(_START + timedelta(days=10 * (i // 2)), lifetime=timedelta(days=20)).certificate
        for i in range(12)
    )


_SETS = st.lists(st.integers(0, 11), max_size=16).map(lambda picks: tuple(_authorities()[pick] for pick in picks))


_DAYS = st.one_of(st.integers(-5, 90), st.sampled_from([20, 30, 40, 50, 60, 70]))  # the latter: when CAs end
_WHEN = _DAYS.map(lambda days: _START + timedelta(days=days))


@given(_SETS.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))), _WHEN)
def test_merging(orders: tuple[tuple[x509.Certificate, ...], list[x509.Certificate]], when: datetime) -> None:
    """Each unexpired CA is there once and no other, in one order of bytes, as it is read and merged again."""
    merged = merge(orders[0], when)

    assert set(merged) == {certificate for certificate in orders[0] if certificate.not_valid_after_utc >= when}
    assert len(set(merged)) == len(merged)
    assert [*merged] == sorted(merged, key=lambda ca: (-ca.not_valid_before_utc.timestamp(), fingerprint(ca)))
    assert merge(merged, when) == merged
    assert merge(orders[1], when).pem == merged.pem
    if merged:
        assert Bundle.from_pem(merged.pem) == merged
    else:
        with pytest.raises(PemError, match="it is empty"):
            Bundle.from_pem(merged.pem)


# What `openssl ecparam -name prime256v1 -genkey` writes before the key.
_EC_PARAMETERS = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"


def test_keys_come_back_as_they_were() -> None:
    """Each kind of key that can serve TLS is written and read again, also after the parameters that openssl writes."""
    ec_key = new_key()
    keys: list[Any] = [ec_key, rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()]
    texts = [pem(key) for key in keys]
    traditional = ec_key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    for key, text in zip((*keys, ec_key), (*texts, _EC_PARAMETERS + traditional), strict=True):
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


def test_keys_that_cannot_serve_are_refused() -> None:
    """A key that Go or OpenSSL cannot use in TLS is refused, with those that can be; so are two."""
    for key, kind in ((ed448.Ed448PrivateKey.generate(), "Ed448"), (x25519.X25519PrivateKey.generate(), "X25519")):
        with pytest.raises(PairError, match=f"^the private key is a {kind} key; use EC, RSA or Ed25519$"):
            load_key(pem(key))
    with pytest.raises(PemError, match="it holds 2 private keys; exactly one belongs there"):
        load_key(pem(new_key(), new_key()))


def test_a_broken_key_is_told_without_its_content(leaf: Leaf) -> None:
    """A key that does not decode is damaged, and nothing of it is in the message."""
    text = leaf.key_pem.replace(leaf.key_pem.splitlines()[1][:8], b"AAAAAAAA")

    with pytest.raises(PemError) as raised:
        load_key(text)

    assert (str(raised.value), raised.value.damaged) == ("block 1 (line 1) does not decode as a private key", True)


def test_strings_become_dns_names_and_addresses() -> None:
    """Names keep their order, lose duplicates and case, and addresses take their canonical form."""
    names = ["Webhook.Example.com", "10.0.0.1", "0:0::1", "webhook.example.com", "::1", "*.example.com", "localhost"]

    values = [(type(name), str(name.value)) for name in subject_names(names)]

    assert values == [
        (x509.DNSName, "webhook.example.com"),
        (x509.IPAddress, "10.0.0.1"),
        (x509.IPAddress, "::1"),
        (x509.DNSName, "*.example.com"),
        (x509.DNSName, "localhost"),
    ]


_HOST = "has a port, a scheme, a prefix length or brackets"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *(("", "'' is empty"), ("bücher.example", "is not ASCII; write it as Punycode (xn--...)")),
        *((name, "has the label ''") for name in ("a..b", "example.com.")),
        *(("a_b.example", "has the label 'a_b'"), ("-a.example", "has the label '-a'"), ("a b", "has the label 'a b'")),
        *((name, "has the label '*'") for name in ("a.*.example", "*")),
        *(("a" * 64, "a label is 1 to 63 letters"), ("a\nb", "has the label 'a\\nb'")),
        (".".join(["a" * 50] * 6), "has 305 characters, 253 at most"),
        ("10.0.0.256", "ends in a number, but is no IPv4 address"),
        *((name, _HOST) for name in ("localhost:9443", "https://localhost", "10.0.0.0/8", "[::1]")),
        ("fe80::1%eth0", "has a zone"),
    ],
)
def test_bad_names_are_refused_with_the_cause(name: str, problem: str) -> None:
    """A name that no certificate can carry is refused, and the message says what is wrong with it."""
    with pytest.raises(InvalidNameError) as raised:
        subject_names(["good.example", name])

    assert problem in str(raised.value)
    assert "good.example" not in str(raised.value)


def test_lists_of_names_that_are_refused() -> None:
    """One attempt shows every bad name; no name at all is good for nothing, and a string is no list of letters."""
    with pytest.raises(InvalidNameError) as raised:
        subject_names(["a_b", "good", "1.2.3"])
    with pytest.raises(InvalidNameError, match="no names"):
        subject_names([])
    with pytest.raises(InvalidNameError, match=r"names is the string 'localhost'; give a list"):
        subject_names("localhost")

    assert str(raised.value) == (
        "not a DNS name or IP address: 'a_b' has the label 'a_b'; a label is 1 to 63 letters, digits and inner hyphens;"
        " '1.2.3' ends in a number, but is no IPv4 address"
    )


def test_names_match_as_clients_match_them() -> None:
    """A wildcard stands for exactly one label, and addresses are compared as addresses; common names do not count."""
    matching = [("a.example", "A.EXAMPLE"), ("*.example", "a.example"), ("::1", "0:0:0::1")]
    others = [
        *(("*.example", name) for name in ("a.b.example", "example", ".example")),
        *(("a.example", "*.example"), ("*.0.0.1", "10.0.0.1")),
    ]

    assert [pair for pair in (*matching, *others) if covers(pair[:1], pair[1])] == matching
    assert (covers((), "a.example"), names_of(forge("cn.example", names=[])[0])) == (False, ())


@given(st.lists(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?(\.[a-z]{1,10}){1,3}", fullmatch=True), min_size=1))
def test_a_name_covers_itself(names: list[str]) -> None:
    """Whatever names go in are covered by what comes out."""
    present = [str(name.value) for name in subject_names(names)]

    assert all(covers(present, name) for name in names)


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_an_error(text: str) -> None:
    """No text gets past the check into a certificate that then cannot be encoded, and no other error escapes."""
    try:
        (name,) = subject_names([text])
    except InvalidNameError:
        return
    x509.SubjectAlternativeName([name]).public_bytes()


def test_spans_are_in_their_largest_unit_of_two() -> None:
    """A span says as much as is needed, rounded down, whichever way it points."""
    spans = {
        timedelta(): "0 minutes",
        timedelta(seconds=119): "1 minute",
        timedelta(hours=2, seconds=-1): "119 minutes",
        timedelta(hours=2): "2 hours",
        timedelta(hours=47, minutes=59): "47 hours",
        timedelta(days=2): "2 days",
        timedelta(days=-3): "3 days",
    }

    assert {length: span(length) for length in spans} == spans


def test_moments_are_in_utc() -> None:
    """A moment of another zone is the same moment in UTC."""
    assert moment(datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2)))) == "2026-02-28 23:00:00 UTC"
    assert moment(datetime(2026, 3, 1, 1, tzinfo=UTC)) == "2026-03-01 01:00:00 UTC"


def test_keys_are_named_and_judged(weak_key: rsa.RSAPrivateKey) -> None:
    """Each kind and size of key has a name, and those that some client refuses are weak, with what to use instead."""
    keys: dict[str, tuple[Any, str | None]] = {
        "EC P-256": (ec.generate_private_key(ec.SECP256R1()), None),
        "EC P-384": (ec.generate_private_key(ec.SECP384R1()), None),
        "EC P-521": (ec.generate_private_key(ec.SECP521R1()), None),
        "Ed25519": (ed25519.Ed25519PrivateKey.generate(), None),
        "RSA 2048": (rsa.generate_private_key(65537, 2048), None),
        "RSA 1024": (weak_key, "RSA needs 2048 bits or more"),
        "EC secp224r1": (ec.generate_private_key(ec.SECP224R1()), "use P-256, P-384, P-521"),
        "EC secp256k1": (ec.generate_private_key(ec.SECP256K1()), "use P-256, P-384, P-521"),
    }
    for title, (key, remedy) in keys.items():
        certificate, _ = forge(key=key)
        weak = remedy and f"its key is {title}; {remedy}"
        assert (key_title(certificate), weakness(certificate)) == (title, weak)
    odd, _ = forge(key=ed448.Ed448PrivateKey.generate())
    assert weakness(odd) == "its key is Ed448, which Go's TLS does not accept; use EC, RSA or Ed25519"


def test_an_unknown_signature_is_weak() -> None:
    """A signature algorithm that nobody knows is told by its OID."""
    certificate, _ = forge()
    # ecdsa-with-SHA256 is 1.2.840.10045.4.3.2; nothing is at 15.
    family = b"\x2a\x86\x48\xce\x3d\x04\x03"
    der = certificate.public_bytes(Encoding.DER).replace(family + b"\x02", family + b"\x0f")
    odd = x509.load_der_x509_certificate(der)

    assert (signature_title(odd), weakness(odd)) == (
        "1.2.840.10045.4.3.15",
        "its signature algorithm 1.2.840.10045.4.3.15 is unknown",
    )


def test_sha1_is_weak(sha1_certificate: x509.Certificate) -> None:
    """A SHA-1 signature is named and refused, as Go does."""
    assert (signature_title(sha1_certificate), weakness(sha1_certificate)) == (
        "SHA1",
        "it is signed with SHA1, which Go refuses; sign it with SHA-256",
    )


def test_the_error_tree_is_drawn() -> None:
    """Every error is in the drawing at the top of its module, one level below its parent; CertificateError is all."""
    assert errors.__doc__ is not None
    found = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    assert len(found) == 7
    drawn = {
        words[0]: line.index(words[0]) for line in errors.__doc__.splitlines() if (words := line.strip("│├└─ ").split())
    }

    for name, error in found.items():
        parent = error.__bases__[0].__name__
        assert name in drawn
        assert issubclass(error, errors.CertificateError)
        if parent != "Exception":
            assert drawn[name] == drawn[parent] + 4


def test_importing_the_package_loads_nothing() -> None:
    """`import certs` costs nothing: cryptography comes with the first module that needs it."""
    code = "import sys, certs; sys.exit('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[2])

    assert done.returncode == 0
