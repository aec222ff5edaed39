"""The Events of looks that come again and again: each is written once, and few at a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.api.events import Events, Reason, Subject

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

MOST: Final = 50
"""Events in one look at most; the next look goes on."""

_RIGHT: Final = "; a ClusterRole must allow the service's account to create events"
_GONE: Final = 404


class Notices:
    """Events, each known by a key. After one that fails there are none in that look, and the next look begins with it.

    A failure is logged once, until an Event is written or the API server answers otherwise.
    """

    def __init__(self, api: ApiClient, clock: Clock) -> None:
        self._events = Events(api, clock)
        self._told: set[Hashable] = set()
        self._kept: set[Hashable] = set()
        self._room = 0
        self._problem: int | None = None
        self._log = structlog.get_logger()

    @contextmanager
    def look(self) -> Iterator[None]:
        """A look. What `is_due` was not asked about in a whole look is forgotten."""
        self._room, self._kept = MOST, set()
        yield
        self._told = self._kept

    def hour(self) -> str:
        """The hour, as a part of keys and occasions of what is to be said once in an hour."""
        return self._events.hour()

    def is_due(self, key: Hashable) -> bool:
        """Whether `write` would write an Event now: it is not written yet, and there is room for it in this look."""
        if key in self._told:
            self._kept.add(key)
            return False
        return self._room > 0

    async def write(self, key: Hashable, about: Subject, reason: Reason, message: str, *, occasion: str) -> None:
        """Write an Event that is due; see `Events.write`. Failures are logged."""
        self._room -= 1
        try:
            await self._events.write(about, reason, message, occasion=occasion)
        except ClusterError as error:
            if error.status != _GONE:  # the Namespace may be gone, and then the object is, too
                self._failed(error)
                return
        else:
            self._problem = None
        self._told.add(key)
        self._kept.add(key)

    def _failed(self, error: ClusterError) -> None:
        self._room = 0
        if error.status != self._problem:
            self._log.warning("Events not written", reason=f"{error}{_RIGHT if error.status == 403 else ''}")
        self._problem = error.status
