"""Moments and spans, as they are written everywhere."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography import x509

from certs.material import listed, moment, span, titled


@pytest.mark.parametrize(
    ("length", "words"),
    [
        pytest.param(timedelta(), "0 minutes", id="nothing"),
        pytest.param(timedelta(seconds=119), "1 minute", id="one-minute"),
        pytest.param(timedelta(hours=2, seconds=-1), "119 minutes", id="below-two-hours"),
        pytest.param(timedelta(hours=2), "2 hours", id="two-hours"),
        pytest.param(timedelta(hours=47, minutes=59), "47 hours", id="below-two-days"),
        pytest.param(timedelta(days=2), "2 days", id="two-days"),
        pytest.param(timedelta(days=-3), "3 days", id="past"),
    ],
)
def test_spans_are_in_their_largest_unit_of_two(length: timedelta, words: str) -> None:
    """A span says as much as is needed, rounded down, whichever way it points."""
    assert span(length) == words


def test_moments_are_in_utc() -> None:
    """A moment of another zone is the same moment in UTC."""
    assert moment(datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2)))) == "2026-02-28 23:00:00 UTC"
    assert moment(datetime(2026, 3, 1, 1, tzinfo=UTC)) == "2026-03-01 01:00:00 UTC"


def test_nothing_has_a_word() -> None:
    """Empty names and lists are words too, so that no sentence has a hole."""
    assert (titled(x509.Name([])), listed(())) == ("(no name)", "nothing")
