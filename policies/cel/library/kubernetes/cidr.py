"""Networks: `cidr('10.0.0.0/8').containsIP('10.0.0.1')` (apiserver's pkg/cel/library/cidr.go, pkg/cel/cidr.go)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from operator import attrgetter
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import of_first, of_first_twice, traversal
from policies.cel.errors import CelError, no_such_overload
from policies.cel.function import Library, Overload, function, single, succeeds
from policies.cel.library.kubernetes import ip
from policies.cel.library.kubernetes.ip import IP
from policies.cel.types import Type
from policies.cel.values import Incomparable, Value
from policies.golang.netip import Address, AddressError, parse_prefix
from policies.golang.quote import clean, quote

TYPE = types.opaque("net.CIDR")
_PARSE_ERROR = "network address parse error during conversion from string: "


@dataclass(frozen=True, slots=True, eq=False)
class CIDR(Incomparable):
    """An address and the number of its bits that form the network. Other bits are kept: 10.0.0.1/8 does not change."""

    cel_type: ClassVar[Type] = TYPE
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


def parse(text: str) -> CIDR:
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
        address = ip.parse(text)
    except CelError:
        raise no_such_overload() from None  # the reference loses the message here
    return _contains_ip(network, address)


def _contains_cidr(network: CIDR, other: CIDR) -> bool:
    return network.length <= other.length and _same_network(network, other.address, network.length)


def _contains_cidr_text(network: CIDR, text: str) -> bool:
    return _contains_cidr(network, parse(text))


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
        parameters=(TYPE, types.STRING),
        result=types.BOOL,
        call=_contains_ip_text,
        member=True,
        cost=_of_contains_ip_text,
    ),
    Overload(id="cidr_contains_ip_ip", parameters=(TYPE, ip.TYPE), result=types.BOOL, call=_contains_ip, member=True),
)
_CONTAINS_CIDR = (
    Overload(
        id="cidr_contains_cidr_string",
        parameters=(TYPE, types.STRING),
        result=types.BOOL,
        call=_contains_cidr_text,
        member=True,
        cost=_of_contains_cidr_text,
    ),
    Overload(id="cidr_contains_cidr", parameters=(TYPE, TYPE), result=types.BOOL, call=_contains_cidr, member=True),
)

LIBRARY = Library(
    name="kubernetes.net.cidr",
    types={"net.CIDR": TYPE, "net.IP": ip.TYPE},
    functions=(
        single("cidr", "string_to_cidr", (types.STRING,), TYPE, parse, cost=of_first),
        function("containsIP", *_CONTAINS_IP, cost=of_first_twice),
        function("containsCIDR", *_CONTAINS_CIDR, cost=_of_contains_cidr),
        function(
            "ip",
            Overload(
                id="cidr_ip",
                parameters=(TYPE,),
                result=ip.TYPE,
                call=lambda network: IP(network.address),
                member=True,
                cost=1,
            ),
            cost=of_first,
        ),
        single("prefixLength", "cidr_prefix_length", (TYPE,), types.INT, attrgetter("length"), member=True, cost=1),
        single("masked", "cidr_masked", (TYPE,), TYPE, _masked, member=True, cost=1),
        single("isCIDR", "is_cidr", (types.STRING,), types.BOOL, succeeds(parse), cost=of_first),
        single("string", "cidr_to_string", (TYPE,), types.STRING, str),
    ),
)
