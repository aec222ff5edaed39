"""The names for which a certificate is valid: DNS names and IP addresses, as strings.

Common names are ignored: Go, and so every API server, uses only the subject alternative names.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Final

from cryptography import x509

from certs.errors import InvalidNameError

__all__ = ["covers", "missing_names", "names_of", "subject_names"]

# RFC 1035 section 2.3.4, less the root's byte and a length byte.
_LONGEST: Final = 253
# RFC 1123 section 2.1: at most 63 letters, digits and inner hyphens. Go and Kubernetes have the same rule.
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def subject_names(names: Iterable[str]) -> tuple[x509.GeneralName, ...]:
    """The subject alternative names for strings, in the given order, without duplicates.

    `10.0.0.1` and `::1` become IP addresses, anything else a DNS name in lower case. `*.example.com` is allowed.

    Raises InvalidNameError if there is no name, or some are invalid; it lists each of these with its problem.
    """
    if isinstance(names, str):  # A string is an iterable, too: each letter would become a name.
        raise InvalidNameError(f"names is the string {names!r}; give a list of names")
    canonical = dict.fromkeys(_canonical(name) for name in names)
    if not canonical:
        raise InvalidNameError("no names: a certificate needs at least one DNS name or IP address")
    bad = [f"{name!r} {problem}" for name in canonical if (problem := next(_problems(name), None))]
    if bad:
        raise InvalidNameError(f"not a DNS name or IP address: {'; '.join(bad)}")
    return tuple(x509.IPAddress(address) if (address := _address(name)) else x509.DNSName(name) for name in canonical)


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and IP addresses among the subject alternative names, in their order."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in extension.value if isinstance(name, x509.DNSName | x509.IPAddress))


def missing_names(certificate: x509.Certificate, names: Iterable[str]) -> tuple[str, ...]:
    """Those of `names` for which a client would not accept the certificate, in the given order."""
    present = names_of(certificate)
    return tuple(name for name in names if not covers(present, name))


def covers(present: Iterable[str], name: str) -> bool:
    """Whether a certificate for the names `present` is valid for `name`.

    A wildcard stands for exactly one label, the first, and never for an IP address (RFC 6125 section 6.4.3).
    """
    canonical = _canonical(name)
    candidates = {_canonical(candidate) for candidate in present}
    if canonical in candidates:
        return True
    first, _, rest = canonical.partition(".")
    return first != "" and _address(canonical) is None and f"*.{rest}" in candidates


def _canonical(name: str) -> str:
    address = _address(name)
    return str(address) if address is not None else name.lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _problems(name: str) -> Iterator[str]:
    if (address := _address(name)) is not None:
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
            yield "has a zone, which means something on one host only; leave it out"
        return
    if not name:
        yield "is empty"
    if not name.isascii():
        yield "is not ASCII; write it as Punycode (xn--...)"
    if len(name) > _LONGEST:
        yield f"has {len(name)} characters, {_LONGEST} at most"
    if ":" in name or "/" in name:
        yield "has a port, a scheme, a prefix length or brackets; give the bare host"
    labels = name.removeprefix("*.").split(".")
    for label in labels:
        if _LABEL.fullmatch(label) is None:
            yield f"has the label {label!r}; a label is 1 to 63 letters, digits and inner hyphens"
    if labels[-1].isdigit():  # No top-level domain is a number, so this is probably a mistyped IPv4 address.
        yield "ends in a number, but is no IPv4 address"
