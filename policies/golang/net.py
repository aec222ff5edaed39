"""IP addresses and prefixes as Go's net/netip reads them, URLs as its net/url does (go1.26), with their messages.

The standard library's ipaddress takes the same addresses, but for zones, and writes them alike; its urllib accepts
almost anything and splits differently. Functions of URLs work on bytes, as in Go, because escapes and messages may cut
a character in two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

from policies.golang.strconv import clean, quote, utf8

IPV4_BITS, IPV6_BITS = 32, 128
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_MAPPED = 0xFFFF  # the upper 96 bits of ::ffff:a.b.c.d


class AddressError(ValueError):
    """A text is not an address or prefix."""


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
    plain, percent, zone = text.partition("%")
    try:
        if ":" not in plain:
            return Address(int(IPv4Address(text)), IPV4_BITS)
        address = Address(int(IPv6Address(plain)), IPV6_BITS, zone)
    except ValueError as error:
        raise AddressError(f"ParseAddr({quote(text)}): {error}") from None
    if percent and not zone:
        raise AddressError(f"ParseAddr({quote(text)}): zone must be a non-empty string")
    return address


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


def _prefix_error(text: str, message: str) -> AddressError:
    return AddressError(f"netip.ParsePrefix({quote(text)}): {message}")


_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_SCHEME = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*+):")
_USERINFO = re.compile(rb"[A-Za-z0-9._:~!$&'()*+,;=%@-]*+")
_PORT = re.compile(rb"(?::[0-9]*+)?")
_PATH_SUFFICIENT = re.compile(rb"[A-Za-z0-9_.~$&+,/:;=@!'()*\[\]%-]*+")
_PERCENT = re.compile(rb"%(?s:.{0,2})")
_ESCAPED = re.compile(rb"%[0-9A-Fa-f]{2}")
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_PATH, _HOST = frozenset(_LETTERS + b"$&+,/:;=@"), frozenset(_LETTERS + b"!$&'()*+,;=:[]<>\"")
"""What needs no escape in a path, and what may stand in a host."""
_PARAMETERS_LIMIT = 10_000


class UrlError(ValueError):
    """A text is not a URL. The message is Go's."""


@dataclass(frozen=True, slots=True)
class WebUrl:
    """A URL as it was written, with its scheme in small letters, and its parts (net/url's URL).

    raw_path: set only if escaping the path gives another text.
    """

    text: bytes
    scheme: bytes = b""
    host: bytes = b""
    path: bytes = b""
    raw_path: bytes = b""
    query: bytes = b""

    @property
    def escaped_path(self) -> bytes:
        """The path as it was written if that was kept, else escaped."""
        if self.raw_path and _PATH_SUFFICIENT.fullmatch(self.raw_path):
            return self.raw_path
        return b"*" if self.path == b"*" else _escaped(self.path)

    @property
    def hostname(self) -> bytes:
        """The host without port and brackets."""
        host = self._split_host()[0]
        return host[1:-1] if host.startswith(b"[") and host.endswith(b"]") else host

    @property
    def port(self) -> bytes:
        """The port, without the colon."""
        return self._split_host()[1]

    def _split_host(self) -> tuple[bytes, bytes]:
        colon = self.host.rfind(b":")
        if colon >= 0 and _PORT.fullmatch(self.host, colon):
            return self.host[:colon], self.host[colon + 1 :]
        return self.host, b""

    def parameters(self) -> dict[bytes, list[bytes]]:
        """The parameters of the query, without malformed ones (URL.Query)."""
        parameters: dict[bytes, list[bytes]] = {}
        if self.query.count(b"&") >= _PARAMETERS_LIMIT:
            return parameters
        for pair in self.query.split(b"&"):
            if not pair or b";" in pair:
                continue
            key, _, value = pair.partition(b"=")
            try:
                name, content = (_unescaped(part.replace(b"+", b" ")) for part in (key, value))
            except UrlError:
                continue
            parameters.setdefault(name, []).append(content)
        return parameters


def parse_request_uri(text: str) -> WebUrl:
    """The URL of a request: it must be absolute, and `#` starts no fragment (url.ParseRequestURI). Raises UrlError."""
    raw = utf8(text)
    try:
        return _parse(raw, request=True)
    except UrlError as error:
        raise UrlError(f"parse {quote(raw)}: {error}") from None


