"""Addresses, networks and URLs: `ip('10.0.0.1').isLoopback()`, `cidr('10.0.0.0/8').masked()`, `url(...).getHost()`.

Sources: k8s.io/apiserver's pkg/cel/library and pkg/cel: ip.go, cidr.go, urls.go and url.go; jsonpatch.go for its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from operator import attrgetter
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import of_first, of_first_twice, traversal
from policies.cel.environment import Cost, library, succeeds
from policies.cel.library.format import uri
from policies.cel.types import Type
from policies.cel.values import CelError, Incomparable, Value, no_such_overload
from policies.golang.net import (
    IPV4_BITS,
    Address,
    AddressError,
    UrlError,
    WebUrl,
    parse_address,
    parse_prefix,
    parse_request_uri,
    parse_url,
)
from policies.golang.strconv import clean, quote, text_of
from policies.kubernetes.release import V1_38

IP_TYPE = types.opaque("net.IP")


@dataclass(frozen=True, slots=True, eq=False)
class IP(Incomparable):
    """An IP address without a zone. It is never an IPv4 address mapped into IPv6."""

    cel_type: ClassVar[Type] = IP_TYPE
    identity = attrgetter("address")
    address: Address

    @property
    def cel_size(self) -> int:
        """The length in bytes."""
        return self.address.bits // 8

    def __str__(self) -> str:
        return str(self.address)


def parse_ip(text: str) -> IP:
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


def _within(four: tuple[int, int], six: tuple[int, int]) -> Callable[[IP], bool]:
    """Whether an address begins with some bits. four, six: how many bits are below those in IPv4 and IPv6, and they."""

    def is_within(ip: IP) -> bool:
        below, start = four if ip.address.bits == IPV4_BITS else six
        return ip.address.number >> below == start

    return is_within


_is_unspecified = _within((0, 0), (0, 0))
_is_loopback = _within((24, 127), (0, 1))
_is_multicast = _within((28, 0xE), (120, 0xFF))
_is_link_local_unicast = _within((16, 0xA9FE), (118, 0xFE80 >> 6))  # 169.254.0.0/16, fe80::/10


def _is_link_local_multicast(ip: IP) -> bool:
    address = ip.address
    if address.bits == IPV4_BITS:
        return address.number >> 8 == 0xE00000  # 224.0.0.0/24
    return (address.number >> 112) & 0xFF0F == 0xFF02


def _is_global_unicast(ip: IP) -> bool:
    if ip.address == Address(2**32 - 1, IPV4_BITS):  # the broadcast address
        return False
    return not (_is_unspecified(ip) or _is_loopback(ip) or _is_multicast(ip) or _is_link_local_unicast(ip))


IPS = library(
    "kubernetes.net.ip",
    ("string_to_ip: ip(string) -> net.IP", parse_ip, of_first),
    ("ip_family: net.IP.family() -> int", lambda ip: 4 if ip.address.bits == IPV4_BITS else 6),
    ("ip_is_canonical: ip.isCanonical(string) -> bool", lambda text: str(parse_ip(text)) == text, of_first_twice),
    ("ip_is_unspecified: net.IP.isUnspecified() -> bool", _is_unspecified),
    ("ip_is_loopback: net.IP.isLoopback() -> bool", _is_loopback),
    ("ip_is_link_local_multicast: net.IP.isLinkLocalMulticast() -> bool", _is_link_local_multicast),
    ("ip_is_link_local_unicast: net.IP.isLinkLocalUnicast() -> bool", _is_link_local_unicast),
    ("ip_is_global_unicast: net.IP.isGlobalUnicast() -> bool", _is_global_unicast),
    ("is_ip: isIP(string) -> bool", succeeds(parse_ip), of_first),
    ("ip_to_string: string(net.IP) -> string", str),
    types={"net.IP": IP_TYPE},
    work=0.2,
)


_NETWORK = types.opaque("net.CIDR")
_PARSE_ERROR = "network address parse error during conversion from string: "


@dataclass(frozen=True, slots=True, eq=False)
class CIDR(Incomparable):
    """An address and the number of its bits that form the network. Other bits are kept: 10.0.0.1/8 does not change."""

    cel_type: ClassVar[Type] = _NETWORK
    identity = attrgetter("address", "length")
    address: Address
    length: int

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


def _contains_ip(network: CIDR, ip: IP | str) -> bool:
    try:
        address = (parse_ip(ip) if isinstance(ip, str) else ip).address
    except CelError:
        raise no_such_overload() from None  # the reference loses the message here
    return _same_network(network, address, network.length)


def _contains_cidr(network: CIDR, other: CIDR | str) -> bool:
    other = parse_network(other) if isinstance(other, str) else other
    return network.length <= other.length and _same_network(network, other.address, network.length)


def _masked(network: CIDR) -> CIDR:
    address = network.address
    host = address.bits - network.length
    return CIDR(Address(address.number >> host << host, address.bits), network.length)


def _of_contains_cidr(arguments: Sequence[Value], result: Value) -> int:
    return of_first_twice(arguments, result) + traversal(arguments[0]) + 1


def _with_text(own: Cost) -> Cost:
    """The cost of a call that reads its second argument first."""
    return lambda arguments, result: own(arguments, result) + traversal(arguments[1])


CIDRS = library(
    "kubernetes.net.cidr",
    ("string_to_cidr: cidr(string) -> net.CIDR", parse_network, of_first),
    ("cidr_contains_ip_string: net.CIDR.containsIP(string) -> bool", _contains_ip, _with_text(of_first_twice)),
    ("cidr_contains_ip_ip: net.CIDR.containsIP(net.IP) -> bool", _contains_ip, of_first_twice),
    ("cidr_contains_cidr_string: net.CIDR.containsCIDR(string) -> bool", _contains_cidr, _with_text(_of_contains_cidr)),
    ("cidr_contains_cidr: net.CIDR.containsCIDR(net.CIDR) -> bool", _contains_cidr, _of_contains_cidr),
    ("cidr_ip: net.CIDR.ip() -> net.IP", lambda network: IP(network.address), 1),
    ("cidr_prefix_length: net.CIDR.prefixLength() -> int", attrgetter("length")),
    ("cidr_masked: net.CIDR.masked() -> net.CIDR", _masked),
    ("is_cidr: isCIDR(string) -> bool", succeeds(parse_network), of_first),
    ("cidr_to_string: string(net.CIDR) -> string", str),
    types={"net.CIDR": _NETWORK, "net.IP": IP_TYPE},
    costs={"containsIP": of_first_twice, "containsCIDR": _of_contains_cidr},
    work=0.2,
)
CIDRS_1 = library(
    "kubernetes.net.cidr.1",
    ("cidr_is_mask: net.CIDR.isMask() -> bool", lambda network: _masked(network).address == network.address),
    named={"net.CIDR": _NETWORK},
    since=V1_38,
)


URL_TYPE = types.struct("kubernetes.URL")


@dataclass(frozen=True, slots=True, eq=False)
class URL(Incomparable):
    """A URL. Two are equal if their texts are, but for the case of the scheme."""

    cel_type: ClassVar[Type] = URL_TYPE
    identity = str
    parts: WebUrl

    def __str__(self) -> str:
        return text_of(self.parts.text)


def _query(url: URL) -> dict[str, list[str]]:
    return {text_of(name): list(map(text_of, values)) for name, values in url.parts.parameters().items()}


def _read_url(text: str) -> URL:
    """The URL in a text: absolute, or a path from the root. Raises CelError with the reference's message."""
    try:
        parse_request_uri(text)
        return URL(parse_url(text))
    except UrlError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None


URLS = library(
    "kubernetes.urls",
    ("string_to_url: url(string) -> URL", _read_url, of_first),
    ("url_get_scheme: URL.getScheme() -> string", lambda url: text_of(url.parts.scheme)),
    ("url_get_host: URL.getHost() -> string", lambda url: text_of(url.parts.host)),
    ("url_get_hostname: URL.getHostname() -> string", lambda url: text_of(url.parts.hostname)),
    ("url_get_port: URL.getPort() -> string", lambda url: text_of(url.parts.port)),
    ("url_get_escaped_path: URL.getEscapedPath() -> string", lambda url: text_of(url.parts.escaped_path)),
    ("url_get_query: URL.getQuery() -> map(string, list(string))", _query),
    ("is_url_string: isURL(string) -> bool", lambda text: not uri(text)),
    named={"URL": URL_TYPE},
    work=1.0,
)


def _escape_key(key: str) -> str:
    """A key as in a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


JSONPATCH = library(
    "kubernetes.jsonpatch",
    ("string_jsonpatch_escapeKey_string: jsonpatch.escapeKey(string) -> string", _escape_key, of_first),
)
