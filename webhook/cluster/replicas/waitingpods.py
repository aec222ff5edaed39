"""Looks for Pods that wait because mutation failed open when they were created, and names them in Events.

It lists instead of watching: a watch would send every Pod that is created anywhere. The list comes from the API
server's cache, and has only Pods without a Node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from policies import waiting
from policies.engine.facts import Facts
from policies.engine.request import JsonObject, mapping
from policies.engine.ruleset import RuleSet
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.events import Subject
from webhook.cluster.api.pages import pages
from webhook.cluster.inspection.reads import decoded
from webhook.cluster.replicas.notices import Notices
from webhook.cluster.replicas.patrol import Patrol

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

PATH = "/api/v1/pods"
QUERY = (("fieldSelector", "spec.nodeName=,status.phase=Pending"), ("resourceVersion", "0"))
_PAGE = 500  # the cache ignores it and sends all

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
        clock = clock or Clock()
        self._notices = Notices(api, clock)
        self._patrol = Patrol(self.look, leading, "waiting Pods not looked for", clock)

    async def run(self) -> NoReturn:
        """Look until cancelled. Failures are logged once."""
        await self._patrol.run()

    async def look(self) -> None:
        """Create an Event for each Pod that lacks something and has none yet. Raises ClusterError."""
        ruleset, facts = self._judgement()
        with self._notices.look():
            async for page in pages(self._api, PATH, QUERY, _PAGE):
                for raw in page.items or ():
                    pod = decoded(raw, PATH)
                    uid = str(mapping(pod, "metadata").get("uid", ""))
                    if self._notices.is_due(uid) and (lacked := waiting.lacked(pod, ruleset, facts)):
                        await self._tell(pod, uid, lacked)

    async def _tell(self, pod: JsonObject, uid: str, lacked: Sequence[str]) -> None:
        """Write the Event, one for a Pod and what it lacks, whoever leads."""
        metadata = mapping(pod, "metadata")
        name, namespace = (str(metadata.get(key, "")) for key in ("name", "namespace"))
        await self._notices.write(
            uid,
            Subject("v1", "Pod", namespace, name, uid),
            "AdmittedUnchanged",
            f"It was admitted while cks-admission did not answer, without {' and '.join(lacked)}. "
            "Delete it, so that its controller creates it again, or create it again.",
            occasion="\n".join(lacked),
        )
