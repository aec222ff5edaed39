"""Log lines of which one a minute is enough."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from webhook.logs import INTERVAL, Seldom


def test_an_event_is_logged_once_in_a_while() -> None:
    """The first one is logged at once, the next one after a minute, with how often it has happened since."""
    now = [100.0]
    with capture_logs() as lines:
        seldom = Seldom(structlog.get_logger(), lambda: now[0])
        for _ in range(1000):
            seldom.warning("full", bytes=1)
        seldom.warning("other")
        seldom.info("other", "of another kind")
        now[0] += INTERVAL
        seldom.warning("full", bytes=2)

    assert lines == [
        {"event": "full", "log_level": "warning", "bytes": 1, "times": 1},
        {"event": "other", "log_level": "warning", "times": 1},
        {"event": "other", "log_level": "info", "times": 1},
        {"event": "full", "log_level": "warning", "bytes": 2, "times": 1000},
    ]
