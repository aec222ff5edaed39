"""Whether repairs are undone by somebody, which shows in how many there are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

# More than these within the time: people do not write that often.
MANY = 5
SECONDS = 60.0


class Repairs:
    """When something was repaired, by a clock that never jumps."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._times: deque[float] = deque(maxlen=MANY + 1)
        self._undone = False

    def add(self) -> None:
        """Something was repaired now."""
        before = self.undone
        self._times.append(self._monotonic())
        self._undone = before or (len(self._times) > MANY and self._times[-1] - self._times[0] <= SECONDS)

    @property
    def undone(self) -> bool:
        """Whether there were too many; so it stays until nothing was to be repaired for the same time."""
        if self._undone and self._monotonic() - self._times[-1] > SECONDS:
            self._undone = False
        return self._undone
