"""State that the service's processes share in the cluster: the Lease, the webhook configurations, the CA.

Leader election: only the replica that holds the Lease writes to the cluster. Silence is measured by the monotonic
clock, as in client-go, and answers may be late. So two replicas may both act as the holder for a while, for example
after a machine was suspended. That is harmless, because each write is guarded: Secrets by the resourceVersion that was
read, webhook configurations by server-side apply of the same content.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import secrets
import socket
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC
from typing import Any, Literal, NamedTuple, NoReturn

import msgspec
import structlog
from msgspec import Struct

from webhook.cluster.api.call import ApiClient, Call, Connection, fetch, resource_path, send
from webhook.cluster.api.errors import ApiError, Clock, ClusterError
from webhook.cluster.api.objects import FollowedResource, WholeObject, name_of, whole
from webhook.cluster.replicas.webhooks import Webhooks
from webhook.cluster.watches.reflector import Cache, Following, Reflector, cancelled
from webhook.configuration.settings import Settings

# These labels help people find the service's objects. Labels that others set are kept.
_LABELS = {"app.kubernetes.io/name": "cks-admission", "app.kubernetes.io/managed-by": "cks-admission"}
_SECRET_SECONDS = 15.0


class _Known(Struct, frozen=True):
    content: Mapping[str, Any]
    stored: Mapping[str, bytes]


class SecretStore(Following):
    """One Secret as a store for files. title: its name in messages. changed: set when it may have changed."""

    def __init__(
        self,
        api: Connection,
        namespace: str,
        name: str,
        clock: Clock | None = None,
        *,
        changed: asyncio.Event | None = None,
    ) -> None:
        self.changed = changed or asyncio.Event()
        self.title = f"Secret {namespace}/{name}"
        self._api = api
        self._namespace, self._name = namespace, name
        self._path = resource_path("v1", "secrets", namespace)
        self._known = Cache[WholeObject, str, _Known](name_of, _known, self._noticed)
        self._clock = clock or Clock()
        self._listed = False
        self._anew()

    @property
    def exists(self) -> bool:
        """Whether the Secret exists, as far as is known."""
        return self._name in self._known.by_key

    @property
    def stored(self) -> Mapping[str, bytes]:
        """Its data by key; none if it does not exist. A value that cannot be decoded is empty, like a damaged file."""
        known = self._known.by_key.get(self._name)
        return known.stored if known else {}

    @property
    def current(self) -> bool:
        """Whether a list has arrived since the last `reread` or, without one, since the start."""
        return self._reflector.synced.is_set()

    async def start(self) -> None:
        """Begin to follow; `unsynced` tells whether the first list has arrived."""
        self._follow()

    def reread(self) -> None:
        """List it again, and follow it from there, because the watch's connection may be dead unnoticed."""
        if self.task is not None:
            self._anew()
            self._follow()

    def unsynced(self) -> list[str]:
        """Why the Secret is not known yet, with a remedy if a right is missing."""
        return [] if self._listed else self.stale()

    def stale(self) -> list[str]:
        """Why the Secret may have changed: no list has arrived since `reread`. In the form of `unsynced`."""
        return self._reflector.unsynced()

    async def write(self, contents: Mapping[str, bytes]) -> None:
        """Replace the contents of these keys, or create the Secret if none is known.

        Raises ApiError with status 409 if the Secret has changed since it was read: the change will arrive soon, and
        the caller should decide again. Raises ClusterError if it cannot be written.
        """
        known = self._known.by_key.get(self._name)
        # The whole Secret in the version that was read, so that later changes are not lost.
        content: Mapping[str, Any] = known.content if known else {"type": "Opaque", "metadata": {"name": self._name}}
        labels = {**_LABELS, **(content["metadata"].get("labels") or {})}
        encoded = {key: base64.b64encode(value).decode("ascii") for key, value in contents.items()}
        made = {
            **content,
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**content["metadata"], "labels": labels},
            "data": {**(content.get("data") or {}), **encoded},
        }
        method, path = ("PUT", f"{self._path}/{self._name}") if known else ("POST", self._path)
        call = Call(method, path, body=made, seconds=_SECRET_SECONDS)
        try:
            body = await fetch(self._api, call)
        except ApiError as error:
            remedy, status = "", error.status
            if status == 404 and self.exists:
                status = 409  # it was deleted since it was read
            elif status == 403:
                remedy = "; " + self._right(f"create secrets, and to update {self._name} among them")
            elif status == 422:
                remedy = f"; delete {self.title}, and it is made anew"
            raise ApiError(f"{self.title} could not be written: {error}{remedy}", status, error.retry_after) from error
        # Do not wait for the watch: until it shows the change, decisions would be based on the old contents. The watch
        # cannot deliver anything older, because nothing happened between the known version and this one. A list in
        # progress can, for a moment, but writes based on it are refused because of their old version.
        self._known.changed("MODIFIED", whole(msgspec.Raw(body)))

    def _anew(self) -> None:
        resource = FollowedResource(self.title, whole, query=(("fieldSelector", f"metadata.name={self._name}"),))
        right = self._right(f"list and watch the secret {self._name}")
        self._reflector = Reflector(self._api, resource, self._path, self._known, self._clock, right=right)
        self.parts = [self._reflector]

    def _follow(self) -> None:
        earlier, reflector = self.task, self._reflector

        async def follow() -> None:
            await cancelled([earlier])  # it could still deliver older contents
            await reflector.run()

        self.task = asyncio.create_task(follow(), name=self.title)

    def _noticed(self) -> None:
        self._listed = True
        self.changed.set()

    def _right(self, verbs: str) -> str:
        return f"a Role in namespace {self._namespace} must allow the service's account to {verbs}"


