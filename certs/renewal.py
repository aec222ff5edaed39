"""When to renew, and why. Pure: a clock that jumped is just another `now`."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from certs.display import listed, moment, titled
from certs.x509.authority import LEAF_LIFETIME, Authority
from certs.x509.certificate import issued_by
from certs.x509.leaf import Leaf
from certs.x509.names import missing_names, names_of
from certs.x509.strength import weakness

__all__ = ["authority_renewal_reason", "renewal_due", "renewal_reason"]

# Two thirds, as cert-manager has it: late enough not to churn, and a third of the life is left for
# retries. A fraction rather than a margin, so that it holds for an hour as for a year.
_RENEWED_AFTER: Final = (2, 3)


def renewal_reason(leaf: Leaf, now: datetime, *, names: Iterable[str], authority: Authority) -> str | None:
    """Say why the leaf has to be renewed now, or None when it can be served on.

    All reasons at once, joined by `; `. Names beyond those wanted are no reason: a leaf lives for days.
    """
    return "; ".join(_leaf_reasons(leaf.certificate, now, tuple(names), authority)) or None


def authority_renewal_reason(
    authority: Authority, now: datetime, *, leaf_lifetime: timedelta = LEAF_LIFETIME
) -> str | None:
    """Say why the CA has to be renewed now, or None when it can go on signing.

    Besides the reasons that a leaf has too: a leaf issued now for `leaf_lifetime` would outlive it.
    """
    return "; ".join(_authority_reasons(authority.certificate, now, leaf_lifetime)) or None


def renewal_due(certificate: x509.Certificate) -> datetime:
    """The moment, aware UTC, at which two thirds of the certificate's life are over: the time to look again."""
    numerator, denominator = _RENEWED_AFTER
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_before_utc + life * numerator / denominator


def _leaf_reasons(
    certificate: x509.Certificate, now: datetime, names: tuple[str, ...], authority: Authority
) -> Iterator[str]:
    if missing := missing_names(certificate, names):
        yield f"it is not for {listed(missing)}, only for {listed(names_of(certificate))}"
    yield from _life_reasons(certificate, now)
    if not issued_by(certificate, authority.certificate):
        yield (
            f"it is signed by another CA than the current one: its issuer is {titled(certificate.issuer)},"
            f" the current CA {titled(authority.certificate.subject)} with SHA-256 {authority.fingerprint}"
        )
    if (weak := weakness(certificate)) is not None:
        yield weak


def _authority_reasons(certificate: x509.Certificate, now: datetime, leaf_lifetime: timedelta) -> Iterator[str]:
    life = tuple(_life_reasons(certificate, now))
    yield from life
    if not life and now + leaf_lifetime > certificate.not_valid_after_utc:
        yield f"a leaf issued now would outlive it: it ends on {moment(certificate.not_valid_after_utc)}"
    if (weak := weakness(certificate)) is not None:
        yield weak


def _life_reasons(certificate: x509.Certificate, now: datetime) -> Iterator[str]:
    start, end, due = certificate.not_valid_before_utc, certificate.not_valid_after_utc, renewal_due(certificate)
    if now < start:
        yield f"it is not valid before {moment(start)} and it is {moment(now)}: a clock was set back"
    elif now > end:
        yield f"it expired on {moment(end)}"
    elif now >= due:
        yield f"two thirds of its life were over on {moment(due)}; it ends on {moment(end)}"
