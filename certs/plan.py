"""Decides whether to keep or renew stored certificates, and why. Pure: stored bytes in, bytes to store out.

A stored file is our own if it names our CA, if it is empty or truncated PEM, or if it is a key beside files that name
our CA. Somebody else made any other file, and overwriting it could destroy the only copy. A caller that may overwrite
foreign files, because the name of its Secret is reserved, catches ForeignFileError and plans as if nothing were stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from cryptography import x509

from certs.authority import LEAF_LIFETIME, Authority, Leaf, authority_subject, join_pair, new_authority
from certs.errors import ForeignFileError, KeyMismatchError, PairError, PemError
from certs.material import (
    Bundle,
    covers,
    issued_by,
    listed,
    load_certificates,
    load_key,
    may_sign,
    merge,
    moment,
    titled,
    weakness,
)

CA_CERT: Final = "ca.crt"
CA_KEY: Final = "ca.key"
LEAF_CERT: Final = "tls.crt"
LEAF_KEY: Final = "tls.key"
BUNDLE: Final = "ca-bundle.crt"

# The problem of files that do not exist yet: creating them is not a renewal.
NONE: Final = "there was none"
_T = TypeVar("_T")


class StoredPair(NamedTuple):
    """The contents of a pair of files: a pair, or else a `problem`, the reason to make a new one.

    certificates: those that could be read, with or without their key.
    """

    pair: Leaf | None = None
    problem: str = ""
    certificates: tuple[x509.Certificate, ...] = ()


def find_authority(stored: Mapping[str, bytes]) -> StoredPair:
    """Our CA in `ca.crt` and `ca.key`. Raises ForeignFileError if one of them was not made here."""
    return _find(stored, CA_CERT, CA_KEY, lambda certificate: _is_ours(certificate.subject) and may_sign(certificate))


def find_leaf(stored: Mapping[str, bytes]) -> StoredPair:
    """The leaf in `tls.crt` and `tls.key`, issued by a CA of ours.

    Raises ForeignFileError if one of them was not made here.
    """
    return _find(stored, LEAF_CERT, LEAF_KEY, lambda certificate: _is_ours(certificate.issuer))


def _find(
    stored: Mapping[str, bytes], cert_name: str, key_name: str, is_own: Callable[[x509.Certificate], bool]
) -> StoredPair:
    if cert_name not in stored and key_name not in stored:
        return StoredPair(problem=NONE)
    chain = _parsed(stored, cert_name, load_certificates)
    if not isinstance(chain, str) and not is_own(chain[0]):
        raise _foreign(cert_name, f"it holds {titled(chain[0].subject)}, issued by {titled(chain[0].issuer)}")
    key = _parsed(stored, key_name, load_key)
    if isinstance(chain, str):
        is_lone = cert_name not in stored and not isinstance(key, str)
        if is_lone and not any(_names_us(stored.get(name, b"")) for name in (CA_CERT, LEAF_CERT, BUNDLE)):
            raise _foreign(key_name, f"it holds a private key and there is no {cert_name} to tell whose")
        return StoredPair(problem=chain)
    if isinstance(key, str):
        return StoredPair(problem=key, certificates=chain)
    try:
        return StoredPair(pair=join_pair(chain, key), certificates=chain)
    except KeyMismatchError as error:
        return StoredPair(problem=str(error), certificates=chain)
    except PairError as error:
        raise _foreign(cert_name, str(error)) from error


def _parsed(stored: Mapping[str, bytes], name: str, parse: Callable[[bytes], _T]) -> _T | str:
    """The parsed file, or the reason why it can be replaced."""
    if name not in stored:
        return f"{name} is missing"
    try:
        return parse(stored[name])
    except (PemError, PairError) as error:
        if isinstance(error, PemError) and error.damaged:
            return f"{name} is damaged: {error}"
        raise _foreign(name, str(error)) from error


def _foreign(name: str, reason: str) -> ForeignFileError:
    return ForeignFileError(f"{name}: {reason}; it was not made here")


def _is_ours(name: x509.Name) -> bool:
    return name == authority_subject()


def _names_us(text: bytes) -> bool:
    try:
        return any(_is_ours(certificate.issuer) for certificate in load_certificates(text))
    except PemError:
        return False


def authority_renewal_due(certificate: x509.Certificate) -> datetime:
    """The moment (aware, UTC) at which two thirds of a CA's lifetime are over.

    A part fits lifetimes of an hour and of a year; a margin does not. As in cert-manager: renewals are rare, and a
    third of a year is left for retries.
    """
    start = certificate.not_valid_before_utc
    return start + (certificate.not_valid_after_utc - start) * 2 / 3


def leaf_renewal_due(certificate: x509.Certificate) -> datetime:
    """The moment (aware, UTC) at which half of a leaf's lifetime is over.

    A leaf lives for days, and whoever renews it may be down for some of them.
    """
    start = certificate.not_valid_before_utc
    return start + (certificate.not_valid_after_utc - start) / 2


def renewal_reason(leaf: Leaf, now: datetime, *, names: Iterable[str], authority: Authority) -> str | None:
    """All reasons to renew the leaf now, joined by `; `; None if it can still be served.

    Names that are no longer needed are not a reason, because a leaf lives for days only.
    """
    certificate, reasons = leaf.certificate, []
    if missing := tuple(name for name in names if not covers(leaf.names, name)):
        reasons.append(f"it is not for {listed(missing)}, only for {listed(leaf.names)}")
    reasons += _life_reasons(certificate, now, leaf_renewal_due(certificate), "half of its life was over")
    if not issued_by(certificate, authority.certificate):
        reasons.append(
            f"it is signed by another CA than the current one: its issuer is {titled(certificate.issuer)},"
            f" the current CA {titled(authority.certificate.subject)} with SHA-256 {authority.fingerprint}"
        )
    return "; ".join((*reasons, *filter(None, [weakness(certificate)]))) or None


def authority_renewal_reason(authority: Authority, now: datetime) -> str | None:
    """All reasons to renew the CA now, joined by `; `; None if it can still sign what it should."""
    certificate = authority.certificate
    due = authority_renewal_due(certificate)
    reasons = _life_reasons(certificate, now, due, "two thirds of its life were over")
    if not reasons and now + LEAF_LIFETIME > authority.not_after:
        reasons.append(f"a leaf issued now would outlive it: it ends on {moment(authority.not_after)}")
    return "; ".join((*reasons, *filter(None, [weakness(certificate)]))) or None


def _life_reasons(certificate: x509.Certificate, now: datetime, due: datetime, over: str) -> list[str]:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < start:
        return [f"it is not valid before {moment(start)} and it is {moment(now)}: a clock was set back"]
    if now > end:
        return [f"it expired on {moment(end)}"]
    return [f"{over} on {moment(due)}; it ends on {moment(end)}"] if now >= due else []


@dataclass(frozen=True, slots=True)
class Ensured:
    """A leaf that can be served now, the CA that signed it, and the bundle that makes clients trust it.

    When the CA is new, publish `bundle` to the clients before serving `leaf`. Until then they do not know the new CA,
    but they still trust the leaf that is being served.
    """

    leaf: Leaf
    authority: Authority
    bundle: Bundle
    reasons: tuple[str, ...] = ()
    """What was made, renewed or dropped, and why; one sentence each, for the log. Empty: nothing changed."""
    writes: Mapping[str, bytes] = field(default_factory=dict)
    """The files to store before it takes effect, in the order of writing."""


@dataclass(frozen=True, slots=True)
class AuthorityPlan:
    """The CA to use and its bundle, the reasons for what changed, and the files to store, in the order of writing."""

    authority: Authority
    bundle: Bundle
    reasons: tuple[str, ...]
    writes: Mapping[str, bytes]
    problem: str = ""
    """Why `authority` is a new one. Empty: it is the stored one."""


def plan(stored: Mapping[str, bytes], names: Iterable[str], now: datetime) -> Ensured:
    """Decide about CA, bundle and leaf. `stored` maps file names to contents; absent files have no entry.

    Raises ForeignFileError where a file was not made here; InvalidNameError and CertificateError as `Authority.issue`
    does.
    """
    trust = plan_authority(stored, now)
    leaf, reason = plan_leaf(stored, trust.authority, names, now, trusted=True)
    writes = {**trust.writes, LEAF_CERT: leaf.cert_pem, LEAF_KEY: leaf.key_pem} if reason else trust.writes
    reasons = (*trust.reasons, reason) if reason else trust.reasons
    return Ensured(leaf, trust.authority, trust.bundle, reasons, writes)


def plan_authority(
    stored: Mapping[str, bytes], now: datetime, *, remembered: Iterable[x509.Certificate] = ()
) -> AuthorityPlan:
    """Decide about CA and bundle alone.

    remembered: the bundle that was stored before. It is used if the stored one is missing or damaged, because clients
    may trust only those CAs. A stored bundle that can be read takes precedence, even if CAs are missing from it.

    Raises ForeignFileError where a file was not made here.
    """
    stored_authority = find_authority(stored)
    pair, reason = stored_authority.pair, stored_authority.problem
    authority = Authority((pair.certificate,), pair.key) if pair is not None else None
    if authority is not None:
        reason = authority_renewal_reason(authority, now) or ""
    reasons: list[str] = []
    writes: dict[str, bytes] = {}
    if authority is None or reason:
        authority = new_authority(now)
        reasons.append(_line(CA_CERT, reason))
        # The certificate before its key, in both pairs: if a crash separates them, it still shows whose files they are.
        writes = {CA_CERT: authority.cert_pem, CA_KEY: authority.key_pem}
    # The bundle may contain CAs of others.
    read = _parsed(stored, BUNDLE, load_certificates) if BUNDLE in stored else NONE
    known, problem = ((), read) if isinstance(read, str) else (read, "")
    lost = remembered if problem else ()
    bundle = merge((authority.certificate, *stored_authority.certificates, *known, *lost), now)
    if problem or set(bundle) != set(known):
        # The bundle is first: nobody should see what a new CA signs before the bundle that contains this CA.
        is_new, writes = bool(writes), {BUNDLE: bundle.pem, **writes}
        for certificate in dict.fromkeys(known):
            if certificate not in bundle:
                end = moment(certificate.not_valid_after_utc)
                reasons.append(f"{BUNDLE} no longer holds {titled(certificate.subject)}, which expired on {end}")
        if problem and not (is_new and problem == NONE):
            reasons.append(_line(BUNDLE, problem))
        elif not problem and not is_new and not set(bundle) <= set(known):
            reasons.append(_line(BUNDLE, "the current CA was missing from it"))
    return AuthorityPlan(authority, bundle, tuple(reasons), writes, reason)


def usable_authority(stored: Mapping[str, bytes], now: datetime) -> Authority | None:
    """The stored CA, if clients accept what it signs, even if it has to be renewed soon.

    None if there is no CA, or it is damaged, or it was not made here.
    """
    with suppress(ForeignFileError):
        if (pair := find_authority(stored).pair) and pair.not_before <= now < pair.not_after:
            return Authority((pair.certificate,), pair.key)
    return None


def plan_leaf(
    stored: Mapping[str, bytes], authority: Authority, names: Iterable[str], now: datetime, *, trusted: bool
) -> tuple[Leaf, str]:
    """The leaf to serve, and the reason if it is a new one, which has to be stored; else an empty text.

    trusted: whether clients know the CA. Until they do, a stored leaf that is valid stays, whatever is due. If the CA
    itself is about to expire, a new leaf expires with it.

    Raises ForeignFileError where a file was not made here; InvalidNameError and CertificateError as `Authority.issue`
    does.
    """
    names = tuple(names)
    stored_leaf = find_leaf(stored)
    pair, reason = stored_leaf.pair, stored_leaf.problem
    if pair is not None:
        reason = renewal_reason(pair, now, names=names, authority=authority) or ""
        if not reason or (pair.not_before <= now <= pair.not_after and not trusted):
            return pair, ""
    issued = authority.issue(names, now, lifetime=min(LEAF_LIFETIME, authority.not_after - now))
    return issued, _line(LEAF_CERT, reason)


def _line(name: str, reason: str) -> str:
    return f"{name} was {'made' if reason == NONE else 'renewed'}: {reason}"
