"""IP addresses. Expected values are those of the Go reference."""

# ruff: noqa: E501, S104 - the messages of the reference stay in one piece, and 0.0.0.0 is an address here

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cel.cellibrary import answer, charged

from policies.cel.errors import CelError
from policies.cel.library.kubernetes.ip import LIBRARY, parse

READ = [
    ("ip", "1.2.3.4", "1.2.3.4"),
    ("isIP", "1.2.3.4", True),
    (
        "ip",
        "01.2.3.4",
        'error: IP Address "01.2.3.4" parse error during conversion from string: ParseAddr("01.2.3.4"): IPv4 field has octet with leading zero',
    ),
    ("isIP", "01.2.3.4", False),
    (
        "ip",
        "256.1.1.1",
        'error: IP Address "256.1.1.1" parse error during conversion from string: ParseAddr("256.1.1.1"): IPv4 field has value >255',
    ),
    ("isIP", "256.1.1.1", False),
    (
        "ip",
        "1..2.3",
        'error: IP Address "1..2.3" parse error during conversion from string: ParseAddr("1..2.3"): IPv4 field must have at least one digit (at ".2.3")',
    ),
    ("isIP", "1..2.3", False),
    (
        "ip",
        "1.2.3",
        'error: IP Address "1.2.3" parse error during conversion from string: ParseAddr("1.2.3"): IPv4 address too short',
    ),
    ("isIP", "1.2.3", False),
    (
        "ip",
        "1.2.3.4.5",
        'error: IP Address "1.2.3.4.5" parse error during conversion from string: ParseAddr("1.2.3.4.5"): IPv4 address too long',
    ),
    ("isIP", "1.2.3.4.5", False),
    (
        "ip",
        "1.2.3.a",
        'error: IP Address "1.2.3.a" parse error during conversion from string: ParseAddr("1.2.3.a"): unexpected character (at "a")',
    ),
    ("isIP", "1.2.3.a", False),
    ("ip", "::1", "::1"),
    ("isIP", "::1", True),
    ("ip", "2001:DB8::1", "2001:db8::1"),
    ("isIP", "2001:DB8::1", True),
    ("ip", "1:0:0:2:0:0:0:3", "1:0:0:2::3"),
    ("isIP", "1:0:0:2:0:0:0:3", True),
    ("ip", "fe80::1%eth0", 'error: IP address "fe80::1%eth0" with zone value is not allowed'),
    ("isIP", "fe80::1%eth0", False),
    (
        "ip",
        "fe80::1%",
        'error: IP Address "fe80::1%" parse error during conversion from string: ParseAddr("fe80::1%"): zone must be a non-empty string',
    ),
    ("isIP", "fe80::1%", False),
    (
        "ip",
        "%x",
        'error: IP Address "%x" parse error during conversion from string: ParseAddr("%x"): missing IPv6 address',
    ),
    ("isIP", "%x", False),
    ("ip", "::ffff:1.2.3.4", 'error: IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
    ("isIP", "::ffff:1.2.3.4", False),
    (
        "ip",
        "12345::",
        'error: IP Address "12345::" parse error during conversion from string: ParseAddr("12345::"): each group must have 4 or less digits (at "12345::")',
    ),
    ("isIP", "12345::", False),
    (
        "ip",
        "1::2::3",
        'error: IP Address "1::2::3" parse error during conversion from string: ParseAddr("1::2::3"): multiple :: in address (at ":3")',
    ),
    ("isIP", "1::2::3", False),
    (
        "ip",
        "1:",
        'error: IP Address "1:" parse error during conversion from string: ParseAddr("1:"): colon must be followed by more characters (at ":")',
    ),
    ("isIP", "1:", False),
    (
        "ip",
        "1:x",
        'error: IP Address "1:x" parse error during conversion from string: ParseAddr("1:x"): each colon-separated field must have at least one digit (at "x")',
    ),
    ("isIP", "1:x", False),
    (
        "ip",
        "1:2:3:4:5:6:7",
        'error: IP Address "1:2:3:4:5:6:7" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7"): address string too short',
    ),
    ("isIP", "1:2:3:4:5:6:7", False),
    ("ip", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
    ("isIP", "1:2:3:4:5:6:7::", True),
    (
        "ip",
        "1:2:3:4:5:6:7:8:9",
        'error: IP Address "1:2:3:4:5:6:7:8:9" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")',
    ),
    ("isIP", "1:2:3:4:5:6:7:8:9", False),
    (
        "ip",
        "1:2:3:4:5:6:7:1.2.3.4",
        'error: IP Address "1:2:3:4:5:6:7:1.2.3.4" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7:1.2.3.4"): embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
    ),
    ("isIP", "1:2:3:4:5:6:7:1.2.3.4", False),
    (
        "ip",
        "1:1.2.3.4",
        'error: IP Address "1:1.2.3.4" parse error during conversion from string: ParseAddr("1:1.2.3.4"): embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
    ),
    ("isIP", "1:1.2.3.4", False),
    ("ip", "64:ff9b::1.2.3.4", "64:ff9b::102:304"),
    ("isIP", "64:ff9b::1.2.3.4", True),
    (
        "ip",
        "::1:2:3:4:5:6:7:8",
        'error: IP Address "::1:2:3:4:5:6:7:8" parse error during conversion from string: ParseAddr("::1:2:3:4:5:6:7:8"): the :: must expand to at least one field of zeros',
    ),
    ("isIP", "::1:2:3:4:5:6:7:8", False),
    ("ip", "", 'error: IP Address "" parse error during conversion from string: ParseAddr(""): unable to parse IP'),
    ("isIP", "", False),
    ("ip", "a", 'error: IP Address "a" parse error during conversion from string: ParseAddr("a"): unable to parse IP'),
    ("isIP", "a", False),
    (
        "ip",
        "é.\n",
        'error: IP Address "é.\\n" parse error during conversion from string: ParseAddr("é.\\n"): unexpected character (at "é.\\n")',
    ),
    ("isIP", "é.\n", False),
    (
        "ip",
        ":1",
        'error: IP Address ":1" parse error during conversion from string: ParseAddr(":1"): each colon-separated field must have at least one digit (at ":1")',
    ),
    ("isIP", ":1", False),
    ("ip.isCanonical", "1.2.3.4", True),
    ("ip.isCanonical", "2001:DB8::1", False),
    ("ip.isCanonical", "2001:db8::1", True),
    (
        "ip.isCanonical",
        "x",
        'error: IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP',
    ),
]
MEMBERS = [
    ("family", "0.0.0.0", 4),
    ("isUnspecified", "0.0.0.0", True),
    ("isLoopback", "0.0.0.0", False),
    ("isLinkLocalMulticast", "0.0.0.0", False),
    ("isLinkLocalUnicast", "0.0.0.0", False),
    ("isGlobalUnicast", "0.0.0.0", False),
    ("family", "127.0.0.2", 4),
    ("isUnspecified", "127.0.0.2", False),
    ("isLoopback", "127.0.0.2", True),
    ("isLinkLocalMulticast", "127.0.0.2", False),
    ("isLinkLocalUnicast", "127.0.0.2", False),
    ("isGlobalUnicast", "127.0.0.2", False),
    ("family", "10.0.0.1", 4),
    ("isUnspecified", "10.0.0.1", False),
    ("isLoopback", "10.0.0.1", False),
    ("isLinkLocalMulticast", "10.0.0.1", False),
    ("isLinkLocalUnicast", "10.0.0.1", False),
    ("isGlobalUnicast", "10.0.0.1", True),
    ("family", "255.255.255.255", 4),
    ("isUnspecified", "255.255.255.255", False),
    ("isLoopback", "255.255.255.255", False),
    ("isLinkLocalMulticast", "255.255.255.255", False),
    ("isLinkLocalUnicast", "255.255.255.255", False),
    ("isGlobalUnicast", "255.255.255.255", False),
    ("family", "224.0.0.9", 4),
    ("isUnspecified", "224.0.0.9", False),
    ("isLoopback", "224.0.0.9", False),
    ("isLinkLocalMulticast", "224.0.0.9", True),
    ("isLinkLocalUnicast", "224.0.0.9", False),
    ("isGlobalUnicast", "224.0.0.9", False),
    ("family", "224.0.1.1", 4),
    ("isUnspecified", "224.0.1.1", False),
    ("isLoopback", "224.0.1.1", False),
    ("isLinkLocalMulticast", "224.0.1.1", False),
    ("isLinkLocalUnicast", "224.0.1.1", False),
    ("isGlobalUnicast", "224.0.1.1", False),
    ("family", "169.254.3.4", 4),
    ("isUnspecified", "169.254.3.4", False),
    ("isLoopback", "169.254.3.4", False),
    ("isLinkLocalMulticast", "169.254.3.4", False),
    ("isLinkLocalUnicast", "169.254.3.4", True),
    ("isGlobalUnicast", "169.254.3.4", False),
    ("family", "::", 6),
    ("isUnspecified", "::", True),
    ("isLoopback", "::", False),
    ("isLinkLocalMulticast", "::", False),
    ("isLinkLocalUnicast", "::", False),
    ("isGlobalUnicast", "::", False),
    ("family", "::1", 6),
    ("isUnspecified", "::1", False),
    ("isLoopback", "::1", True),
    ("isLinkLocalMulticast", "::1", False),
    ("isLinkLocalUnicast", "::1", False),
    ("isGlobalUnicast", "::1", False),
    ("family", "ff02::1", 6),
    ("isUnspecified", "ff02::1", False),
    ("isLoopback", "ff02::1", False),
    ("isLinkLocalMulticast", "ff02::1", True),
    ("isLinkLocalUnicast", "ff02::1", False),
    ("isGlobalUnicast", "ff02::1", False),
    ("family", "ff0e::1", 6),
    ("isUnspecified", "ff0e::1", False),
    ("isLoopback", "ff0e::1", False),
    ("isLinkLocalMulticast", "ff0e::1", False),
    ("isLinkLocalUnicast", "ff0e::1", False),
    ("isGlobalUnicast", "ff0e::1", False),
    ("family", "fe80::9", 6),
    ("isUnspecified", "fe80::9", False),
    ("isLoopback", "fe80::9", False),
    ("isLinkLocalMulticast", "fe80::9", False),
    ("isLinkLocalUnicast", "fe80::9", True),
    ("isGlobalUnicast", "fe80::9", False),
    ("family", "fec0::1", 6),
    ("isUnspecified", "fec0::1", False),
    ("isLoopback", "fec0::1", False),
    ("isLinkLocalMulticast", "fec0::1", False),
    ("isLinkLocalUnicast", "fec0::1", False),
    ("isGlobalUnicast", "fec0::1", True),
]


@pytest.mark.parametrize(("name", "text", "expected"), READ)
def test_reading(name: str, text: str, expected: object) -> None:
    """A text is read as the reference reads it, or refused in its words."""
    assert answer(LIBRARY, name, text) == expected


@pytest.mark.parametrize(("name", "text", "expected"), MEMBERS)
def test_members(name: str, text: str, expected: object) -> None:
    """What kind of address it is, by the reference's ranges."""
    assert answer(LIBRARY, name, parse(text)) == expected


def test_equality() -> None:
    """Addresses are equal by number and family; another type is an error."""
    assert parse("2001:DB8::1").cel_equal(parse("2001:db8::1")) is True
    assert parse("0.0.0.1").cel_equal(parse("::1")) is False
    with pytest.raises(CelError, match=r"^no such overload$"):
        parse("::1").cel_equal("::1")


def test_cost() -> None:
    """Reading costs a tenth of the length, a canonical check twice that, everything else 1."""
    assert (charged(LIBRARY, "ip", "2001:db8::1"), charged(LIBRARY, "ip.isCanonical", "2001:db8::1")) == (2, 3)
    assert charged(LIBRARY, "family", parse("::1")) == 1
    assert (parse("::1").cel_size, parse("1.2.3.4").cel_size) == (16, 4)


@pytest.mark.parametrize("sign", ["1.", ":", "1:", "%", "é", "\ud800"])
def test_hostile_texts(sign: str) -> None:
    """A long text, and one with a lone surrogate, is refused at once."""
    assert answer(LIBRARY, "isIP", sign * 1_000_000) is False


@given(st.ip_addresses())
def test_round_trip(address: object) -> None:
    """Every address is read from its usual text and written so again, unless it is IPv4 inside IPv6."""
    text = str(address)
    if getattr(ip_address(text), "ipv4_mapped", None) is None:
        assert answer(LIBRARY, "string", parse(text)) == text
        assert answer(LIBRARY, "ip.isCanonical", text) is True
