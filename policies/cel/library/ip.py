"""Addresses and networks: `ip('10.0.0.1').isLoopback()`, `cidr('10.0.0.0/8').containsIP('10.0.0.1')`.

Sources: k8s.io/apiserver's pkg/cel/library/ip.go and cidr.go, pkg/cel/ip.go and cidr.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from operator import attrgetter
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import of_first, of_first_twice, traversal
from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Function, Implementation, Library, Overload, function, single, succeeds
from policies.cel.types import Type
from policies.cel.values import Incomparable, Value
from policies.golang.netip import IPV4_BITS, Address, AddressError, parse_address, parse_prefix
from policies.golang.quote import clean, quote

TYPE = types.opaque("net.IP")


@dataclass(frozen=True, slots=True, eq=False)
class IP(Incomparable):
    """An IP address without a zone. It is never an IPv4 address mapped into IPv6."""

    cel_type: ClassVar[Type] = TYPE
    address: Address

    def cel_equal(self, other: object) -> bool:
        """Whether `==` holds. Raises CelError for a value of another type."""
        if not isinstance(other, IP):
            raise no_such_overload()
        return self.address == other.address

    @property
    def cel_size(self) -> int:
        """The length in bytes."""
        return self.address.bits // 8

    def __str__(self) -> str:
        return str(self.address)


def parse(text: str) -> IP:
    """The address in a text. Raises CelError with the reference's message."""
    text = clean(text)
    try:
        address = parse_address(text)
    except AddressError as error:
        message = f"IP Address {quote(text)} parse error during conversion from string: {error}"
        raise CelError(message) from None
    if address.zone:
        raise CelError(f"IP address {quote(text)} with zone value is not allowed")
    if address.mapped:
        raise CelError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


def _is_canonical(text: str) -> bool:
    return str(parse(text)) == text


def _is_unspecified(ip: IP) -> bool:
    return ip.address.number == 0


def _is_loopback(ip: IP) -> bool:
    address = ip.address
    return address.number >> 24 == 127 if address.bits == IPV4_BITS else address.number == 1


def _is_link_local_multicast(ip: IP) -> bool:
    address = ip.address
    if address.bits == IPV4_BITS:
        return address.number >> 8 == 0xE00000  # 224.0.0.0/24
    return (address.number >> 112) & 0xFF0F == 0xFF02


def _is_link_local_unicast(ip: IP) -> bool:
    address = ip.address
    if address.bits == IPV4_BITS:
        return address.number >> 16 == 0xA9FE  # 169.254.0.0/16
    return address.number >> 118 == 0xFE80 >> 6  # fe80::/10


def _is_multicast(ip: IP) -> bool:
    address = ip.address
    return address.number >> 28 == 0xE if address.bits == IPV4_BITS else address.number >> 120 == 0xFF


def _is_global_unicast(ip: IP) -> bool:
    if ip.address == Address(2**32 - 1, IPV4_BITS):  # the broadcast address
        return False
    return not (_is_unspecified(ip) or _is_loopback(ip) or _is_multicast(ip) or _is_link_local_unicast(ip))


def _property(name: str, overload: str, result: Type, call: Implementation) -> Function:
    return single(name, overload, (TYPE,), result, call, member=True, cost=1)


IPS = Library(
    name="kubernetes.net.ip",
    types={"net.IP": TYPE},
    functions=(
        single("ip", "string_to_ip", (types.STRING,), TYPE, parse, cost=of_first),
        _property("family", "ip_family", types.INT, lambda ip: 4 if ip.address.bits == IPV4_BITS else 6),
        single("ip.isCanonical", "ip_is_canonical", (types.STRING,), types.BOOL, _is_canonical, cost=of_first_twice),
        _property("isUnspecified", "ip_is_unspecified", types.BOOL, _is_unspecified),
        _property("isLoopback", "ip_is_loopback", types.BOOL, _is_loopback),
        _property("isLinkLocalMulticast", "ip_is_link_local_multicast", types.BOOL, _is_link_local_multicast),
        _property("isLinkLocalUnicast", "ip_is_link_local_unicast", types.BOOL, _is_link_local_unicast),
        _property("isGlobalUnicast", "ip_is_global_unicast", types.BOOL, _is_global_unicast),
        single("isIP", "is_ip", (types.STRING,), types.BOOL, succeeds(parse), cost=of_first),
        single("string", "ip_to_string", (TYPE,), types.STRING, str),
    ),
)


_NETWORK = types.opaque("net.CIDR")
_PARSE_ERROR = "network address parse error during conversion from string: "


