"""Decides whether to keep or renew stored certificates, and why. Pure: stored bytes in, bytes to store out.

The caller decides where the bytes are stored. For a directory under a lock, `store.ensure` reads, plans and writes
once. Replicas that share a Secret read it, call `plan_authority`, replace it at the resourceVersion that they read, and
start over after a conflict; each replica then issues its own leaf with `plan_leaf`. A caller that may overwrite foreign
files, because the name of its Secret is reserved, catches ForeignFileError, logs it, and plans as if nothing were
stored.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from certs.display import moment, titled
from certs.errors import ForeignFileError
from certs.renewal import authority_renewal_reason, renewal_reason
from certs.storage.content import (
    BUNDLE,
    CA_CERT,
    CA_KEY,
    LEAF_CERT,
    LEAF_KEY,
    NONE,
    StoredPair,
    find_authority,
    find_bundle,
    find_leaf,
)
from certs.x509.authority import AUTHORITY_LIFETIME, LEAF_LIFETIME, Authority, new_authority
from certs.x509.bundle import Bundle, merge
from certs.x509.leaf import Leaf

__all__ = [
    "AuthorityPlan",
    "CertificatePlan",
    "Ensured",
    "plan",
    "plan_authority",
    "plan_leaf",
    "plan_stored_leaf",
    "usable_authority",
]


_EMPTY: Final = Bundle()


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


@dataclass(frozen=True, slots=True)
class AuthorityPlan:
    """The CA to use and its bundle, the reasons for what changed, and the files to store, in the order of writing."""

    authority: Authority
    bundle: Bundle
    reasons: tuple[str, ...]
    writes: Mapping[str, bytes]
    problem: str = ""
    """Why `authority` is a new one. Empty: it is the stored one."""


@dataclass(frozen=True, slots=True)
class CertificatePlan:
    """The outcome, and the files to store before it takes effect, in the order of writing."""

    ensured: Ensured
    writes: Mapping[str, bytes]


def plan(
    stored: Mapping[str, bytes],
    names: Iterable[str],
    now: datetime,
    *,
    leaf_lifetime: timedelta = LEAF_LIFETIME,
    authority_lifetime: timedelta = AUTHORITY_LIFETIME,
) -> CertificatePlan:
    """Decide about CA, bundle and leaf. `stored` maps file names to contents; absent files have no entry.

    Raises ForeignFileError where a file was not made here; InvalidNameError and AuthorityError as `Authority.issue`
    does.
    """
    names = tuple(names)
    trust = plan_authority(stored, now, lifetime=authority_lifetime, leaf_lifetime=leaf_lifetime)
    stored_leaf = find_leaf(stored)
    reason = stored_leaf.problem
    if stored_leaf.pair is not None:
        reason = renewal_reason(stored_leaf.pair, now, names=names, authority=trust.authority) or ""
        if not reason:
            return CertificatePlan(
                Ensured(stored_leaf.pair, trust.authority, trust.bundle, trust.reasons), trust.writes
            )
    leaf = trust.authority.issue(names, now, lifetime=leaf_lifetime)
    reasons = (*trust.reasons, _line(LEAF_CERT, reason))
    writes = {**trust.writes, LEAF_CERT: leaf.cert_pem, LEAF_KEY: leaf.key_pem}
    return CertificatePlan(Ensured(leaf, trust.authority, trust.bundle, reasons), writes)


def plan_authority(
    stored: Mapping[str, bytes],
    now: datetime,
    *,
    lifetime: timedelta = AUTHORITY_LIFETIME,
    leaf_lifetime: timedelta = LEAF_LIFETIME,
    remembered: Bundle = _EMPTY,
) -> AuthorityPlan:
    """Decide about CA and bundle alone.

    remembered: the bundle that was stored before. It is used if the stored one is missing or damaged, because clients
    may trust only those CAs. A stored bundle that can be read takes precedence, even if CAs are missing from it.

    Raises ForeignFileError where a file was not made here.
    """
    stored_authority = find_authority(stored)
    authority, reason = _current(stored_authority, now, leaf_lifetime)
    reasons: list[str] = []
    writes: dict[str, bytes] = {}
    if authority is None:
        authority = new_authority(now, lifetime=lifetime)
        reasons.append(_line(CA_CERT, reason))
        # The certificate before its key, in both pairs: if a crash separates them, it still shows whose files they are.
        writes = {CA_CERT: authority.cert_pem, CA_KEY: authority.key_pem}
    known, problem = find_bundle(stored)
    lost = remembered if problem else ()
    bundle = merge((authority.certificate, *stored_authority.certificates, *known, *lost), now)
    if problem or set(bundle) != set(known):
        # The bundle is first: nobody should see what a new CA signs before the bundle that contains this CA.
        writes = {BUNDLE: bundle.pem, **writes}
        reasons.extend(_bundle_reasons(known, bundle, problem, renewed=bool(reasons)))
    return AuthorityPlan(authority, bundle, tuple(reasons), writes, reason)


def usable_authority(stored: Mapping[str, bytes], now: datetime) -> Authority | None:
    """The stored CA, if clients accept what it signs, even if it has to be renewed soon.

    None if there is no CA, or it is damaged, or it was not made here.
    """
    try:
        pair = find_authority(stored).pair
    except ForeignFileError:
        return None
    authority = Authority(pair.certificate, pair.key) if pair else None
    return authority if authority and authority.signs_at(now) else None


def plan_leaf(
    leaf: Leaf | None, authority: Authority, names: Iterable[str], now: datetime, *, lifetime: timedelta = LEAF_LIFETIME
) -> tuple[Leaf, str]:
    """The leaf to use when it is kept in memory, and the reason if it is a new one (empty if it is unchanged).

    If the CA itself is about to expire, the new leaf expires with it.

    Raises InvalidNameError and AuthorityError as `Authority.issue` does.
    """
    names = tuple(names)
    reason = NONE if leaf is None else renewal_reason(leaf, now, names=names, authority=authority) or ""
    if leaf is not None and not reason:
        return leaf, ""
    issued = authority.issue(names, now, lifetime=min(lifetime, authority.not_after - now))
    return issued, _line("the leaf", reason)


def plan_stored_leaf(
    stored: Mapping[str, bytes], authority: Authority, names: Iterable[str], now: datetime, *, trusted: bool
) -> tuple[Leaf | None, str]:
    """The leaf to store for those who serve it, and the reason; None and an empty reason if the stored one stays.

    trusted: whether clients know the CA. Until they do, a stored leaf that is valid stays, whatever is due.

    Raises ForeignFileError where a file was not made here; InvalidNameError and AuthorityError as `Authority.issue`
    does.
    """
    names = tuple(names)
    stored_leaf = find_leaf(stored)
    pair, reason = stored_leaf.pair, stored_leaf.problem
    if pair is not None:
        reason = renewal_reason(pair, now, names=names, authority=authority) or ""
        if not reason or (pair.not_before <= now <= pair.not_after and not trusted):
            return None, ""
    issued = authority.issue(names, now, lifetime=min(LEAF_LIFETIME, authority.not_after - now))
    return issued, _line(LEAF_CERT, reason)


def _current(stored_authority: StoredPair, now: datetime, leaf_lifetime: timedelta) -> tuple[Authority | None, str]:
    """The stored CA if it can still be used; otherwise None and the reason."""
    if stored_authority.pair is None:
        return None, stored_authority.problem
    authority = Authority(stored_authority.pair.certificate, stored_authority.pair.key)
    reason = authority_renewal_reason(authority, now, leaf_lifetime=leaf_lifetime)
    return (authority, "") if reason is None else (None, reason)


def _bundle_reasons(known: Bundle, bundle: Bundle, problem: str, *, renewed: bool) -> Iterator[str]:
    """The reasons why the bundle changed, apart from a new CA."""
    for certificate in known:
        if certificate not in bundle:
            end = moment(certificate.not_valid_after_utc)
            yield f"{BUNDLE} no longer holds {titled(certificate.subject)}, which expired on {end}"
    if problem:
        if not (renewed and problem == NONE):
            yield _line(BUNDLE, problem)
    elif not renewed and not set(bundle) <= set(known):
        yield _line(BUNDLE, "the current CA was missing from it")


def _line(name: str, reason: str) -> str:
    return f"{name} was {'made' if reason == NONE else 'renewed'}: {reason}"
