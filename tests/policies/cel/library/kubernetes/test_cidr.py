"""Networks. Expected values are those of the Go reference."""

# ruff: noqa: E501 - the messages of the reference stay in one piece

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cel.cellibrary import answer, charged

from policies.cel.errors import CelError
from policies.cel.library.kubernetes import ip
from policies.cel.library.kubernetes.cidr import LIBRARY, parse

READ = [
    ("cidr", "10.0.0.0/8", "10.0.0.0/8"),
    ("isCIDR", "10.0.0.0/8", True),
    ("cidr", "10.1.2.3/8", "10.1.2.3/8"),
    ("isCIDR", "10.1.2.3/8", True),
    ("cidr", "::1/12", "::1/12"),
    ("isCIDR", "::1/12", True),
    (
        "cidr",
        "x",
        "error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix(\"x\"): no '/'",
    ),
    ("isCIDR", "x", False),
    (
        "cidr",
        "x/8",
        'error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("x/8"): ParseAddr("x"): unable to parse IP',
    ),
    ("isCIDR", "x/8", False),
    (
        "cidr",
        "10.0.0.0/33",
        'error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/33"): prefix length out of range',
    ),
    ("isCIDR", "10.0.0.0/33", False),
    (
        "cidr",
        "10.0.0.0/08",
        'error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/08"): bad bits after slash: "08"',
    ),
    ("isCIDR", "10.0.0.0/08", False),
    (
        "cidr",
        "10.0.0.0/+8",
        'error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/+8"): bad bits after slash: "+8"',
    ),
    ("isCIDR", "10.0.0.0/+8", False),
    (
        "cidr",
        "10.0.0.0/",
        'error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("10.0.0.0/"): bad bits after slash: ""',
    ),
    ("isCIDR", "10.0.0.0/", False),
    (
        "cidr",
        "1.2.3.4/99999999999999999999",
        'error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("1.2.3.4/99999999999999999999"): bad bits after slash: "99999999999999999999"',
    ),
    ("isCIDR", "1.2.3.4/99999999999999999999", False),
    (
        "cidr",
        "1.2.3.4/9223372036854775807",
        'error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("1.2.3.4/9223372036854775807"): prefix length out of range',
    ),
    ("isCIDR", "1.2.3.4/9223372036854775807", False),
    (
        "cidr",
        "::ffff:1.2.3.4/96",
        'error: network address parse error during conversion from string: IPv4-mapped IPv6 address "::ffff:1.2.3.4/96" is not allowed',
    ),
    ("isCIDR", "::ffff:1.2.3.4/96", False),
    (
        "cidr",
        "fe80::%a/8",
        'error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("fe80::%a/8"): IPv6 zones cannot be present in a prefix',
    ),
    ("isCIDR", "fe80::%a/8", False),
]
MEMBERS = [
    ("ip", "10.1.2.3/8", "10.1.2.3"),
    ("masked", "10.1.2.3/8", "10.0.0.0/8"),
    ("prefixLength", "10.1.2.3/8", 8),
    ("ip", "10.1.2.3/0", "10.1.2.3"),
    ("masked", "10.1.2.3/0", "0.0.0.0/0"),
    ("prefixLength", "10.1.2.3/0", 0),
    ("ip", "2001:db8::5/65", "2001:db8::5"),
    ("masked", "2001:db8::5/65", "2001:db8::/65"),
    ("prefixLength", "2001:db8::5/65", 65),
]
PAIRS = [
    ("containsIP", "10.0.0.0/8", "10.9.9.9", True),
    ("containsIP", "10.0.0.0/8", "11.0.0.0", False),
    ("containsIP", "10.0.0.0/8", "2001:db8::1", False),
    ("containsIP", "10.0.0.0/8", "x", "error: no such overload"),
    ("containsCIDR", "10.0.0.0/8", "10.1.0.0/16", True),
    ("containsCIDR", "10.0.0.0/8", "0.0.0.0/0", False),
    ("containsCIDR", "10.0.0.0/8", "2001:db8:1::/48", False),
    ("containsCIDR", "10.0.0.0/8", "10.0.0.0/8", True),
    (
        "containsCIDR",
        "10.0.0.0/8",
        "x",
        "error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix(\"x\"): no '/'",
    ),
    ("containsIP", "::/0", "10.9.9.9", False),
    ("containsIP", "::/0", "11.0.0.0", False),
    ("containsIP", "::/0", "2001:db8::1", True),
    ("containsIP", "::/0", "x", "error: no such overload"),
    ("containsCIDR", "::/0", "10.1.0.0/16", False),
    ("containsCIDR", "::/0", "0.0.0.0/0", False),
    ("containsCIDR", "::/0", "2001:db8:1::/48", True),
    ("containsCIDR", "::/0", "10.0.0.0/8", False),
    (
        "containsCIDR",
        "::/0",
        "x",
        "error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix(\"x\"): no '/'",
    ),
    ("containsIP", "2001:db8::/32", "10.9.9.9", False),
    ("containsIP", "2001:db8::/32", "11.0.0.0", False),
    ("containsIP", "2001:db8::/32", "2001:db8::1", True),
    ("containsIP", "2001:db8::/32", "x", "error: no such overload"),
    ("containsCIDR", "2001:db8::/32", "10.1.0.0/16", False),
    ("containsCIDR", "2001:db8::/32", "0.0.0.0/0", False),
    ("containsCIDR", "2001:db8::/32", "2001:db8:1::/48", True),
    ("containsCIDR", "2001:db8::/32", "10.0.0.0/8", False),
    (
        "containsCIDR",
        "2001:db8::/32",
        "x",
        "error: network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix(\"x\"): no '/'",
    ),
]


