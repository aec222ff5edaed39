"""IP addresses and prefixes as Go's net/netip reads them, with its messages.

The standard library's ipaddress accepts other texts and has other messages, so it only writes addresses here: it
shortens IPv6 addresses exactly as netip does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from policies.golang.quote import clean, quote

IPV4_BITS, IPV6_BITS = 32, 128
_FIRST_SIGN = re.compile(r"[.:%]")
_HEX = re.compile(r"[0-9a-fA-F]*")
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_MAPPED = 0xFFFF  # the upper 96 bits of ::ffff:a.b.c.d


class AddressError(ValueError):
    """A text is not an address or prefix. The message is Go's."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address. bits: the length of an address of its family. zone: only of an IPv6 address."""

    number: int
    bits: int
    zone: str = ""

    @property
    def mapped(self) -> bool:
        """Whether this is an IPv4 address mapped into IPv6, such as ::ffff:1.2.3.4."""
        return self.bits == IPV6_BITS and self.number >> IPV4_BITS == _MAPPED

    def __str__(self) -> str:
        if self.bits == IPV4_BITS:
            return str(IPv4Address(self.number))
        return str(IPv6Address(self.number))


def parse_address(text: str) -> Address:
    """The address in a text (netip.ParseAddr). Raises AddressError."""
    sign = _FIRST_SIGN.search(text)
    match sign and sign[0]:
        case ".":
            return Address(_ipv4(text, text), IPV4_BITS)
        case ":":
            return _ipv6(text)
        case "%":
            raise _error(text, "missing IPv6 address")
        case _:
            raise _error(text, "unable to parse IP")


def parse_prefix(text: str) -> tuple[Address, int]:
    """The address and the length of a prefix such as 10.0.0.0/8 (netip.ParsePrefix). Raises AddressError."""
    text = clean(text)
    start, slash, length = text.rpartition("/")
    if not slash:
        raise _prefix_error(text, "no '/'")
    try:
        address = parse_address(start)
    except AddressError as error:
        raise _prefix_error(text, str(error)) from None
    if address.zone:
        raise _prefix_error(text, "IPv6 zones cannot be present in a prefix")
    if not _NUMBER.fullmatch(length) or len(length) > 19 or int(length) >= 2**63:
        raise _prefix_error(text, f"bad bits after slash: {quote(length)}")
    if int(length) > address.bits:
        raise _prefix_error(text, "prefix length out of range")
    return address, int(length)


def _error(text: str, message: str, at: str = "") -> AddressError:
    place = f" (at {quote(at)})" if at else ""
    return AddressError(f"ParseAddr({quote(text)}): {message}{place}")


def _prefix_error(text: str, message: str) -> AddressError:
    return AddressError(f"netip.ParsePrefix({quote(text)}): {message}")


def _ipv4(whole: str, part: str) -> int:
    """The number that four decimal fields stand for. The message is about the first mistake from the left."""
    number, fields, value, digits = 0, 0, 0, 0
    for index, character in enumerate(part):
        if character in "0123456789":
            if digits == 1 and value == 0:
                raise _error(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(character), digits + 1
            if value > 255:
                raise _error(whole, "IPv4 field has value >255")
        elif character == ".":
            if index in {0, len(part) - 1} or part[index - 1] == ".":
                raise _error(whole, "IPv4 field must have at least one digit", part[index:])
            if fields == 3:
                raise _error(whole, "IPv4 address too long")
            number, fields, value, digits = number << 8 | value, fields + 1, 0, 0
        else:
            raise _error(whole, "unexpected character", part[index:])
    if fields < 3:
        raise _error(whole, "IPv4 address too short")
    return number << 8 | value


def _ipv6(text: str) -> Address:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _error(text, "zone must be a non-empty string")
    groups: list[int] = []  # of 16 bits
    ellipsis: int | None = None
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
        if not rest:
            return Address(0, IPV6_BITS, zone)
    while len(groups) < 8:
        digits = _group(text, rest)
        if rest[digits : digits + 1] == ".":
            groups += _embedded(text, rest, len(groups), ellipsis)
            rest = ""
        else:
            groups.append(int(rest[:digits], 16))
            rest = _after_group(text, rest[digits:])
        if rest.startswith(":"):
            if ellipsis is not None:
                raise _error(text, "multiple :: in address", rest)
            ellipsis, rest = len(groups), rest[1:]
        if not rest:
            break
    if rest:
        raise _error(text, "trailing garbage after address", rest)
    return Address(_number(text, groups, ellipsis), IPV6_BITS, zone)


def _group(text: str, rest: str) -> int:
    """The number of hexadecimal digits in the group at the start of `rest`."""
    match = _HEX.match(rest)
    digits = match.end() if match else 0
    if digits > 4:
        raise _error(text, "each group must have 4 or less digits", rest)
    if digits == 0:
        raise _error(text, "each colon-separated field must have at least one digit", rest)
    return digits


def _embedded(text: str, rest: str, groups: int, ellipsis: int | None) -> list[int]:
    if ellipsis is None and groups != 6:
        raise _error(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if groups > 6:
        raise _error(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    number = _ipv4(text, rest)
    return [number >> 16, number & 0xFFFF]


def _after_group(text: str, rest: str) -> str:
    if not rest:
        return rest
    if rest[0] != ":":
        raise _error(text, "unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _error(text, "colon must be followed by more characters", rest)
    return rest[1:]


def _number(text: str, groups: list[int], ellipsis: int | None) -> int:
    if len(groups) < 8:
        if ellipsis is None:
            raise _error(text, "address string too short")
        groups[ellipsis:ellipsis] = [0] * (8 - len(groups))
    elif ellipsis is not None:
        raise _error(text, "the :: must expand to at least one field of zeros")
    number = 0
    for group in groups:
        number = number << 16 | group
    return number
