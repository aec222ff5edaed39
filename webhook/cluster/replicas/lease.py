"""Leader election: only the replica that holds a Lease writes to the cluster. It uses the client library's election.

The election depends on wall clocks, and on answers that may be late. So two replicas may both act as the holder for a
while, for example after a machine was suspended. That is harmless, because each write is guarded: Secrets by the
resourceVersion that was read, webhook configurations by server-side apply of the same content.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn
from urllib.parse import quote

import msgspec
import structlog

from webhook.cluster.api.call import UNREADABLE, Call, fetch
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.watches.reflector import cancelled

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


Json = dict[str, Any]

# The time limit of a request. client-go's choice: half of the time in which a lease has to be renewed.
_SECONDS = 5.0
# Clocks with NTP drift by milliseconds in the seconds between two checks.
_JUMP_SECONDS = 1.0
_OBJECT = msgspec.json.Decoder(Json)


class LeaseLock:
    """One Lease, and whether this process holds it.

    The library requires name, namespace, identity, get, create and update. holder: the last known holder; empty if
    there was none, or it is not known yet. leading: whether this process holds the Lease. patience: the seconds, by a
    monotonic clock, after which a holder that cannot renew the Lease stops relying on it. changed: set when holder or
    leading changes. jumped: called with the seconds by which the wall clock jumped, before the library reads it. began:
    called before `leading` becomes true.
    """

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        patience: float,
        changed: asyncio.Event,
        jumped: Callable[[float], None],
        began: Callable[[], None],
    ) -> None:
        self.name, self.namespace, self.identity = name, namespace, identity
        self.holder = ""
        self.leading = False
        self._api = api
        self._clock = clock
        self._changed = changed
        self._jumped = jumped
        self._began = began
        self._patience = patience
        self._problems: dict[Literal["reading", "writing"], str] = {}
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self._path = f"{self._collection}/{quote(name, safe='')}"
        self._lease: Json = {}
        self._offset = self._clock_offset()
        self._renewed = 0.0
        self._log = structlog.get_logger().bind(lease=f"{namespace}/{name}", identity=identity)

    async def get(self, _name: str, _namespace: str) -> tuple[bool, Any]:
        """The library's record of the Lease, or the error: one with code 404 if the Lease does not exist."""
        from kubernetes.aio.client.exceptions import ApiException  # noqa: PLC0415 - the client loads with a connection
        from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord  # noqa: PLC0415

        self._look_at_clocks()
        try:
            self._read(await fetch(self._api, Call("GET", self._path, seconds=_SECONDS)))
        except ClusterError as error:
            if error.status == 404:
                self._seen("")
                missing = ApiException(status=404, reason=str(error))
                missing.body = '{"code": 404}'
                return False, missing
            self._failed("reading", error)
            return False, ApiException(reason=str(error))
        spec = self._spec
        self._seen(spec.get("holderIdentity") or "")
        # The library takes a Lease at once if its record is incomplete, as that of a released one.
        return True, LeaderElectionRecord(
            self.holder or None, spec.get("leaseDurationSeconds"), spec.get("acquireTime"), spec.get("renewTime")
        )

    async def create(self, name: str, namespace: str, election_record: Any) -> bool:
        """Create the Lease with this process as its holder. Return whether that succeeded."""
        self._lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
        }
        return await self._take("POST", self._collection, election_record, "there was no lease")

    async def update(self, _name: str, _namespace: str, updated_record: Any) -> bool:
        """Take or renew the Lease, in the version that was read. Return whether that succeeded."""
        before = self.holder
        reason = f"{before} did not renew it" if before else "nobody held it"
        if before == self.identity:
            reason = "it was held under this identity already"
        return await self._take("PUT", self._path, updated_record, reason)

    async def give_up(self) -> None:
        """Release the Lease if this process still holds it, so that a candidate can take it at once.

        Raises ClusterError.
        """
        self._read(await fetch(self._api, Call("GET", self._path, seconds=_SECONDS)))
        if self._spec.get("holderIdentity") == self.identity:
            await self._write("PUT", self._path, {**self._spec, "holderIdentity": "", "leaseDurationSeconds": 1})

    def lost(self, reason: str) -> None:
        """Note that this process no longer holds the Lease, and why."""
        if self.leading:
            self.leading = False
            self._changed.set()
            self._log.info("no longer leading", reason=reason)

    def overdue(self) -> None:
        """Note that the Lease could not be renewed for too long."""
        self.lost(f"it could not be renewed: {'; '.join(self._problems.values()) or 'others changed it each time'}")

    @property
    def _spec(self) -> Json:
        return self._lease.get("spec") or {}

    async def _take(self, method: str, path: str, record: Any, reason: str) -> bool:
        began = self._clock.monotonic()
        spec = self._spec
        held = spec.get("holderIdentity") == self.identity
        renewed: Json = {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(float(record.lease_duration)),
            "acquireTime": spec["acquireTime"] if held and spec.get("acquireTime") else self._moment(),
            "leaseTransitions": spec.get("leaseTransitions", 0) + (0 if held or method == "POST" else 1),
        }
        try:
            await self._write(method, path, renewed)
        except ClusterError as error:
            if error.status == 409:
                self._log.info("lease was changed by another", reason=str(error))
            else:
                self._failed("writing", error)
            return False
        self._won(reason, began)
        return True

    async def _write(self, method: str, path: str, spec: Json) -> None:
        body = {**self._lease, "spec": {**spec, "renewTime": self._moment()}}
        self._read(await fetch(self._api, Call(method, path, body=body, seconds=_SECONDS)))

    def _read(self, body: bytes) -> None:
        try:
            self._lease = _OBJECT.decode(body)
        except UNREADABLE as error:
            raise ClusterError(f"the Lease {self.namespace}/{self.name} cannot be read: {error}") from error

    def _seen(self, holder: str) -> None:
        self._worked("reading")
        if holder != self.holder:
            self.holder = holder
            self._changed.set()
        if holder != self.identity:
            self.lost(f"{holder} has taken it" if holder else "it was taken from this process")

    def _won(self, reason: str, since: float) -> None:
        self._worked("writing")
        self._renewed = since
        self.holder = self.identity
        if not self.leading:
            self._began()
            self.leading = True
            self._changed.set()
            self._log.info("leading", reason=reason)

    def _failed(self, what: Literal["reading", "writing"], error: ClusterError) -> None:
        reason = f"{error}{self._remedy(error)}"
        if reason != self._problems.get(what):  # log it once: it is tried again every few seconds
            self._log.warning(f"{what} the lease failed", reason=reason)
        self._problems[what] = reason
        if self._clock.monotonic() - self._renewed >= self._patience:
            self.overdue()

    def _worked(self, what: Literal["reading", "writing"]) -> None:
        if self._problems.pop(what, ""):
            self._log.info(f"{what} the lease works again")

    def _remedy(self, error: ClusterError) -> str:
        """The remedy if a right or the Namespace is missing; otherwise empty."""
        if error.status == 404:
            return f"; make the Namespace {self.namespace}, or name another one as cluster.namespace"
        if error.status != 403:
            return ""
        return (
            f"; a Role in namespace {self.namespace} must allow the service's account to create leases,"
            f" and to get and update {self.name} among them"
        )

    def _look_at_clocks(self) -> None:
        offset, self._offset = self._offset, self._clock_offset()
        if abs(self._offset - offset) > _JUMP_SECONDS:
            self._jumped(self._offset - offset)

    def _clock_offset(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _moment(self) -> str:
        return self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


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
