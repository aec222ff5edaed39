"""Looks for gangs whose domain cannot hold them any more, and says so to their owners.

A domain that was chosen stays, so that a gang waits there for ever if its Nodes do not come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from policies.engine.facts import Facts
from webhook.cluster.api.clock import Clock
from webhook.cluster.inspection import lostdomains
from webhook.cluster.inspection.lostdomains import LostDomain
from webhook.cluster.replicas.notices import Notices
from webhook.cluster.replicas.patrol import Patrol
from webhook.configuration import inventory, roles, rules
from webhook.configuration.settings import Settings
from webhook.measures.placing import Placing

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

REASON: Final = "DomainLost"
_SHOWN: Final = 5


class LostDomains:
    """Looks once a minute while this process leads, where domains are chosen. settings, facts: the current ones."""

    def __init__(
        self,
        api: ApiClient,
        settings: Callable[[], Settings],
        facts: Callable[[], Facts],
        leading: Callable[[], bool],
        measures: Placing,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._facts = facts
        self._leading = leading
        self._measures = measures
        clock = clock or Clock()
        self._notices = Notices(api, clock)
        self._patrol = Patrol(self.look, self._is_due, "lost domains not looked for", clock, self._forget)
        self._known: frozenset[LostDomain] = frozenset()
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Look until cancelled. Failures are logged once."""
        await self._patrol.run()

    async def look(self) -> None:
        """Count the gangs without their domain, log new ones, and write Events. Raises ClusterError, SettingsError."""
        settings = self._settings()
        kinds = {row.group_kind for row in inventory.workloads(settings)}
        lost = await lostdomains.read(self._api, rules.topology_options(settings), kinds, self._facts())
        self._measures.lost.set(len(lost))
        self._say(lost)
        await self._tell(lost)

    def _is_due(self) -> bool:
        return self._leading() and roles.keeps_inventory(self._settings())

    def _forget(self) -> None:
        self._measures.lost.set(0)
        self._known = frozenset()

    def _say(self, lost: Sequence[LostDomain]) -> None:
        """Log what was not there at the last look, in one line."""
        news = [one for one in lost if one not in self._known]
        self._known = frozenset(lost)
        if news:
            shown = [
                f"{one.about.kind} {one.about.namespace}/{one.about.name}: {one.sentence}" for one in news[:_SHOWN]
            ]
            self._log.warning("domains cannot hold their gangs", gangs=shown, more=len(news) - len(shown))

    async def _tell(self, lost: Sequence[LostDomain]) -> None:
        """Write an Event on each object, once in an hour: by default, Kubernetes keeps Events for an hour."""
        hour = self._notices.hour()
        with self._notices.look():
            for one in lost:
                key = one.about.uid, one.domain, hour
                if self._notices.is_due(key):
                    message = f"{one.sentence} {one.remedy}"
                    await self._notices.write(key, one.about, REASON, message, occasion=f"{hour}\n{one.domain}")
