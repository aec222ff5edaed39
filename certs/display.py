"""How moments, spans and names are written in every reason, finding and error."""

from datetime import UTC, datetime, timedelta

from cryptography import x509

__all__ = ["listed", "moment", "span", "titled"]


def moment(when: datetime) -> str:
    """An instant, to the second, always in UTC: `2026-03-01 12:00:00 UTC`."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(length: timedelta) -> str:
    """A length of time in its largest useful unit: `9 days`, `30 hours`, `12 minutes`."""
    seconds = int(abs(length).total_seconds())
    # At least two of a unit: "1 day" for 47 hours would hide half of the time that is left.
    for unit, size in (("day", 86_400), ("hour", 3_600)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}s"
    minutes = seconds // 60
    return f"{minutes} minute" if minutes == 1 else f"{minutes} minutes"


def titled(name: x509.Name) -> str:
    """A subject or issuer as one line, `CN=cks-admission CA`; `(no name)` when it is empty."""
    return name.rfc4514_string() or "(no name)"


def listed(items: tuple[str, ...]) -> str:
    """Several things in one sentence, in the order given; `nothing` when there are none."""
    return ", ".join(items) or "nothing"
