"""Looks at what audits have left, whose processes end before anybody could ask them, and makes metrics of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from webhook.cluster.api.clock import Clock
from webhook.cluster.inspection.auditrecords import Place, read
from webhook.cluster.replicas.patrol import Patrol
from webhook.configuration.settings import Settings
from webhook.measures.audits import AuditMetrics

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


class AuditLook:
    """Looks once a minute while this process leads, where audits leave records. settings: returns the current ones."""

    def __init__(
        self,
        api: ApiClient,
        settings: Callable[[], Settings],
        leading: Callable[[], bool],
        measures: AuditMetrics,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._leading = leading
        self._measures = measures
        self._patrol = Patrol(self.look, self._is_due, "audits not looked for", clock or Clock(), measures.clear)

    async def run(self) -> NoReturn:
        """Look until cancelled. Failures are logged once."""
        await self._patrol.run()

    async def look(self) -> None:
        """Show what the newest audit did. Raises ClusterError."""
        settings = self._settings()
        audits = await read(self._api, Place(settings.cluster.namespace, settings.audit.record))
        self._measures.show(audits.since, audits.records)

    def _is_due(self) -> bool:
        return self._leading() and bool(self._settings().audit.record)
