"""Opens the gates of Pods as the placer decides, while this process holds the Lease.

A gang must never be opened in part into one domain and in part into another. So a process that begins to lead first
lists the Pods anew, since its watch may be dead unnoticed; nothing that was decided before it lost the Lease is sent
later; and whether a patch without an answer was carried out is read before anything else is decided.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, Literal, NoReturn, TypeVar

import msgspec
import structlog
from msgspec.structs import replace

from policies.engine.request import mapping
from policies.objects.workload import BUILT_IN
from policies.topology.membership import ROOT_KINDS
from policies.topology.placement import GATE
from policies.topology.placer.opening import Opening
from policies.topology.placer.placer import Look, Notice, Placed, Placer, Waiting
from policies.topology.placer.placer import Subject as About
from policies.topology.placer.state import Options
from policies.topology.topology import Catalog, Topology
from webhook.cluster.api.call import ApiClient, Call, Connection, fetch, named, resource_path, several
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.api.errors import Backoff, Clock, ClusterError
from webhook.cluster.api.events import Events, Reason, Subject
from webhook.cluster.api.objects import FollowedResource, Object, WholeObject, key_of, name_of, whole
from webhook.cluster.placer.objects import MENTION, NODES, PODS, WatchedNode, WatchedPod
from webhook.cluster.watches.cluster import STALE_SECONDS
from webhook.cluster.watches.optional import FollowedGroup, Wanted
from webhook.cluster.watches.reflector import Change, Following, Reflector, cancelled
from webhook.metrics import Placing

T = TypeVar("T", bound=Object)
K = TypeVar("K", bound=Hashable)


class Entries(Generic[T, K]):
    """A sink that puts and removes single objects, so that no list is held as a whole.

    key: identifies an object. put: takes an object that is new or has changed; may raise ValueError. remove: takes the
    key of an object that is gone. noticed: called after each of them.
    """

    def __init__(
        self,
        key: Callable[[T], K],
        put: Callable[[T], object],
        remove: Callable[[K], object],
        noticed: Callable[[], object] = lambda: None,
    ) -> None:
        self._noticed = noticed
        self._key = key
        self._put = put
        self._remove = remove
        self._keys: set[K] = set()
        self._listed: set[K] = set()

    def begin(self) -> None:
        """Begin a list."""
        self._listed = set()

    def page(self, objects: Sequence[T]) -> None:
        """Put a part of the list."""
        for item in objects:
            self._listed.add(self._take(item))

    def complete(self) -> None:
        """Remove what was not in the list."""
        gone, self._keys = self._keys - self._listed, self._listed
        self._listed = set()
        for key in gone:
            self._gone(key)

    def changed(self, change: Change, item: T) -> None:
        """Put or remove an object."""
        if change == "DELETED":
            self._keys.discard(self._key(item))
            self._gone(self._key(item))
        else:
            self._take(item)

    def _take(self, item: T) -> K:
        """Put an object, and return its key. A malformed one is as if it were not there, and does not affect others."""
        key = self._key(item)
        self._keys.add(key)
        try:
            self._put(item)
            self._noticed()
        except ValueError as error:
            self._gone(key)
            structlog.get_logger().error("object skipped", key=key, reason=str(error))
        return key

    def _gone(self, key: K) -> None:
        self._remove(key)
        self._noticed()


GroupKind = tuple[str, str]
NamespacedName = tuple[str, str]

# How soon a new or removed CustomResourceDefinition is noticed. Most clusters lack most of the kinds, and nothing but
# what is promised depends on it.
LOOK_AGAIN_SECONDS = 30.0
_OBJECT = msgspec.json.Decoder(Object)


class _Workloads(FollowedGroup):
    """The workloads of one API group."""

    def unsynced(self) -> list[str]:
        """What has not arrived yet, though nothing is known to be in its way."""
        if not self.decided.is_set():
            return [] if self.undecided else super().unsynced()
        return [reason for reflector in self.parts if not reflector.problem for reason in reflector.unsynced()]


def _workload(kind: str, served: ServedResource) -> FollowedResource[WholeObject]:
    """Objects with their type, which items of a list lack; without content if no placement is in one."""
    typed = {"apiVersion": served.api_version, "kind": kind}

    def decode(raw: msgspec.Raw) -> WholeObject:
        if MENTION not in bytes(raw):
            return WholeObject(_OBJECT.decode(raw).metadata, {})
        item = whole(raw)
        item.content = {**typed, **item.content}
        item.content["metadata"].pop("managedFields", None)
        return item

    return FollowedResource(f"{served.resource.resource}.{served.resource.group}".rstrip("."), decode)


class Follower(Following):
    """A placer that knows what is in a cluster. catalog: the topologies that do not come from the cluster.

    facts: what has not arrived yet of that which options.facts tell. changed: set when anything has changed that a gang
    may depend on.
    """

    def __init__(
        self,
        api: Connection,
        options: Options,
        catalog: Catalog,
        facts: Callable[[], Sequence[str]] = lambda: (),
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock = clock or Clock()
        self.placer = Placer(options)
        self.changed = asyncio.Event()
        self._options = options
        self._catalog = catalog
        self._facts = facts
        self._topologies: tuple[Topology, ...] | None = None
        placer, noticed = self.placer, self.changed.set
        nodes: Entries[WatchedNode, str] = Entries(
            name_of, lambda node: placer.put_node(node.manifest), placer.remove_node, noticed
        )
        pods: Entries[WatchedPod, NamespacedName] = Entries(
            key_of, lambda pod: placer.put_pod(pod.manifest, pod.placed), lambda key: placer.remove_pod(*key), noticed
        )
        self._reflectors: tuple[Reflector[WatchedNode], Reflector[WatchedPod]] = (
            Reflector(api, NODES, "/api/v1/nodes", nodes, clock, noticed=noticed),
            Reflector(api, PODS, "/api/v1/pods", pods, clock, noticed=noticed),
        )
        configured = set(options.workloads) - {row.group_kind for row in BUILT_IN}
        kinds = {kind for kind in ROOT_KINDS if kind in options.workloads}
        wanted: dict[str, list[Wanted]] = {}
        for group, kind in sorted(kinds | configured):
            wanted.setdefault(group, []).append(Wanted([kind], self._sink((group, kind)), _workload))
        workloads = [
            _Workloads(
                api,
                group,
                own,
                "workloads",
                clock,
                name=f"workloads of {group or 'the core group'}",
                seconds=LOOK_AGAIN_SECONDS,
            )
            for group, own in wanted.items()
        ]
        self.parts = [*self._reflectors, *workloads]

    async def list_anew(self) -> None:
        """List the Pods from the API server's storage: until they have arrived, `unsynced` says so.

        What is known of them may be from before the last writes of another process.
        """
        _, pods = self._reflectors
        await pods.stop()
        pods.synced.clear()
        await pods.start()

    def unsynced(self) -> list[str]:
        """What has not arrived yet, or is too old: before all of it is there nothing must be opened."""
        now = self._clock.monotonic()
        stale = [
            f"{one.resource.name}: not known to be up to date for {now - one.fresh:.0f} s: "
            f"{one.problem or 'its watch is silent'}"
            for one in self._reflectors
            if now - one.fresh >= STALE_SECONDS
        ]
        return [*super().unsynced(), *stale, *self._facts()]

    def refresh(self) -> None:
        """Take the topologies as they are now."""
        known = self._options.facts.topologies()
        if known is not self._topologies:
            self._topologies = known
            self.placer.put_catalog(self._catalog.joined(known))

    def _sink(self, kind: GroupKind) -> Entries[WholeObject, NamespacedName]:
        def put(item: WholeObject) -> None:
            if item.content:
                self.placer.put_root(item.content)
            else:
                remove(key_of(item))

        def remove(key: NamespacedName) -> None:
            self.placer.remove_root(*kind, *key)

        return Entries(key_of, put, remove, self.changed.set)


GRACE_SECONDS: Final = 5.0
"""A gang that waits for so long is told of; before, its Pods are just being created."""

_EVENT_PAUSE_SECONDS: Final = 60.0
"""The time between two Events of one reason about an object, which say different things."""

_REPEAT_SECONDS: Final = 2700.0
"""The time between two that say the same: by default, Kubernetes keeps Events for an hour."""

# Openings and the Lease share the connections, and the API server's patience, with Events.
_MOST_AT_ONCE: Final = 2
_MOST: Final = 500


class GangEvents:
    """Writes Events, few at a time. What finds no room is said after the next look, or never if it was `Placed`."""

    def __init__(self, api: ApiClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = Events(api, clock)
        self._said: dict[tuple[str, str], tuple[str, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)
        self._log = structlog.get_logger()

    def placed(self, placed: Placed) -> None:
        """Say where a gang starts."""
        about = placed.about
        named = {"kind": about.kind, "namespace": about.namespace, "name": about.name}
        self._log.info("placed", **named, where=placed.message)
        self._said.pop((about.uid, "Waiting"), None)
        if len(self._tasks) < _MOST:
            self._begin(partial(self._write, about, "Placed", placed.message, warning=False))

    def waits(self, waiting: Waiting) -> float:
        """Say why a gang waits. Return when that is due, in seconds since the epoch."""
        due = waiting.since + GRACE_SECONDS
        if self._now() >= due and self._is_due(waiting.about, "Waiting", waiting.reason):
            self._begin(partial(self._explain, waiting))
        return due

    def refused(self, about: About, reason: str) -> None:
        """Say that a gang waits because the API server refuses to open its gates."""
        if self._is_due(about, "Waiting", "refused"):
            self._begin(partial(self._write, about, "Waiting", reason))

    def notice(self, notice: Notice) -> None:
        """Say something else."""
        if self._is_due(notice.about, notice.reason, notice.message):
            self._begin(partial(self._write, notice.about, notice.reason, notice.message))

    def forget(self) -> None:
        """Forget what was said so long ago that it is to be said again."""
        now = self._now()
        self._said = {key: entry for key, entry in self._said.items() if now - entry[1] < _REPEAT_SECONDS}

    async def stop(self) -> None:
        """Leave unsaid what is not written yet."""
        await cancelled([*self._tasks])

    def _is_due(self, about: About, reason: str, message: str) -> bool:
        """Whether an Event is to be written now, which counts as said then."""
        last, at = self._said.get((about.uid, reason), ("", 0.0))
        now = self._now()
        pause = _REPEAT_SECONDS if message == last else _EVENT_PAUSE_SECONDS
        if len(self._tasks) >= _MOST or (last and now - at < pause):
            return False
        self._said[about.uid, reason] = (message, now)
        return True

    async def _explain(self, waiting: Waiting) -> None:
        """Write why a gang waits; if Pods are missing, with what their controller last said about that."""
        message = waiting.reason
        if waiting.kept:
            message += f" {waiting.kept} is kept free for it."
        if waiting.existing < waiting.pods:
            selector = f"involvedObject.uid={waiting.about.uid},reason=FailedCreate"
            path = resource_path("v1", "events", waiting.about.namespace)
            failures: list[dict[str, Any]] = []
            with suppress(ClusterError):
                failures = await several(self._api, path, (("fieldSelector", selector),))
            if failures:
                last = max(failures, key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))
                message += f" FailedCreate: {last.get('message', '')}"
        await self._write(waiting.about, "Waiting", message)

    async def _write(self, about: About, reason: Reason, message: str, *, warning: bool = True) -> None:
        subject = Subject(about.api_version, about.kind, about.namespace, about.name, about.uid)
        occasion = f"{reason}\n{self._now():.0f}\n{message}"
        await self._events.tell(subject, reason, message, occasion=occasion, warning=warning)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:

        async def write() -> None:
            async with self._turns:
                await work()

        task = asyncio.create_task(write(), name="Event")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _now(self) -> float:
        return self._clock.now().timestamp()


PAUSE_SECONDS: Final = 0.01
"""After a change others follow, such as the other Pods of a gang. So much later all of them are looked at together."""

MOST_AT_ONCE: Final = 8
"""Patches under way at a time."""

CHANGED: Final = "the server rejected our request due to an error in our request"
"""What the API server says, with 422, where a test in a patch fails: the Pod has changed, as the watch will show."""

# A holder relies on its Lease for 10 of its 15 seconds, so that a patch ends before another process can hold it.
_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 60.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 10.0
_GONE: Final = frozenset({404, 409})
"""The Pod is gone or has changed, which the watch will show."""


class Gatekeeper:
    """Looks at the cluster after each change. leading: whether this process holds the Lease.

    term: how often this process has begun to lead; `began` is to be called before it does.
    """

    def __init__(
        self,
        api: Connection,
        follower: Follower,
        leading: Callable[[], bool],
        measures: Placing,
        clock: Clock | None = None,
    ) -> None:
        self.term = 0
        self._api = api
        self._follower = follower
        self._leading = leading
        self._measures = measures
        self._clock = clock or Clock()
        self._events = GangEvents(api, self._clock)
        self._limit = asyncio.Semaphore(MOST_AT_ONCE)
        self._refusals: set[int] = set()
        self._knows: Literal["nothing", "listing", "all"] = "nothing"
        self._wake = 0.0
        self._pause = 0.0
        self._rest = 0.0
        self._log = structlog.get_logger()

    def began(self) -> None:
        """Note that this process begins to lead: what it knows may be old, and what it had decided counts no more."""
        self.term += 1
        self._knows = "nothing"

    async def run(self) -> NoReturn:
        """Look until cancelled. No failure ends it."""
        while True:
            await self._changed()
            if self._leading() and self._knows == "nothing":
                self._knows = "listing"
                await self._follower.list_anew()
            if not self._leading() or self._knows == "nothing" or self._follower.unsynced():
                self._measures.leading.set(0)
                self._measures.queue(())
                self._wake = self._now() + _FIRST_PAUSE
                continue
            if self._knows == "listing":
                # What another process opened meanwhile is listed; what this one meant to open was not sent.
                self._follower.placer.forget_openings()
                self._knows = "all"
                gc.collect()
                gc.freeze()  # most of what is listed stays: a look need not wait until the collector has seen it
            self._measures.leading.set(1)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - whatever it is, gangs wait for the next look
                self._log.exception("could not place gangs")
                self._knows = "nothing"  # some openings may have been decided and not sent
                self._back_off()

    async def stop(self) -> None:
        """End what is still under way after `run`."""
        await self._events.stop()

    async def look(self) -> Look:
        """Look once, open gates, and begin to write Events."""
        self._follower.refresh()
        began, now, term = self._clock.monotonic(), self._now(), self.term
        gc.disable()  # a full collection takes longer than the look
        try:
            look = self._follower.placer.look(now)
        finally:
            gc.enable()
        decided = self._clock.monotonic()
        self._wake = look.wake
        refusals = await asyncio.gather(*(self.open(opening, term) for opening in look.openings))
        if any(refusals):
            self._back_off()
        elif look.openings:
            self._pause = 0.0
            self._refusals.clear()
        took = self._clock.monotonic() - decided
        # Begin to write what is new as Events. A look has the openings of each gang that it places one after the other.
        placed, rest = [], iter(refusals)
        for one in look.placed:
            if refused := next(filter(None, [*islice(rest, one.pods)]), ""):
                self._events.refused(one.about, refused)
            else:
                self._events.placed(one)
                placed.append(replace(one, seconds=one.seconds + took))
        later = self._now()
        for waiting in look.queue:
            if (due := self._events.waits(waiting)) > later:
                self._wake = min(self._wake, due)
        for notice in look.notices:
            self._events.notice(notice)
        self._events.forget()
        self._measures.look(replace(look, placed=tuple(placed)), decided - began, now)
        return look

    async def open(self, opening: Opening, term: int) -> str:
        """Open the gate of a Pod. Return why the API server refuses to; empty if it is open, or the Pod has changed.

        term: in which that was decided.
        """
        async with self._limit:
            if term != self.term or not self._leading():
                self._follower.placer.failed(opening)
                return ""
            body, content_type = opening.patch, "application/json-patch+json"
            call = Call("PATCH", _path(opening), content_type=content_type, body=body, seconds=_SECONDS)
            try:
                await fetch(self._api, call)
            except ClusterError as error:
                known = 400 <= error.status < 500
                if known or not await self._is_open(opening, term):
                    return self._failed(opening, error)
        self._measures.opened.labels("opened").inc()
        return ""

    async def _changed(self) -> None:
        """Wait for a change, or for the moment when something is due by itself; after a refusal, for a while first."""
        if self._rest > 0:
            due, self._rest = self._now() + self._rest, 0.0
            while self._leading() and (left := due - self._now()) > 0:
                await self._change(left)
        else:
            await self._change(min(max(self._wake - self._now(), PAUSE_SECONDS), _AGAIN_SECONDS))

    async def _change(self, seconds: float) -> None:
        """Wait for a change and for those that follow it at once, for some seconds at most."""
        try:
            async with asyncio.timeout(seconds):
                await self._follower.changed.wait()
        except TimeoutError:
            return
        await asyncio.sleep(PAUSE_SECONDS)
        self._follower.changed.clear()

    async def _is_open(self, opening: Opening, term: int) -> bool:
        """Whether the gate of a Pod is open, by asking until there is an answer or the Lease is lost."""
        backoff = Backoff(self._clock)
        while term == self.term and self._leading():
            try:
                pod = await named(self._api, _path(opening).rpartition("/")[0], opening.name)
            except ClusterError as error:
                self._log.warning("outcome of a patch is unknown", pod=opening.name, reason=str(error))
                await backoff.wait(error.retry_after)
                continue
            if pod is None or mapping(pod, "metadata").get("uid") != opening.uid:
                return False
            return all(gate.get("name") != GATE for gate in mapping(pod, "spec").get("schedulingGates") or ())
        return False

    def _failed(self, opening: Opening, error: ClusterError) -> str:
        """Count a Pod as gated again. Return why it was refused; empty if it has changed. Causes are logged once."""
        self._follower.placer.failed(opening)
        if error.status in _GONE or (error.status == 422 and CHANGED in str(error)):
            self._measures.opened.labels("gone").inc()
            self._wake = min(self._wake, self._now() + _FIRST_PAUSE)
            return ""
        self._measures.opened.labels("refused").inc()
        reason = str(error)
        if "The placer may" in reason:
            reason += (
                "; a webhook or policy that changes Pods when they are updated must leave out the placer's account"
            )
        elif "cannot patch resource" in reason:
            reason += "; a ClusterRole must allow the placer's account to patch pods"
        if error.status not in self._refusals:
            self._refusals.add(error.status)
            pod = f"{opening.namespace}/{opening.name}"
            self._log.error("could not open the gate of a Pod", pod=pod, reason=reason)
        return f"The API server refuses to open the gate of Pod {opening.name}: {reason}."

    def _back_off(self) -> None:
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._rest = self._pause

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _path(opening: Opening) -> str:
    return resource_path("v1", "pods", opening.namespace, opening.name)
