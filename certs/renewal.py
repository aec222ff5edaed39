"""When to renew, and why. Pure: a clock that jumped is just another `now`."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509

from certs.display import listed, moment, titled
from certs.x509.authority import LEAF_LIFETIME, Authority
from certs.x509.certificate import issued_by
from certs.x509.leaf import Leaf
from certs.x509.names import missing_names, names_of
from certs.x509.strength import weakness

__all__ = ["authority_renewal_due", "authority_renewal_reason", "leaf_renewal_due", "renewal_reason"]


class _Share(NamedTuple):
    """A part of a lifetime, and the words for it. A part fits lifetimes of an hour and of a year; a margin does not."""

    numerator: int
    denominator: int
    over: str


# As in cert-manager: renewals are rare, and a third of a year is left for retries.
_AUTHORITY: Final = _Share(2, 3, "two thirds of its life were over")
# A leaf lives for days, and whoever renews it may be down for some of them.
_LEAF: Final = _Share(1, 2, "half of its life was over")


def renewal_reason(leaf: Leaf, now: datetime, *, names: Iterable[str], authority: Authority) -> str | None:
    """All reasons to renew the leaf now, joined by `; `; None if it can still be served.

    Names that are no longer needed are not a reason, because a leaf lives for days only.
    """
    return "; ".join(_leaf_reasons(leaf.certificate, now, tuple(names), authority)) or None


def authority_renewal_reason(
    authority: Authority, now: datetime, *, leaf_lifetime: timedelta = LEAF_LIFETIME
) -> str | None:
    """All reasons to renew the CA now, joined by `; `; None if it can still sign.

    Unlike a leaf, it is also renewed if a leaf issued now for `leaf_lifetime` would outlive it.
    """
    return "; ".join(_authority_reasons(authority.certificate, now, leaf_lifetime)) or None


def authority_renewal_due(certificate: x509.Certificate) -> datetime:
    """The moment (aware, UTC) at which two thirds of a CA's lifetime are over."""
    return _due(certificate, _AUTHORITY)


def leaf_renewal_due(certificate: x509.Certificate) -> datetime:
    """The moment (aware, UTC) at which half of a leaf's lifetime is over."""
    return _due(certificate, _LEAF)


def _due(certificate: x509.Certificate, share: _Share) -> datetime:
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_before_utc + life * share.numerator / share.denominator


def _leaf_reasons(
    certificate: x509.Certificate, now: datetime, names: tuple[str, ...], authority: Authority
) -> Iterator[str]:
    if missing := missing_names(certificate, names):
        yield f"it is not for {listed(missing)}, only for {listed(names_of(certificate))}"
    yield from _life_reasons(certificate, now, _LEAF)
    if not issued_by(certificate, authority.certificate):
        yield (
            f"it is signed by another CA than the current one: its issuer is {titled(certificate.issuer)},"
            f" the current CA {titled(authority.certificate.subject)} with SHA-256 {authority.fingerprint}"
        )
    if (weak := weakness(certificate)) is not None:
        yield weak


def _authority_reasons(certificate: x509.Certificate, now: datetime, leaf_lifetime: timedelta) -> Iterator[str]:
    life = tuple(_life_reasons(certificate, now, _AUTHORITY))
    yield from life
    if not life and now + leaf_lifetime > certificate.not_valid_after_utc:
        yield f"a leaf issued now would outlive it: it ends on {moment(certificate.not_valid_after_utc)}"
    if (weak := weakness(certificate)) is not None:
        yield weak


def _life_reasons(certificate: x509.Certificate, now: datetime, share: _Share) -> Iterator[str]:
    start, end, due = certificate.not_valid_before_utc, certificate.not_valid_after_utc, _due(certificate, share)
    if now < start:
        yield f"it is not valid before {moment(start)} and it is {moment(now)}: a clock was set back"
    elif now > end:
        yield f"it expired on {moment(end)}"
    elif now >= due:
        yield f"{share.over} on {moment(due)}; it ends on {moment(end)}"
