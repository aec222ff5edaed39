"""Reads, writes, removes and follows the webhook configurations of the cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from policies.engine.request import JsonObject
from policies.labelpolicy import PROBE, REFUSAL
from webhook.cluster.api.call import ApiClient, Call, Connection, fetch, merge, one, resource_path, send
from webhook.cluster.api.errors import ApiError, Clock, ClusterError
from webhook.cluster.api.objects import FollowedResource, WholeObject, name_of, whole
from webhook.cluster.watches.reflector import Cache, Following, Reflector
from webhook.registration.configurations import MANAGER, UNREGISTER, closed_paths, is_unregistered
from webhook.registration.resources import ADMISSION, API_VERSION, CONFIGURATIONS, POLICIES

_KINDS = {**CONFIGURATIONS, **POLICIES}
_MANAGER = (("fieldManager", MANAGER),)
# The API server itself aborts a write after 34 s. It compiles all conditions of a configuration. If that takes long, a
# shorter limit here would repeat the write forever.
_SECONDS = 35.0

Json = dict[str, Any]


async def read(api: ApiClient, kind: str, name: str) -> Json | None:
    """The current configuration; None if it does not exist. Raises ClusterError."""
    try:
        found = await one(api, path(kind, name), _SECONDS)
    except ClusterError as error:
        raise _failure(f"{kind} {name} could not be read", error, kind, "get") from error
    return found and {**found, "apiVersion": f"{ADMISSION}/v1", "kind": kind}


async def write(api: ApiClient, configuration: Mapping[str, Any], *, replaces: bool = False) -> Json:
    """Write a configuration by server-side apply, and take over the ownership of its fields. Return the result.

    replaces: write all of it in place of that with the same resourceVersion. Raises ClusterError; an ApiError with
    status 409 if somebody else changed that first.
    """
    kind, name = configuration["kind"], configuration["metadata"]["name"]
    target = path(kind, name)
    if replaces:
        verbs, call = "update", Call("PUT", target, _MANAGER, body=configuration, seconds=_SECONDS)
    else:
        # Applying an object that does not exist needs the right to create it, too.
        query, form = (*_MANAGER, ("force", "true")), "application/apply-patch+yaml"
        verbs = "patch and create"
        call = Call("PATCH", target, query, content_type=form, body=configuration, seconds=_SECONDS)
    try:
        return await send(api, call)
    except ClusterError as error:
        raise _failure(f"{kind} {name} could not be written", error, kind, verbs) from error


async def owner_uid(api: ApiClient, name: str) -> str | None:
    """The uid of a ClusterRole; None if it does not exist. Raises ClusterError."""
    try:
        path = resource_path("rbac.authorization.k8s.io/v1", "clusterroles", name=name)
        found = await one(api, path, _SECONDS)
    except ApiError as error:
        reason = error.lacking("a ClusterRole must allow the service's account to get it")
        raise ClusterError(f"ClusterRole {name} could not be read: {reason}") from error
    return None if found is None else str(found["metadata"]["uid"])


async def guarding(api: ApiClient, namespace: str) -> str:
    """The policy by which the API server refuses a reserved label, in a dry run; else empty. Raises ClusterError."""
    metadata = {"name": "probe", "labels": {PROBE: ""}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    target = resource_path("coordination.k8s.io/v1", "leases", namespace)
    call = Call("POST", target, (("dryRun", "All"),), content_type="application/json", body=lease, seconds=_SECONDS)
    try:
        await fetch(api, call)
    except ApiError as error:
        # Policies are asked before webhooks, those in files first.
        if error.status == 403 and (refusal := REFUSAL.search(str(error))):
            return refusal["policy"]
        raise
    return ""


async def unregister(api: ApiClient, names: Mapping[str, str]) -> list[str]:
    """Delete the configurations, given as a name by kind, permanently. Returns those that existed, as `kind/name`.

    They are annotated first, so that a running service does not recreate them. Waiting is not necessary, because a
    watch shows the changes of an object in their order, this one before the deletion.

    Raises ClusterError at the first that cannot be annotated or deleted.
    """
    announced = {"metadata": {"annotations": {UNREGISTER: "true"}}}
    for kind, name in names.items():
        try:
            await fetch(api, merge(path(kind, name), announced, _SECONDS, MANAGER))
        except ClusterError as error:
            if error.status != 404:
                raise _failure(f"{kind} {name} could not be annotated", error, kind, "patch") from error
    return await remove(api, names)


async def remove(api: ApiClient, names: Mapping[str, str]) -> list[str]:
    """Delete the configurations, given as a name by kind. Returns those that existed, as `kind/name`.

    Raises ClusterError at the first that cannot be deleted.
    """
    removed = []
    for kind, name in names.items():
        try:
            await fetch(api, Call("DELETE", path(kind, name), seconds=_SECONDS))
        except ClusterError as error:
            if error.status == 404:
                continue
            raise _failure(f"{kind} {name} could not be removed", error, kind, "delete") from error
        removed.append(f"{kind}/{name}")
    return removed


def path(kind: str, name: str = "") -> str:
    """The path of a configuration, or of all configurations of a kind. Raises ClusterError for other kinds."""
    if kind not in _KINDS:
        raise ClusterError(f"{kind} is not written here; what is: {', '.join(_KINDS)}")
    return resource_path(API_VERSION, _KINDS[kind], name=name)


def _failure(what: str, error: ClusterError, kind: str, verbs: str) -> ClusterError:
    """The error with a message about what was tried. An ApiError stays an ApiError with its status."""
    if not isinstance(error, ApiError):
        return ClusterError(f"{what}: {error}")
    reason = error.lacking(f"a ClusterRole must allow its account to {verbs} {_KINDS[kind]} in {ADMISSION}")
    return ApiError(f"{what}: {reason}", error.status, error.retry_after)


class WatchState(Struct, frozen=True):
    """The state of the two configurations in the watches, which may be outdated.

    synced: whether both first lists have arrived. current: the existing configurations, whole, by kind. ever: the kinds
    that have existed since this process follows them. unregistered: whether their permanent deletion was announced.
    This stays true while they do not exist, and ends when they exist without the announcement.
    """

    synced: bool = False
    current: Mapping[str, JsonObject] = {}
    ever: frozenset[str] = frozenset()
    unregistered: bool = False


class Webhooks(Following):
    """The two webhook configurations with a name, and the policy with its binding where they are written, too.

    changed: set when either of them may have changed; its waiter clears it. noticed: called at the same time, for
    another waiter.
    """

    def __init__(
        self,
        api: Connection,
        name: str,
        clock: Clock | None = None,
        noticed: Callable[[], None] = lambda: None,
        *,
        policies: bool = False,
    ) -> None:
        clock = clock or Clock()
        self.changed = asyncio.Event()
        self._unregistered: dict[str, bool] = {}  # by kind, of those that have existed

        def seen(kind: str, item: WholeObject) -> JsonObject:
            """The configuration with its type, which the items of a list lack. What it announces outlives it."""
            configuration = {**item.content, "apiVersion": API_VERSION, "kind": kind}
            self._unregistered[kind] = is_unregistered(configuration)
            return configuration

        def notice() -> None:
            self.changed.set()
            noticed()

        right, selector = "a ClusterRole must allow the service's account to list and watch", f"metadata.name={name}"
        self._known: dict[str, Cache[WholeObject, str, JsonObject]] = {}
        self.parts: list[Reflector[WholeObject]] = []
        for kind, plural in (_KINDS if policies else CONFIGURATIONS).items():
            known = self._known[kind] = Cache(name_of, partial(seen, kind), notice)
            resource = FollowedResource(plural, whole, query=(("fieldSelector", selector),))
            grant = f"{right} {plural} named {name} in {ADMISSION}"
            self.parts.append(Reflector(api, resource, path(kind), known, clock, right=grant))

    @property
    def state(self) -> WatchState:
        """The current state of the watches."""
        return WatchState(
            synced=all(reflector.synced.is_set() for reflector in self.parts),
            current={kind: one for kind, known in self._known.items() for one in known.values},
            ever=frozenset(self._unregistered),
            unregistered=any(self._unregistered.values()),
        )


# API servers watch the configurations independently, and may call for a while after an entry was removed.
_SETTLED_SECONDS = 5.0


def recognition(
    webhooks: Webhooks,
    paths: Callable[[], Collection[str]],
    was_ready: Callable[[], bool],
    monotonic: Callable[[], float] = time.monotonic,
) -> Callable[[], list[str]]:
    """Holds back readiness while an entry fails closed whose path this version does not answer.

    `manage` learns from `/paths` that this replica does not know it, and removes the entry. Once ready, a replica stays
    so: to lose all replicas for one path would be worse than to answer 503 there.

    paths: returns those that this replica answers. was_ready: returns whether the replica has ever been ready. Returned
    is what tells why calls must not arrive here yet; empty if they may.
    """
    last_seen = float("-inf")

    def unready() -> list[str]:
        nonlocal last_seen
        if was_ready():
            return []
        answered = paths()
        unknown = [path for path in closed_paths(webhooks.state.current.values()) if path not in answered]
        now = monotonic()
        if unknown:
            last_seen = now
            texts = ", ".join(unknown)
            return [f"the API server asks for {texts}, which this version does not know; manage removes such entries"]
        if now - last_seen < _SETTLED_SECONDS:
            return ["an entry that this version does not know was removed just now, and API servers may still ask it"]
        return webhooks.unsynced()

    return unready