def _known(item: WholeObject) -> _Known:
    stored = dict[str, bytes]()
    for key, text in (item.content.get("data") or {}).items():
        try:
            stored[key] = base64.b64decode(str(text), validate=True)
        except (binascii.Error, ValueError):
            stored[key] = b""
    return _Known(item.content, stored)


Json = dict[str, Any]

# The time limit of a request. client-go's choice: half of the time in which a lease has to be renewed.
_SECONDS = 5.0


class Durations(NamedTuple):
    """In seconds, client-go's defaults: the duration of a lease, how long its holder tries to renew it, and how often.

    Candidates check just as often. So a released lease is taken within `retry`, and that of a holder that died within
    `lease` and `retry`.
    """

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0


class Leadership:
    """Whether this process holds the Lease, which it tries to get while `run` runs.

    identity: unique among all processes that want the Lease. holder: the last known holder; empty if there was none, or
    it is not known yet. leading: whether this process holds the Lease and may write. changed: set when `leading` or
    `holder` changes. began: called before `leading` becomes true, so that the writer can refresh its knowledge.
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
        self.holder = ""
        self.leading = False
        self._api = api
        self._namespace, self._name = namespace, name
        self._clock = clock or Clock()
        self._durations = durations or Durations()
        self._began = began
        self._collection = resource_path("coordination.k8s.io/v1", "leases", namespace)
        self._path = resource_path("coordination.k8s.io/v1", "leases", namespace, name)
        self._problems: dict[Literal["reading", "writing"], str] = {}
        self._seen: Json | None = None  # the spec at the last change
        self._seen_at = 0.0
        self._renewed = 0.0
        self._running: asyncio.Task[Any] | None = None
        self._log = structlog.get_logger().bind(lease=f"{namespace}/{name}", identity=identity)

    async def run(self) -> NoReturn:
        """Take part in the election until cancelled. No answer or failure of the API server ends it."""
        self._running = asyncio.current_task()
        while True:
            try:
                async with asyncio.timeout(self._left()):
                    await self._look()
            except TimeoutError:
                pass  # it is overdue
            except Exception:  # noqa: BLE001 - whatever it is, without an election nobody would write any more
                self._log.exception("election failed")
            left = self._left()
            if left == 0:
                problems = "; ".join(self._problems.values())
                self._lost(f"it could not be renewed: {problems or 'others changed it each time'}")
            await self._clock.sleep(min(self._durations.retry, left or self._durations.retry))

    async def release(self) -> None:
        """End `run`, and release the Lease if this process holds it, so that others need not wait for its expiry."""
        await cancelled([self._running])
        if not self.leading:
            return
        self._lost("the service is stopping")
        try:
            lease = await self._sent("GET", self._path)
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") == self.identity:
                await self._write("PUT", lease, {**spec, "holderIdentity": "", "leaseDurationSeconds": 1})
        except ClusterError as error:
            self._log.warning("could not release the lease", reason=str(error))

    def _left(self) -> float | None:
        """The seconds in which the holder has to renew the Lease, at least 0; None for other processes."""
        if not self.leading:
            return None
        return max(self._renewed + self._durations.renew - self._clock.monotonic(), 0.0)

    async def _look(self) -> None:
        try:
            lease: Json | None = await self._sent("GET", self._path)
        except ClusterError as error:
            if error.status != 404:
                self._failed("reading", error)
                return
            lease = None
        self._worked("reading")
        spec: Json = (lease or {}).get("spec") or {}
        holder, now = spec.get("holderIdentity") or "", self._clock.monotonic()
        if holder != self.holder:
            self.holder = holder
            self.changed.set()
        if holder != self.identity:
            self._lost(f"{holder} has taken it" if holder else "it was taken from this process")
        if spec != self._seen:
            self._seen, self._seen_at = spec, now
        if holder in ("", self.identity) or now - self._seen_at >= self._durations.lease:
            await self._take(lease, spec, holder)

    async def _take(self, lease: Json | None, spec: Json, holder: str) -> None:
        began, held = self._clock.monotonic(), holder == self.identity
        if held:
            reason = "it was held under this identity already"
        elif holder:
            reason = f"{holder} did not renew it"
        else:
            reason = "there was no lease" if lease is None else "nobody held it"
        renewed = {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._durations.lease),
            "acquireTime": spec["acquireTime"] if held and spec.get("acquireTime") else self._moment(),
            "leaseTransitions": spec.get("leaseTransitions", 0) + (0 if held or lease is None else 1),
        }
        try:
            await self._write("POST" if lease is None else "PUT", lease, renewed)
        except ClusterError as error:
            if error.status == 409:
                self._log.info("another process changed the lease", reason=str(error))
            else:
                self._failed("writing", error)
            return
        self._worked("writing")
        self._renewed = began
        self.holder = self.identity
        if not self.leading:
            self._began()
            self.leading = True
            self.changed.set()
            self._log.info("leading", reason=reason)

    async def _write(self, method: str, lease: Json | None, spec: Json) -> None:
        head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        # The service account of this process owns the Lease, which then goes when the release is removed. An owner has
        # to be in the Namespace of what it owns, and outside of a Pod the token names none.
        owners: Json = {}
        with suppress(IndexError, KeyError, TypeError, ValueError):  # another kind of token, or none
            token = self._api.configuration.api_key.get("BearerToken", "")
            bound = msgspec.json.decode(urlsafe_b64decode(token.split(".")[1] + "=="))["kubernetes.io"]
            account = {key: bound["serviceaccount"][key] for key in ("name", "uid")}
            if bound["namespace"] == self._namespace:
                owners = {"ownerReferences": [{"apiVersion": "v1", "kind": "ServiceAccount", **account}]}
        made = {**head, "metadata": {"name": self._name, "namespace": self._namespace, **owners}}
        body = {**(made if lease is None else lease), "spec": {**spec, "renewTime": self._moment()}}
        await self._sent(method, self._collection if lease is None else self._path, body)

    async def _sent(self, method: str, path: str, body: Json | None = None) -> Json:
        return await send(self._api, Call(method, path, body=body, seconds=_SECONDS))

    def _lost(self, reason: str) -> None:
        if self.leading:
            self.leading = False
            self.changed.set()
            self._log.info("no longer leading", reason=reason)

    def _failed(self, what: Literal["reading", "writing"], error: ClusterError) -> None:
        reason = error.lacking(
            f"a Role in namespace {self._namespace} must allow the service's account to create leases,"
            f" and to get and update {self._name} among them"
        )
        if error.status == 404:
            reason += f"; make the Namespace {self._namespace}, or name another one as cluster.namespace"
        if reason != self._problems.get(what):  # log it once: it is tried again every few seconds
            self._log.warning(f"{what} the lease failed", reason=reason)
        self._problems[what] = reason

    def _worked(self, what: Literal["reading", "writing"]) -> None:
        if self._problems.pop(what, ""):
            self._log.info(f"{what} the lease works again")

    def _moment(self) -> str:
        return self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Replica(Following):
    """One of several processes, and the state that it shares with the others.

    authority: the Secret with the CA; None if the CA comes from elsewhere. changed: set when any of the three may have
    changed.
    """

    def __init__(self, api: Connection, settings: Settings) -> None:
        namespace, secret = settings.cluster.namespace, settings.tls.secret
        self.changed = changed = asyncio.Event()
        self.authority = SecretStore(api, namespace, secret, changed=changed) if secret else None
        self.webhooks = Webhooks(
            api, settings.registration.name, noticed=changed.set, policies=settings.registration.apply
        )
        began = self.authority.reread if self.authority else (lambda: None)
        self.leadership = Leadership(api, namespace, settings.cluster.lease, identity(), changed=changed, began=began)
        self.parts = [self.webhooks, *([self.authority] if self.authority else ())]

    @property
    def writing(self) -> bool:
        """Whether this process should write webhook configurations: it is the leader and knows the current Secret.

        A new leader may not know yet the CA that its predecessor made. If it wrote the old CA into the caBundles, the
        API server would reject the other replicas, which already serve leaves of the new CA.
        """
        return self.leadership.leading and (self.authority is None or self.authority.current)

    def problems(self) -> list[str]:
        """Why this process does not write although it holds the Lease."""
        if self.authority is None or not self.leadership.leading:
            return []
        before = f"{self.authority.title} is read again before anything is written"
        return [f"{before}: {reason}" for reason in self.authority.stale()]


@asynccontextmanager
async def joined(api: Connection, settings: Settings) -> AsyncIterator[Replica]:
    """Share state over a connection, which the caller closes. At the end, release the Lease if it is held."""
    replica = Replica(api, settings)
    taking_part = asyncio.create_task(replica.leadership.run(), name="lease")
    try:
        await replica.start()
        yield replica
    finally:
        await replica.leadership.release()
        taking_part.cancel()
        await replica.stop()


def identity() -> str:
    """The identity of this process: its Pod and a unique part, because one that restarts in its Pod is another."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