@dataclass(frozen=True, slots=True, eq=False)
class CIDR(Incomparable):
    """An address and the number of its bits that form the network. Other bits are kept: 10.0.0.1/8 does not change."""

    cel_type: ClassVar[Type] = _NETWORK
    address: Address
    length: int

    def cel_equal(self, other: object) -> bool:
        """Whether `==` holds. Raises CelError for a value of another type."""
        if not isinstance(other, CIDR):
            raise no_such_overload()
        return (self.address, self.length) == (other.address, other.length)

    @property
    def cel_size(self) -> int:
        """The length of the network part in bytes, rounded up."""
        return ceil(self.length / 8)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


def parse_network(text: str) -> CIDR:
    """The network in a text. Raises CelError. As in the reference, its message has the prefix twice."""
    text = clean(text)
    try:
        address, length = parse_prefix(text)
    except AddressError as error:
        raise CelError(f"{_PARSE_ERROR}{_PARSE_ERROR}{error}") from None
    if address.mapped:
        raise CelError(f"{_PARSE_ERROR}IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDR(address, length)


def _same_network(network: CIDR, other: Address, length: int) -> bool:
    address = network.address
    return address.bits == other.bits and (address.number ^ other.number) >> (address.bits - length) == 0


def _contains_ip(network: CIDR, address: IP) -> bool:
    return _same_network(network, address.address, network.length)


def _contains_ip_text(network: CIDR, text: str) -> bool:
    try:
        address = parse(text)
    except CelError:
        raise no_such_overload() from None  # the reference loses the message here
    return _contains_ip(network, address)


def _contains_cidr(network: CIDR, other: CIDR) -> bool:
    return network.length <= other.length and _same_network(network, other.address, network.length)


def _contains_cidr_text(network: CIDR, text: str) -> bool:
    return _contains_cidr(network, parse_network(text))


def _masked(network: CIDR) -> CIDR:
    address = network.address
    host = address.bits - network.length
    return CIDR(Address(address.number >> host << host, address.bits), network.length)


def _of_contains_ip_text(arguments: Sequence[Value], result: Value) -> int:
    return of_first_twice(arguments, result) + traversal(arguments[1])


def _of_contains_cidr(arguments: Sequence[Value], result: Value) -> int:
    return of_first_twice(arguments, result) + traversal(arguments[0]) + 1


def _of_contains_cidr_text(arguments: Sequence[Value], result: Value) -> int:
    return _of_contains_cidr(arguments, result) + traversal(arguments[1])


_CONTAINS_IP = (
    Overload(
        id="cidr_contains_ip_string",
        parameters=(_NETWORK, types.STRING),
        result=types.BOOL,
        call=_contains_ip_text,
        member=True,
        cost=_of_contains_ip_text,
    ),
    Overload(id="cidr_contains_ip_ip", parameters=(_NETWORK, TYPE), result=types.BOOL, call=_contains_ip, member=True),
)
_CONTAINS_CIDR = (
    Overload(
        id="cidr_contains_cidr_string",
        parameters=(_NETWORK, types.STRING),
        result=types.BOOL,
        call=_contains_cidr_text,
        member=True,
        cost=_of_contains_cidr_text,
    ),
    Overload(
        id="cidr_contains_cidr", parameters=(_NETWORK, _NETWORK), result=types.BOOL, call=_contains_cidr, member=True
    ),
)

CIDRS = Library(
    name="kubernetes.net.cidr",
    types={"net.CIDR": _NETWORK, "net.IP": TYPE},
    functions=(
        single("cidr", "string_to_cidr", (types.STRING,), _NETWORK, parse_network, cost=of_first),
        function("containsIP", *_CONTAINS_IP, cost=of_first_twice),
        function("containsCIDR", *_CONTAINS_CIDR, cost=_of_contains_cidr),
        function(
            "ip",
            Overload(
                id="cidr_ip",
                parameters=(_NETWORK,),
                result=TYPE,
                call=lambda network: IP(network.address),
                member=True,
                cost=1,
            ),
            cost=of_first,
        ),
        single("prefixLength", "cidr_prefix_length", (_NETWORK,), types.INT, attrgetter("length"), member=True, cost=1),
        single("masked", "cidr_masked", (_NETWORK,), _NETWORK, _masked, member=True, cost=1),
        single("isCIDR", "is_cidr", (types.STRING,), types.BOOL, succeeds(parse_network), cost=of_first),
        single("string", "cidr_to_string", (_NETWORK,), types.STRING, str),
    ),
)
