"""IP addresses: `ip('10.0.0.1').isLoopback()` (k8s.io/apiserver's pkg/cel/library/ip.go and pkg/cel/ip.go)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import of_first, of_first_twice
from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Function, Implementation, Library, single, succeeds
from policies.cel.types import Type
from policies.cel.values import Incomparable
from policies.golang.netip import IPV4_BITS, Address, AddressError, parse_address
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


LIBRARY = Library(
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
