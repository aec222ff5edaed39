"""Finds out for all replicas whether the cluster places workloads by topology, which none of them may find out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from webhook.cluster.api.clock import Clock
from webhook.cluster.facts.scheduling import probed, publish
from webhook.cluster.replicas.patrol import Patrol
from webhook.configuration.rules import schedules_workloads
from webhook.configuration.settings import Settings

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


class SchedulingProbe:
    """Asks once a minute while this process leads and the setting is on. settings: returns the current ones."""

    def __init__(
        self,
        api: ApiClient,
        settings: Callable[[], Settings],
        leading: Callable[[], bool],
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._leading = leading
        self._patrol = Patrol(self.look, self._is_due, "workload scheduling not found out", clock or Clock())

    async def run(self) -> NoReturn:
        """Look until cancelled. Failures are logged once."""
        await self._patrol.run()

    async def look(self) -> None:
        """Ask the API server, and write the answer where replicas read it. Raises ClusterError.

        It is written each time, as the configuration may have been made anew.
        """
        settings = self._settings()
        support = await probed(self._api, settings.cluster.namespace)
        await publish(self._api, settings.registration.name, support)

    def _is_due(self) -> bool:
        return self._leading() and schedules_workloads(self._settings())
