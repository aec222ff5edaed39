"""Names on certificates: read strictly, matched as clients match them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from certs.authority import Authority
from certs.errors import InvalidNameError
from certs.material import covers, missing_names, names_of, subject_names


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


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("", "'' is empty", id="empty"),
        pytest.param("bücher.example", "is not ASCII; write it as Punycode (xn--...)", id="unicode"),
        pytest.param("a_b.example", "has the label 'a_b'", id="underscore"),
        pytest.param("a..b", "has the label ''", id="empty-label"),
        pytest.param("example.com.", "has the label ''", id="trailing-dot"),
        pytest.param("-a.example", "has the label '-a'", id="leading-hyphen"),
        pytest.param("a" * 64, "a label is 1 to 63 letters", id="long-label"),
        pytest.param(".".join(["a" * 50] * 6), "has 305 characters, 253 at most", id="long-name"),
        pytest.param("10.0.0.256", "ends in a number, but is no IPv4 address", id="bad-ipv4"),
        pytest.param("localhost:9443", "has a port, a scheme, a prefix length or brackets", id="port"),
        pytest.param("https://localhost", "has a port, a scheme, a prefix length or brackets", id="url"),
        pytest.param("10.0.0.0/8", "has a port, a scheme, a prefix length or brackets", id="network"),
        pytest.param("[::1]", "has a port, a scheme, a prefix length or brackets", id="brackets"),
        pytest.param("fe80::1%eth0", "has a zone", id="zone"),
        pytest.param("a.*.example", "has the label '*'", id="inner-wildcard"),
        pytest.param("*", "has the label '*'", id="bare-wildcard"),
        pytest.param("a b", "has the label 'a b'", id="space"),
        pytest.param("a\nb", "has the label 'a\\nb'", id="newline"),
    ],
)
def test_bad_names_are_refused_with_the_cause(name: str, problem: str) -> None:
    """A name that no certificate can carry is refused, and the message says what is wrong with it."""
    with pytest.raises(InvalidNameError) as raised:
        subject_names(["good.example", name])

    assert problem in str(raised.value)
    assert "good.example" not in str(raised.value)


def test_all_bad_names_are_told_at_once() -> None:
    """One attempt shows every bad name, not only the first."""
    with pytest.raises(InvalidNameError) as raised:
        subject_names(["a_b", "good", "1.2.3"])

    assert str(raised.value) == (
        "not a DNS name or IP address: 'a_b' has the label 'a_b'; a label is 1 to 63 letters, digits and inner hyphens;"
        " '1.2.3' ends in a number, but is no IPv4 address"
    )


def test_no_names_at_all_are_refused() -> None:
    """An empty list of names is an error: such a certificate would be good for nothing."""
    with pytest.raises(InvalidNameError, match="no names"):
        subject_names([])


def test_a_string_is_not_taken_for_a_list_of_letters() -> None:
    """A single string in place of a list is an error, although it is an iterable of one-letter names."""
    with pytest.raises(InvalidNameError, match=r"names is the string 'localhost'; give a list"):
        subject_names("localhost")


@pytest.mark.parametrize(
    ("present", "name", "expected"),
    [
        pytest.param(("a.example",), "A.EXAMPLE", True, id="case"),
        pytest.param(("*.example",), "a.example", True, id="wildcard"),
        pytest.param(("*.example",), "a.b.example", False, id="wildcard-is-one-label"),
        pytest.param(("*.example",), "example", False, id="wildcard-is-not-the-parent"),
        pytest.param(("*.example",), ".example", False, id="wildcard-is-not-empty"),
        pytest.param(("a.example",), "*.example", False, id="wildcard-wanted"),
        pytest.param(("*.0.0.1",), "10.0.0.1", False, id="wildcard-is-no-address"),
        pytest.param(("::1",), "0:0:0::1", True, id="address-forms"),
        pytest.param((), "a.example", False, id="none"),
    ],
)
def test_names_match_as_clients_match_them(present: tuple[str, ...], name: str, *, expected: bool) -> None:
    """A wildcard stands for exactly one label, and addresses are compared as addresses."""
    assert covers(present, name) is expected


def test_missing_names_keep_their_order(authority: Authority, now: datetime) -> None:
    """What a certificate lacks is listed as it was asked for."""
    certificate = authority.issue(["a.example", "10.0.0.1"], now).certificate

    assert missing_names(certificate, ["z.example", "10.0.0.1", "b.example", "a.example"]) == ("z.example", "b.example")


def test_a_certificate_without_alternative_names_has_no_names(
    forge: Callable[..., tuple[x509.Certificate, Any]],
) -> None:
    """The common name does not count."""
    assert names_of(forge("cn.example", names=[])[0]) == ()


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
