"""Log lines of which one a minute is enough: what happens more often is counted in the next one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import structlog

INTERVAL = 60.0


class Seldom:
    """Logs each event at most once in an interval, with `times`, how often it has happened since the line before."""

    def __init__(
        self, log: structlog.typing.FilteringBoundLogger, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._monotonic = monotonic
        self._last: dict[str, float] = {}
        self._times: Counter[str] = Counter()

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event as a warning, unless it was logged a short time ago."""
        self._times[event] += 1
        now = self._monotonic()
        if now - self._last.get(event, float("-inf")) >= INTERVAL:
            self._last[event] = now
            self._log.warning(event, **fields, times=self._times.pop(event))
