"""Explains certificates to people: whether a chain is valid for some names at some time, and what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.material import (
    Bundle,
    covers,
    fingerprint,
    issued_by,
    key_title,
    listed,
    may_sign,
    moment,
    names_of,
    signature_title,
    span,
    titled,
    weakness,
)


class Finding(NamedTuple):
    """The result of one check: whether it passed, and a sentence about it."""

    ok: bool
    text: str


def describe(certificate: x509.Certificate, now: datetime) -> dict[str, Any]:
    """The properties of a certificate, in this order. Moments are `2026-03-01 12:00:00 UTC`; the fingerprint is hex.

    `days_left` counts whole days and is negative once it has expired.
    """
    return {
        "subject": titled(certificate.subject),
        "issuer": titled(certificate.issuer),
        "serial": f"{certificate.serial_number:x}",
        "names": list(names_of(certificate)),
        "not_before": moment(certificate.not_valid_before_utc),
        "not_after": moment(certificate.not_valid_after_utc),
        "days_left": (certificate.not_valid_after_utc - now) // timedelta(days=1),
        "key": key_title(certificate),
        "signature": signature_title(certificate),
        "fingerprint_sha256": fingerprint(certificate),
    }


def verify(
    chain: Sequence[x509.Certificate], bundle: Bundle, names: Iterable[str], now: datetime
) -> tuple[Finding, ...]:
    """All findings, good and bad, of an API server that trusts `bundle` and connects to `names`.

    chain: the leaf first, at least one certificate. The rules are those of Go's crypto/x509, which every API server
    uses; name constraints are not checked. `load_pair` checks whether a key belongs to the leaf.
    """
    findings, present = [], names_of(chain[0])
    for name in names:
        if covers(present, name):
            findings.append(Finding(ok=True, text=f"it is for {name}"))
        elif present:
            findings.append(Finding(ok=False, text=f"it is not for {name}, only for {listed(present)}"))
        else:
            text = f"it is not for {name}: it has no subject alternative names, and Go ignores the common name"
            findings.append(Finding(ok=False, text=text))
    path, trust = _path(chain, bundle, now)
    findings += [_purpose_finding(chain[0]), trust]
    for certificate in path:
        title = titled(certificate.subject)
        start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if now < start:
            text = f"{title} is not valid before {moment(start)}, in {span(start - now)}"
        elif now > end:
            text = f"{title} expired on {moment(end)}, {span(now - end)} ago"
        else:
            text = f"{title} is valid until {moment(end)}, for {span(end - now)}"
        findings.append(Finding(ok=start <= now <= end, text=text))
        # CAs in the bundle are trusted as they are: nobody verifies their own signatures.
        if certificate not in bundle and (weak := weakness(certificate)) is not None:
            findings.append(Finding(ok=False, text=f"{title}: {weak}"))
    return tuple(findings)


def _purpose_finding(leaf: x509.Certificate) -> Finding:
    try:
        purposes = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return Finding(ok=True, text="it may be used for anything: it states no extended key usage")
    if ExtendedKeyUsageOID.SERVER_AUTH in purposes or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in purposes:
        return Finding(ok=True, text="it may be used by a server")
    return Finding(ok=False, text="it may not be used by a server: its extended key usage has no serverAuth")


def _path(chain: Sequence[x509.Certificate], bundle: Bundle, now: datetime) -> tuple[list[x509.Certificate], Finding]:
    """The certificates from the leaf up to one in the bundle, and the finding about this path."""
    path = [chain[0]]
    while path[-1] not in bundle:
        issuers = [c for c in (*bundle, *chain[1:]) if c not in path and issued_by(path[-1], c) and may_sign(c)]
        if not issuers:
            return path, Finding(ok=False, text=_dead_end(path[-1], bundle))
        # A CA that was renewed with its old key has two certificates: prefer the one that is valid now.
        issuers.sort(key=lambda c: not c.not_valid_before_utc <= now <= c.not_valid_after_utc)
        path.append(issuers[0])
    for below, authority in enumerate(path[1:]):
        allowed = authority.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length
        if allowed is not None and below > allowed:
            text = f"{titled(authority.subject)} allows {allowed} CAs below it, and there are {below}"
            return path, Finding(ok=False, text=text)
    return path, Finding(ok=True, text=f"its chain ends in the bundle: {' <- '.join(titled(c.subject) for c in path)}")


def _dead_end(certificate: x509.Certificate, bundle: Bundle) -> str:
    title, issuer = titled(certificate.subject), titled(certificate.issuer)
    if certificate.issuer == certificate.subject:
        return f"{title} is self-signed, and the bundle does not have it"
    if any(issued_by(certificate, c) for c in bundle):
        return f"{title} is signed by {issuer}, which may not sign: its basic constraints or key usage forbid it"
    namesakes = tuple(fingerprint(c) for c in bundle if c.subject == certificate.issuer)
    if namesakes:
        return (
            f"{title} is signed by a CA called {issuer}, but not by the one in the bundle"
            f" (SHA-256 {listed(namesakes)}): that name has another key there"
        )
    held = listed(tuple(titled(c.subject) for c in bundle))
    return f"{title} is signed by {issuer}, which neither the chain nor the bundle has; the bundle has {held}"