def parse_url(text: str) -> WebUrl:
    """A URL with its fragment (url.Parse). Raises UrlError."""
    raw = utf8(text)
    before, _, fragment = raw.partition(b"#")
    shown = before
    try:
        url = _parse(before, request=False)
        shown = raw
        _unescaped(fragment)
    except UrlError as error:
        raise UrlError(f"parse {quote(shown)}: {error}") from None
    return replace(url, text=url.text + raw[len(before) :])


def _parse(raw: bytes, *, request: bool) -> WebUrl:
    if _CONTROL.search(raw):
        raise UrlError("net/url: invalid control character in URL")
    if not raw and request:
        raise UrlError("empty url")
    if raw == b"*":
        return WebUrl(raw, path=b"*")
    if raw.startswith(b":"):
        raise UrlError("missing protocol scheme")
    match = _SCHEME.match(raw)
    scheme, rest = (match[1].lower(), raw[match.end() :]) if match else (b"", raw)
    text = scheme + raw[len(scheme) :]
    rest, _, query = rest.partition(b"?")
    if not rest.startswith(b"/"):
        if scheme:
            return WebUrl(text, scheme, query=query)
        if request:
            raise UrlError("invalid URI for request")
        if b":" in rest.partition(b"/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    host = b""
    if rest.startswith(b"//") and (scheme or (not request and not rest.startswith(b"///"))):
        slash = rest.find(b"/", 2)
        authority, rest = (rest[2:], b"") if slash < 0 else (rest[2:slash], rest[slash:])
        userinfo, at, host = authority.rpartition(b"@")
        host = _host(scheme, host)
        if at and not _USERINFO.fullmatch(userinfo):
            raise UrlError("net/url: invalid userinfo")
        _unescaped(userinfo)
    path = _unescaped(rest)
    raw_path = b"" if _escaped(path) == rest else rest
    return WebUrl(text, scheme, host, path, raw_path, query)


def _host(scheme: bytes, host: bytes) -> bytes:
    """A host and its port; an IPv6 address stands in brackets."""
    bracket = host.rfind(b"[")
    if bracket < 0:
        colon = host.find(b":") if scheme in {b"http", b"https"} else host.rfind(b":")
        name, port = (host, b"") if colon < 0 else (host[:colon], host[colon:])
    else:
        closing = host.rfind(b"]")
        if bracket > 0:
            raise UrlError("invalid IP-literal")
        if closing < 0:
            raise UrlError("missing ']' in host")
        name, port = host[1:closing], host[closing + 1 :]
    if not _PORT.fullmatch(port):
        raise UrlError(f"invalid port {quote(port)} after host")
    if bracket < 0:
        return _unescaped_host(host)
    plain, percent, zone = name.partition(b"%25")
    plain = _unescaped_host(plain) + _unescaped_host(percent + zone, in_zone=True)
    try:
        address = parse_address(plain.decode(errors="surrogateescape"))
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from None
    if address.bits == IPV4_BITS:
        raise UrlError("invalid IP-literal")
    return b"[" + plain + b"]" + port


def _escaped(path: bytes) -> bytes:
    """A path with %XX for each byte that may not stand in it."""
    if _PATH.issuperset(path):
        return path
    return b"".join([bytes((code,)) if code in _PATH else b"%%%02X" % code for code in path])


def _unescaped(raw: bytes) -> bytes:
    """The bytes without escapes. Raises UrlError for a bad one."""
    for match in _PERCENT.finditer(raw):
        if not _ESCAPED.fullmatch(match[0]):
            raise UrlError(f"invalid URL escape {quote(match[0])}")
    return _ESCAPED.sub(lambda match: bytes((int(match[0][1:], 16),)), raw)


def _unescaped_host(raw: bytes, *, in_zone: bool = False) -> bytes:
    """The bytes without escapes. Raises UrlError for an invalid character or escape.

    In a host only bytes beyond ASCII may be escaped, in a zone also a space and the characters of a host.
    """
    at = 0
    while at < len(raw):
        escaped = raw[at : at + 3]
        if not escaped.startswith(b"%"):
            if raw[at] < 0x80 and raw[at] not in _HOST:
                raise UrlError(f"invalid character {quote(raw[at : at + 1])} in host name")
            at += 1
            continue
        code = int(escaped[1:], 16) if _ESCAPED.fullmatch(escaped) else -1
        if code < 0 or (escaped != b"%25" and (code not in _HOST and code != 0x20 if in_zone else code < 0x80)):
            raise UrlError(f"invalid URL escape {quote(escaped)}")
        at += 3
    return _unescaped(raw)
