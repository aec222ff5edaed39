"""Whether calls reach this process, so that the API server may be told to call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

# A Service knows of no process before a probe has found it ready, every 5 s by the chart; then endpoints and the
# proxies of all Nodes have to hear of it.
REACHED_SECONDS = 10.0


class Reached:
    """Says whether the process has been ready for a while at some time. It has to be asked again and again.

    Of several workers each asks for itself, though the Pod is ready only when all are, a few seconds after the first.

    unready: why the process takes no calls now, empty where it does.
    """

    def __init__(self, unready: Callable[[], Sequence[str]], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._unready = unready
        self._monotonic = monotonic
        self._since: float | None = None
        self._reached = False

    def __call__(self) -> bool:
        """Whether calls reach it: once that is so, for good."""
        if self._reached:
            return True
        if self._unready():
            self._since = None
            return False
        now = self._monotonic()
        self._since = now if self._since is None else self._since
        self._reached = now - self._since >= REACHED_SECONDS
        return self._reached
