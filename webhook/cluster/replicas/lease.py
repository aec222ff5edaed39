"""Leader election: only the replica that holds a Lease writes to the cluster. It uses the client library's election.

The election depends on wall clocks, and on answers that may be late. So two replicas may both act as the holder for a
while, for example after a machine was suspended. That is harmless, because each write is guarded: Secrets by the
resourceVersion that was read, webhook configurations by server-side apply of the same content.

Having no holder would be harmful. A candidate measures by the wall clock how long the holder has been silent; if the
clock is set back by a month, it would wait for a month. Therefore its remembered time is adjusted when the clock jumps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import structlog

from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.leaselock import LeaseLock
from webhook.cluster.watches.tasks import cancelled

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

# The lock logs the same events more clearly; some of the library's messages have tracebacks.
_LIBRARY_LOG = "kubernetes.aio.leaderelection"


class Durations(NamedTuple):
    """In seconds, client-go's defaults: the duration of a lease, how long its holder tries to renew it, and how often.

    Candidates check just as often. So a released lease is taken within `retry`, and that of a holder that died within
    `lease` and `retry`. The library accepts no `retry` below 1.
    """

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0


class Leadership:
    """Whether this process holds the Lease, which it tries to get while `run` runs.

    identity: unique among all processes that want the Lease. changed: set when `leading`
    or `holder` changes. began: called before `leading` becomes true, so that the writer can refresh its knowledge.
    """

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock | None = None,
        *,
        durations: Durations | None = None,
        changed: asyncio.Event | None = None,
        began: Callable[[], None] = lambda: None,
    ) -> None:
        self.changed = changed or asyncio.Event()
        self.identity = identity
        self._clock = clock or Clock()
        self._durations = durations or Durations()
        patience = self._durations.renew
        self._lock = LeaseLock(api, namespace, name, identity, self._clock, patience, self.changed, self._jumped, began)
        self._election: Any = None
        self._running: asyncio.Task[Any] | None = None
        self._log = structlog.get_logger()

    @property
    def leading(self) -> bool:
        """Whether this process holds the Lease and may write."""
        return self._lock.leading

    @property
    def holder(self) -> str:
        """The identity of the holder; empty if there is none or it is not known yet."""
        return self._lock.holder

    async def run(self) -> NoReturn:
        """Take part in the election until cancelled. No answer or failure of the API server ends it."""
        self._running = asyncio.current_task()
        logging.getLogger(_LIBRARY_LOG).setLevel(logging.CRITICAL)
        while True:
            try:
                await self._elect()
            except Exception:  # noqa: BLE001 - whatever it is, without an election nobody would write any more
                self._log.exception("election failed")
            await self._clock.sleep(self._durations.retry)

    async def release(self) -> None:
        """End `run`, and release the Lease if this process holds it, so that others need not wait for its expiry."""
        await cancelled([self._running] if self._running else [])
        if not self.leading:
            return
        self._lock.lost("the service is stopping")
        try:
            await self._lock.give_up()
        except ClusterError as error:
            self._log.warning("lease not given up", reason=str(error))

    async def _elect(self) -> None:
        """Wait for the Lease, then renew it until that has failed for too long."""
        from kubernetes.aio.leaderelection.electionconfig import Config  # noqa: PLC0415 - loads with a connection
        from kubernetes.aio.leaderelection.leaderelection import LeaderElection  # noqa: PLC0415 - as above

        lock: Any = self._lock  # the library's base class is empty, so the lock need not inherit from it
        self._election = LeaderElection(Config(lock, *self._durations, _nothing, _nothing))
        await self._election.run()
        self._lock.overdue()

    def _jumped(self, seconds: float) -> None:
        self._log.info("clock jumped", seconds=round(seconds))
        # The last time when the library saw a change by the holder.
        self._election.observed_time_milliseconds += round(seconds * 1000)


async def _nothing() -> None:
    """Do nothing when the library reports that leadership began or ended: the lock reports it."""
