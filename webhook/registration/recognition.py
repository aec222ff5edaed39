"""Whether a replica knows everything that the API server asks it, so that it may become ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from webhook.registration.announcement import closed_paths

if TYPE_CHECKING:
    from webhook.cluster.watches.webhooks import Webhooks

# API servers watch the configurations independently, and may call for a while after an entry was removed.
_SETTLED_SECONDS = 5.0


class Recognition:
    """Holds back readiness while an entry fails closed whose path this version does not answer.

    `manage` learns from `/paths` that this replica does not know it, and removes the entry. Once ready, a replica stays
    so: to lose all replicas for one path would be worse than to answer 503 there.

    paths: returns those that this replica answers. was_ready: returns whether the replica has ever been ready.
    """

    def __init__(
        self,
        webhooks: Webhooks,
        paths: Callable[[], Collection[str]],
        was_ready: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._webhooks = webhooks
        self._paths = paths
        self._was_ready = was_ready
        self._monotonic = monotonic
        self._last_seen = float("-inf")

    def unready(self) -> list[str]:
        """Why calls must not arrive here yet; empty if they may."""
        if self._was_ready():
            return []
        answered = self._paths()
        unknown = [path for path in closed_paths(self._webhooks.state.current.values()) if path not in answered]
        now = self._monotonic()
        if unknown:
            self._last_seen = now
            texts = ", ".join(unknown)
            return [f"the API server asks for {texts}, which this version does not know; manage removes such entries"]
        if now - self._last_seen < _SETTLED_SECONDS:
            return ["an entry that this version does not know was removed just now, and API servers may still ask it"]
        return self._webhooks.unsynced()
