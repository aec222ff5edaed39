"""Which of the replicas writes to the cluster: the one that holds a Lease, by the client library's leader election.

The election goes by wall clocks, and by answers that may be late. So for a while two replicas may take themselves for
the holder, as after a machine was suspended. That is harmless, since whatever a holder writes is guarded by itself:
Secrets by the resourceVersion that was read, webhook configurations by server-side apply of the same content.

What would do harm is no holder at all: a candidate measures by the wall clock how long the holder has been silent, and
a clock that was set back by a month would make it wait for a month. So what it remembers is moved with the clock.
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

# What the library says of the lock, some of it with tracebacks, the lock itself says better.
_LIBRARY_LOG = "kubernetes.aio.leaderelection"


class Durations(NamedTuple):
    """In seconds, client-go's defaults: how long a lease holds, how long its holder tries to renew it, and how often.

    Candidates look as often. So a lease that was given up is taken within `retry`, and that of a holder that died
    within `lease` and `retry`. The library takes no `retry` below 1.
    """

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0


class Leadership:
    """Whether this process holds the Lease, which it tries to get while `run` does.

    identity: unique among all processes that want the Lease, workers of one Pod too. changed: set when `leading` or
    `holder` is another one. began: called before `leading` becomes true, for what the writer has to know anew.
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
        """Whether this process is the one to write."""
        return self._lock.leading

    @property
    def holder(self) -> str:
        """The identity of the one to write; empty where there is none, or it is not known yet."""
        return self._lock.holder

    async def run(self) -> NoReturn:
        """Take part in the election until cancelled. Nothing that the API server does or sends ends it."""
        self._running = asyncio.current_task()
        logging.getLogger(_LIBRARY_LOG).setLevel(logging.CRITICAL)
        while True:
            try:
                await self._elect()
            except Exception:  # noqa: BLE001 - whatever it is, without an election nobody would write any more
                self._log.exception("election failed")
            await self._clock.sleep(self._durations.retry)

    async def release(self) -> None:
        """End `run`, and give the Lease up if this process holds it, so that another one need not wait for its end."""
        await cancelled([self._running] if self._running else [])
        if not self.leading:
            return
        self._lock.lost("the service is stopping")
        try:
            await self._lock.give_up()
        except ClusterError as error:
            self._log.warning("lease not given up", reason=str(error))

    async def _elect(self) -> None:
        """Wait for the Lease, and renew it until that fails for too long."""
        from kubernetes.aio.leaderelection.electionconfig import Config  # noqa: PLC0415 - loads with a connection
        from kubernetes.aio.leaderelection.leaderelection import LeaderElection  # noqa: PLC0415 - as above

        lock: Any = self._lock  # as good as the library's base class, which has nothing in it
        self._election = LeaderElection(Config(lock, *self._durations, _nothing, _nothing))
        await self._election.run()
        self._lock.overdue()

    def _jumped(self, seconds: float) -> None:
        self._log.info("clock jumped", seconds=round(seconds))
        # When the library saw the holder do something last.
        self._election.observed_time_milliseconds += round(seconds * 1000)


async def _nothing() -> None:
    """Do nothing where the library tells that leadership began or ended: whoever wants to know asks."""