@pytest.mark.parametrize(("name", "text", "expected"), READ)
def test_reading(name: str, text: str, expected: object) -> None:
    """A text is read as the reference reads it, or refused in its words, which have their beginning twice."""
    assert answer(LIBRARY, name, text) == expected


@pytest.mark.parametrize(("name", "text", "expected"), MEMBERS)
def test_members(name: str, text: str, expected: object) -> None:
    """Address, length and network of a CIDR, whose host bits are kept."""
    assert answer(LIBRARY, name, parse(text)) == expected


@pytest.mark.parametrize(("name", "network", "text", "expected"), PAIRS)
def test_contains(name: str, network: str, text: str, expected: object) -> None:
    """A text and the value that it stands for are contained alike; what a bad text gives differs."""
    assert answer(LIBRARY, name, parse(network), text) == expected
    if isinstance(expected, bool):
        value = ip.parse(text) if name == "containsIP" else parse(text)
        assert answer(LIBRARY, name, parse(network), value) == expected


def test_equality() -> None:
    """Networks are equal by address and length; another type is an error."""
    assert parse("10.0.0.1/8").cel_equal(parse("10.0.0.1/8")) is True
    assert parse("10.0.0.1/8").cel_equal(parse("10.0.0.2/8")) is False
    with pytest.raises(CelError, match=r"^no such overload$"):
        parse("::1/8").cel_equal("::1/8")


def test_cost() -> None:
    """Costs follow the bytes of the prefix, and a text is read first."""
    network = parse("2001:db8::/32")
    assert charged(LIBRARY, "containsIP", network, "2001:db8::1") == 1 + 2
    assert charged(LIBRARY, "containsIP", network, ip.parse("2001:db8::1")) == 1
    assert charged(LIBRARY, "containsCIDR", network, "2001:db8::/48") == 1 + 1 + 1 + 2
    assert charged(LIBRARY, "containsCIDR", network, network) == 1 + 1 + 1
    assert (charged(LIBRARY, "ip", network), charged(LIBRARY, "masked", network)) == (1, 1)
    assert network.cel_size == 4


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_masked_network(address: object, length: int) -> None:
    """A masked network is the usual one, and contains the address that it was made of."""
    text = f"{address}/{length}"
    assert answer(LIBRARY, "masked", parse(text)) == str(ip_network(text, strict=False))
    assert answer(LIBRARY, "containsIP", parse(text), str(address)) is True
