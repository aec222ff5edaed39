"""Log lines of which one a minute is enough: what happens more often is counted in the next one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import structlog

INTERVAL = 60.0


class Seldom:
    """Logs each kind of event at most once in an interval, with `times`, how often it has happened since the last line.

    A kind is the event's name with a variant of it.
    """

    def __init__(
        self, log: structlog.typing.FilteringBoundLogger, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._monotonic = monotonic
        self._last: dict[tuple[str, object], float] = {}
        self._times: Counter[tuple[str, object]] = Counter()

    def info(self, event: str, variant: object = None, **fields: Any) -> None:
        """Log an event, unless it was logged a short time ago."""
        if times := self._due(event, variant):
            self._log.info(event, **fields, times=times)

    def warning(self, event: str, variant: object = None, **fields: Any) -> None:
        """Log an event as a warning, unless it was logged a short time ago."""
        if times := self._due(event, variant):
            self._log.warning(event, **fields, times=times)

    def _due(self, event: str, variant: object) -> int:
        """How often it has happened since the last line, if there may be one now; else 0."""
        kind, now = (event, variant), self._monotonic()
        self._times[kind] += 1
        if now - self._last.get(kind, float("-inf")) < INTERVAL:
            return 0
        self._last = {told: at for told, at in self._last.items() if now - at < INTERVAL} | {kind: now}
        return self._times.pop(kind)
