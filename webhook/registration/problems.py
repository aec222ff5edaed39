"""Problems that last: each is logged when it arises or becomes another one, not each time that it is met."""

from __future__ import annotations

from typing import Any, Literal

import structlog


class Problems:
    """What is wrong now, by the event under which it is logged."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._log = structlog.get_logger()

    def __contains__(self, event: str) -> bool:
        """Whether something is wrong of which this event tells."""
        return event in self._reasons

    @property
    def reasons(self) -> list[str]:
        """What is wrong, a line each."""
        return list(self._reasons.values())

    def raised(
        self, event: str, reason: str, level: Literal["info", "warning", "error"] = "error", **more: Any
    ) -> None:
        """Something is wrong. `more` goes into the log only."""
        if self._reasons.get(event) != reason:
            getattr(self._log, level)(event, reason=reason, **more)
        self._reasons[event] = reason

    def solved(self, *events: str) -> None:
        """It is not, or not any more."""
        for event in events:
            self._reasons.pop(event, None)
