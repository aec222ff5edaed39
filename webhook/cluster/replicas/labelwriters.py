"""Looks for policies and conversions that can write labels past the guard, and says so to who may take them away.

The API server asks no webhook about mutating policies, so nothing can refuse them. It lists instead of watching: once
a minute is soon enough for people, and of definitions, which are large, the metadata suffices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from webhook.cluster.api.clock import Clock
from webhook.cluster.inspection.labelwriters import LabelWriterReader, Sighting
from webhook.cluster.replicas.notices import Notices
from webhook.cluster.replicas.patrol import Patrol
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

    from webhook.cluster.api.events import Reason

_SHOWN: Final = 5
_REASONS: Final[Mapping[str, Reason]] = {"reserved": "WritesReservedLabels", "possible": "MayWriteLabels"}
_REMEDY: Final = "cks-admission is not asked about this: remove it, or name it in labels.trusted if it is the cloud's."


class LabelWriters:
    """Looks once a minute while this process leads, unless the guard is off. settings: returns the current ones."""

    def __init__(
        self,
        api: ApiClient,
        settings: Callable[[], Settings],
        leading: Callable[[], bool],
        metrics: Metrics,
        clock: Clock | None = None,
    ) -> None:
        self._reader = LabelWriterReader(api)
        self._settings = settings
        self._leading = leading
        self._metrics = metrics
        clock = clock or Clock()
        self._notices = Notices(api, clock)
        self._patrol = Patrol(self.look, self._is_due, "label writers not looked for", clock, self._forget)
        self._known: frozenset[Sighting] = frozenset()
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Look until cancelled. Failures are logged once."""
        await self._patrol.run()

    async def look(self) -> None:
        """Count what can write labels, log what is new, and write Events. Raises ClusterError."""
        sightings = await self._reader.read(self._settings())
        self._count(sightings)
        self._say(sightings)
        await self._tell(sightings)

    def _is_due(self) -> bool:
        return self._leading() and self._settings().labels.action != "off"

    def _forget(self) -> None:
        self._metrics.label_writers.clear()
        self._known = frozenset()

    def _count(self, sightings: Sequence[Sighting]) -> None:
        self._metrics.label_writers.clear()
        counted = Counter((sighting.about.kind, sighting.writer.verdict) for sighting in sightings)
        for labels, number in counted.items():
            self._metrics.label_writers.labels(*labels).set(number)

    def _say(self, sightings: Sequence[Sighting]) -> None:
        """Log what was not there at the last look, in one line."""
        news = [sighting for sighting in sightings if sighting not in self._known]
        self._known = frozenset(sightings)
        if news:
            shown = [f"{about.kind} {about.name}: {writer.text}" for about, writer in news[:_SHOWN]]
            self._log.warning("labels can be written past the guard", writers=shown, more=len(news) - len(shown))

    async def _tell(self, sightings: Sequence[Sighting]) -> None:
        """Write an Event on each object, once in an hour: by default, Kubernetes keeps Events for an hour."""
        hour = self._notices.hour()
        with self._notices.look():
            for about, writer in sightings:
                key = about.uid, writer.text, hour
                if self._notices.is_due(key):
                    message = f"{writer.text[0].upper()}{writer.text[1:]}. {_REMEDY}"
                    occasion = f"{hour}\n{writer.text}"
                    await self._notices.write(key, about, _REASONS[writer.verdict], message, occasion=occasion)
