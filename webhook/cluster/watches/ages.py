"""How long ago the API server last proved that what is followed is up to date, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import structlog

from webhook.cluster.api.clock import Clock
from webhook.cluster.watches.reflector import Reflector

# A watch that works has a bookmark every minute or two. One that was silent for three minutes is replaced, so a watch
# that is older than this has failed, perhaps several times.
STALE_SECONDS = 300.0
_LOG_SECONDS = 60.0


class Source(Protocol):
    """Something that follows objects of the cluster."""

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""


class WatchAges:
    """The ages of all watches, and how long the API server has been silent.

    sources: what follows the cluster. patience: the seconds of silence after which this replica is not ready.
    """

    def __init__(self, sources: Iterable[Source], patience: float, clock: Clock | None = None) -> None:
        self._sources = tuple(sources)
        self._patience = patience
        self._clock = clock or Clock()
        self._log = structlog.get_logger()

    def ages(self) -> Mapping[str, float]:
        """Seconds since the last proof of life, by kind of object: of several watches of a kind the oldest."""
        now = self._clock.monotonic()
        ages: dict[str, float] = {}
        for reflector in self._reflectors():
            kind = reflector.resource.kind or reflector.resource.name
            ages[kind] = max(ages.get(kind, 0.0), now - reflector.fresh)
        return ages

    def silence(self) -> float:
        """Seconds since the last answer of the API server to any list or watch; 0 if nothing is followed.

        An answer that refuses is one. Whoever takes away a right must not make all replicas unready.
        """
        heard = [reflector.heard for reflector in self._reflectors()]
        return self._clock.monotonic() - max(heard) if heard else 0.0

    def problems(self) -> list[str]:
        """What is stale, with reasons."""
        if (silence := self.silence()) >= STALE_SECONDS:
            return [f"cut off: {_heard(silence)}"]
        now = self._clock.monotonic()
        return [
            f"{reflector.resource.name}: not known to be up to date for {now - reflector.fresh:.0f} s"
            f": {reflector.problem or 'its watch is silent'}"
            for reflector in self._reflectors()
            if now - reflector.fresh >= STALE_SECONDS
        ]

    def unready(self) -> list[str]:
        """Why this replica should not be asked, if it was cut off for too long."""
        silence = self.silence()
        if silence < self._patience:
            return []
        return [f"cut off: {_heard(silence)}, longer than cluster.cutOffSeconds ({self._patience:.0f})"]

    async def run(self) -> NoReturn:
        """Log what is stale once a minute, until cancelled."""
        stale = False
        while True:
            if problems := self.problems():
                self._log.warning("watches are stale", reasons=problems)
            elif stale:
                self._log.info("watches are up to date again")
            stale = bool(problems)
            await self._clock.sleep(_LOG_SECONDS)

    def _reflectors(self) -> Iterable[Reflector[Any]]:
        return (reflector for source in self._sources for reflector in source.reflectors())


def _heard(silence: float) -> str:
    return f"nothing was heard from the API server for {silence:.0f} s; what is known of the cluster is that old"
