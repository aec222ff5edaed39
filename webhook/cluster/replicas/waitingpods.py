"""Looks for Pods that wait because mutation failed open when they were created, and names them in Events.

It lists instead of watching: a watch would send every Pod that is created anywhere. The list comes from the API
server's cache, and has only Pods without a Node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import structlog

from policies import waiting
from policies.engine.facts import Facts
from policies.engine.request import JsonObject, mapping
from policies.engine.ruleset import RuleSet
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.api.events import Events, Subject
from webhook.cluster.api.pages import pages
from webhook.cluster.inspection.reads import decoded

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

PATH = "/api/v1/pods"
QUERY = (("fieldSelector", "spec.nodeName=,status.phase=Pending"), ("resourceVersion", "0"))
SECONDS = 60.0
_PAGE = 500  # the cache ignores it and sends all
_EVENTS = 50
"""Events in one look at most; the next look goes on."""

Judgement = tuple[RuleSet, Facts]


class WaitingPods:
    """Looks once a minute while this process leads. judgement: the current rules and facts."""

    def __init__(
        self,
        api: ApiClient,
        judgement: Callable[[], Judgement],
        leading: Callable[[], bool],
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._judgement = judgement
        self._leading = leading
        self._clock = clock or Clock()
        self._events = Events(api, self._clock)
        self._told: frozenset[str] = frozenset()
        self._problem = ""
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Look until cancelled. Failures are logged once."""
        while True:
            await self._clock.sleep(SECONDS)
            if self._leading():
                await self._tried()

    async def look(self) -> None:
        """Create an Event for each Pod that lacks something and has none yet. Raises ClusterError."""
        ruleset, facts = self._judgement()
        told: set[str] = set()
        made = 0
        async for page in pages(self._api, PATH, QUERY, _PAGE):
            for raw in page.items or ():
                pod = decoded(raw, PATH)
                uid = str(mapping(pod, "metadata").get("uid", ""))
                if uid in self._told:
                    told.add(uid)
                elif made < _EVENTS and (lacked := waiting.lacked(pod, ruleset, facts)):
                    await self._tell(pod, lacked)
                    told.add(uid)
                    made += 1
        self._told = frozenset(told)

    async def _tried(self) -> None:
        try:
            await self.look()
        except ClusterError as error:
            if str(error) != self._problem:
                self._log.warning("waiting Pods not looked for", reason=str(error))
            self._problem = str(error)
        else:
            self._problem = ""

    async def _tell(self, pod: JsonObject, lacked: Sequence[str]) -> None:
        """Write the Event, one for a Pod and what it lacks, whoever leads."""
        metadata = mapping(pod, "metadata")
        name, namespace, uid = (str(metadata.get(key, "")) for key in ("name", "namespace", "uid"))
        await self._events.write(
            Subject("v1", "Pod", namespace, name, uid),
            "AdmittedUnchanged",
            f"It was admitted while cks-admission did not answer, without {' and '.join(lacked)}. "
            "Delete it, so that its controller creates it again, or create it again.",
            occasion="\n".join(lacked),
        )
