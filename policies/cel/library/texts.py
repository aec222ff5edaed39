"""Values that are read from texts: addresses, networks, URLs, versions, and checks of formats.

`ip('10.0.0.1').isLoopback()`, `cidr('10.0.0.0/8').masked()`, `url(...).getHost()`,
`semver('1.2.3').isLessThan(semver('2.0.0'))`, `format.dns1123Label().validate(...)`

Sources: k8s.io/apiserver's pkg/cel/library and pkg/cel: ip.go, cidr.go, urls.go and url.go; jsonpatch.go for its keys;
semverlib.go, and github.com/blang/semver/v4, which parses versions. Of formats k8s.io/apimachinery's
pkg/api/validation/generic.go, pkg/util/validation/validation.go (characters) and pkg/api/validate/content (bytes),
k8s.io/kube-openapi's pkg/validation/strfmt. Lengths count UTF-8 bytes.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from operator import attrgetter
from typing import ClassVar

from policies.cel import types
from policies.cel.cost import REGEX_LENGTH, STRING_TRAVERSAL, of_first, of_first_twice, size, traversal
from policies.cel.environment import Cost, library, succeeds
from policies.cel.types import Type
from policies.cel.values import NONE, CelError, Incomparable, Optional, Value, no_such_overload
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
from policies.kubernetes.name import dns1035_label, dns_label, dns_subdomain, label_key, label_value
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


def _uri(text: str) -> list[str]:
    """The problems of a URL; `isURL()` accepts the same texts (url.ParseRequestURI)."""
    try:
        parse_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


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
    ("is_url_string: isURL(string) -> bool", lambda text: not _uri(text)),
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


# Versions -----------------------------------------------------------------------------------------------------------

_SEMVER = types.struct("kubernetes.Semver")
_DIGITS = re.compile(r"[0-9]*")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]*")
_UINT64 = 2**64


@dataclass(frozen=True, slots=True, eq=False)
class Semver(Incomparable):
    """A version. Comparisons ignore the build metadata."""

    cel_type: ClassVar[Type] = _SEMVER
    identity = attrgetter("major", "minor", "patch", "pre")
    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()
    build: tuple[str, ...] = ()

    def __str__(self) -> str:
        pre = f"-{'.'.join(map(str, self.pre))}" if self.pre else ""
        build = f"+{'.'.join(self.build)}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{build}"


def _order(left: Semver, right: Semver) -> int:
    """The order of two versions: -1, 0 or 1. Prereleases come before the release, numbers before words."""
    numbers = (left.major, left.minor, left.patch), (right.major, right.minor, right.patch)
    if numbers[0] != numbers[1]:
        return 1 if numbers[0] > numbers[1] else -1
    if not left.pre or not right.pre:
        return bool(right.pre) - bool(left.pre)
    ours, theirs = (
        [(False, part, "") if isinstance(part, int) else (True, 0, part) for part in pre]
        for pre in (left.pre, right.pre)
    )
    return int(ours > theirs) - int(ours < theirs)


def _version(text: str) -> Semver:
    text = clean(text)
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _number("major", parts[0]), _number("minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    return Semver(
        major,
        minor,
        _number("patch", patch),
        tuple(map(_pre, pre.split("."))) if dash else (),
        tuple(map(_build, build.split("."))) if plus else (),
    )


def _number(name: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise CelError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelError(f"{name.capitalize()} number must not contain leading zeroes {quote(text)}")
    return _uint(text)


def _uint(text: str) -> int:
    if not text:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) >= _UINT64:
        raise CelError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def _pre(text: str) -> int | str:
    if not text:
        raise CelError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise CelError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return _uint(text)
    if not _IDENTIFIER.fullmatch(text):
        raise CelError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


def _build(text: str) -> str:
    if not text:
        raise CelError("Build meta data is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise CelError(f"Invalid character(s) found in build meta data {quote(text)}")
    return text


def _semver(text: str, normalized: bool = False) -> Semver:  # noqa: FBT001, FBT002 - CEL passes it by position
    """The version in a text; normalized: also in one such as v01.2, if a short one has only numbers."""
    if not normalized:
        return _version(text)
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        stripped = part.lstrip("0")
        if len(part) > 1:
            parts[index] = stripped if stripped[:1] in set("0123456789") else f"0{stripped}"
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return _version(".".join([*parts, "0", "0"][: max(3, len(parts))]))


def _int64(number: int) -> int:
    return number - _UINT64 if number >= 2**63 else number  # Go's conversion from uint64 to int64


SEMVERS = library(
    "kubernetes.Semver",
    ("string_to_semver: semver(string) -> Semver", _semver, of_first),
    ("string_bool_to_semver: semver(string, bool) -> Semver", _semver, of_first),
    ("is_semver_string: isSemver(string) -> bool", succeeds(_semver), of_first),
    ("is_semver_string_bool: isSemver(string, bool) -> bool", succeeds(_semver), of_first),
    ("semver_is_greater_than: Semver.isGreaterThan(Semver) -> bool", lambda left, right: _order(left, right) == 1),
    ("semver_is_less_than: Semver.isLessThan(Semver) -> bool", lambda left, right: _order(left, right) == -1),
    ("semver_compare_to: Semver.compareTo(Semver) -> int", _order),
    ("semver_major: Semver.major() -> int", lambda version: _int64(version.major)),
    ("semver_minor: Semver.minor() -> int", lambda version: _int64(version.minor)),
    ("semver_patch: Semver.patch() -> int", lambda version: _int64(version.patch)),
    named={"Semver": _SEMVER},
    work=0.3,
)


# Formats ------------------------------------------------------------------------------------------------------------

_UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"

_IS_UUID = re.compile(_UUID.removeprefix("(?i)"), re.IGNORECASE | re.ASCII)
_IS_TIME = re.compile(_TIME)
_IS_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_IS_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?+")


def _uuid(text: str) -> list[str]:
    return [] if len(text) <= 36 and _IS_UUID.fullmatch(text) else ["does not match the UUID format"]


def _datetime(text: str) -> list[str]:
    """The problems of a timestamp in RFC 3339. The text after a second T is ignored."""
    day, *rest = text.lower().split("t", 2)
    clock = _IS_TIME.fullmatch(rest[0]) if rest and _is_date(day) else None
    valid = clock and clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"
    return [] if valid else ["invalid datetime"]


def _is_date(text: str) -> bool:
    match = _IS_DATE.fullmatch(text)
    if not match:
        return False
    year, month, day = map(int, match.groups())
    # The calendar repeats every 400 years. Python's has no year 0.
    return 1 <= month <= 12 and 1 <= day <= monthrange(year % 400 + 400, month)[1]


_NAMED_FORMAT = types.struct("kubernetes.NamedFormat")


@dataclass(frozen=True, slots=True, eq=False)
class Format(Incomparable):
    """A format. `check`: returns the problems of a text. `regex_size`: the pattern size that determines the cost."""

    cel_type: ClassVar[Type] = _NAMED_FORMAT
    identity = attrgetter("name")
    name: str
    check: Callable[[str], list[str]]
    regex_size: int


_FORMATS = {
    "dns1123Label": Format("DNS1123Label", dns_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", dns_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", dns1035_label, 30),
    "qualifiedName": Format("QualifiedName", label_key, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", partial(dns_label, is_prefix=True), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", partial(dns_subdomain, is_prefix=True), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", partial(dns1035_label, is_prefix=True), 30),
    "labelValue": Format("LabelValue", label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _uuid, len(_UUID)),
    "byte": Format("byte", lambda text: [] if text and _IS_BASE64.fullmatch(text) else ["invalid base64"], 84),
    "date": Format("date", lambda text: [] if _is_date(text) else ["invalid date"], len(_TIME)),
    "datetime": Format("datetime", _datetime, len(_TIME)),
}


def _validate(format_: Format, text: str) -> Optional:
    wrong = format_.check(text)
    return Optional(wrong) if wrong else NONE


def _of_validate(arguments: Sequence[Value], _: Value) -> int:
    if not isinstance(arguments[0], Format):
        return 1
    text = ceil((1.0 + size(arguments[1])) * STRING_TRAVERSAL)
    return text * ceil(arguments[0].regex_size * REGEX_LENGTH)


FORMATS = library(
    "kubernetes.format",
    ("format-validate: NamedFormat.validate(string) -> optional(list(string))", _validate, _of_validate),
    (
        "format-named: format.named(string) -> optional(NamedFormat)",
        lambda name: Optional(_FORMATS[name]) if name in _FORMATS else NONE,
    ),
    *(
        (f"format.{name}: format.{name}() -> NamedFormat", lambda value=value: value)
        for name, value in _FORMATS.items()
    ),
    named={"NamedFormat": _NAMED_FORMAT},
    work=0.5,
)
