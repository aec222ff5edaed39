"""Follows the parameters of admission policies in a cluster, and only those that policies name."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from policies.admissionpolicy.evaluation.inputs import (
    NOT_SERVED,
    Json,
    KindScope,
    KnownParameters,
    ParametersKey,
    as_kept,
    label_selector,
)
from policies.admissionpolicy.model import ParamKind
from policies.engine.interruption import FactUnavailable, Missing
from policies.engine.match import EVERYTHING, common
from webhook.cluster.api.call import Connection
from webhook.cluster.api.discovery import ServedResource, kinds
from webhook.cluster.api.errors import Clock
from webhook.cluster.api.objects import FollowedResource, Object, WholeObject, key_of, whole
from webhook.cluster.watches.reflector import Cache, Discovered, Following, Reflector, cancelled

# An object may have up to 1 MB, and of a page that is read here perhaps none is kept.
_PAGE = 100
# Each namespace and selector that a review asks for is one. They are forgotten with each change of an object.
_SELECTIONS = 4096
_SPECIAL = re.compile(r"([\\,=])")
_OBJECT = msgspec.json.Decoder(Object)


class ParamWatch(Reflector[WholeObject]):
    """The objects of some references to parameters of a kind, and no others.

    reach: what is asked of the API server, at least the references. keys: the references. noticed: called after a list
    has arrived, and after a failure.
    """

    def __init__(
        self,
        api: Connection,
        reach: ParametersKey,
        keys: frozenset[ParametersKey],
        served: ServedResource,
        clock: Clock,
        noticed: Callable[[], None],
    ) -> None:
        self.reach = reach
        self.keys = keys
        self._names = {(key.namespace, key.name) for key in keys if key.name}
        self._selectors = [(key.namespace, key.selector) for key in keys if not key.name and key.selector is not None]
        self._selections: dict[ParametersKey, Sequence[Json]] = {}
        self._objects = Cache[WholeObject, tuple[str, str], Json](
            key_of, lambda item: as_kept(item.content, reach.kind) if item.content else None, self._selections.clear
        )
        query: tuple[tuple[str, str], ...] = ()
        if reach.name:
            # Escaped as by fields.EscapeValue in k8s.io/apimachinery.
            query = (("fieldSelector", "metadata.name=" + _SPECIAL.sub(r"\\\1", reach.name)),)
        elif reach.selector and (labels := label_selector(reach.selector)):
            query = (("labelSelector", labels),)
        kind, group = str(ParametersKey(kind=reach.kind)), reach.kind.api_version.rpartition("/")[0]
        role = f"a Role in namespace {reach.namespace}" if reach.namespace else "a ClusterRole"
        resource = f"{served.resource.resource} of {group}" if group else served.resource.resource
        super().__init__(
            api,
            # Objects of one name are few. How many and how large others are is not known, so they are read in pages.
            FollowedResource(str(reach), self._decoded, _PAGE, query, cached=bool(reach.name), kind=kind),
            served.path(reach.namespace),
            self._objects,
            clock,
            right=f"{role} must allow the service's account to list and watch {resource}",
            noticed=noticed,
        )

    def selected(self, key: ParametersKey) -> Sequence[Json]:
        """The objects in the key's namespace, sorted by name. The key must have the name or selector of a reference."""
        objects = self._objects.by_key
        if key.name:
            return [objects[key.namespace, key.name]] if (key.namespace, key.name) in objects else []
        if key not in self._selections:
            if len(self._selections) >= _SELECTIONS:
                self._selections.clear()
            places = sorted(place for place in objects if place[0] == key.namespace)
            self._selections[key] = [
                objects[place]
                for place in places
                if (key.selector is not None and key.selector.matches(objects[place]["metadata"].get("labels") or {}))
            ]
        return self._selections[key]

    def _decoded(self, raw: msgspec.Raw) -> WholeObject:
        """An object, without its content if no reference means it, so that a large kind costs no memory."""
        metadata = _OBJECT.decode(raw).metadata
        spaces, labels = ("", metadata.namespace), metadata.labels or {}
        if any((space, metadata.name) in self._names for space in spaces) or any(
            space in spaces and selector.matches(labels) for space, selector in self._selectors
        ):
            return whole(raw)
        return WholeObject(metadata, {})


# So many watches of a kind may be narrow. A narrow watch costs a connection, but spares the service all other objects,
# and needs fewer rights. A wide one brings every change of every object of the kind.
FEW = 4


def plan(keys: Collection[ParametersKey]) -> Mapping[ParametersKey, frozenset[ParametersKey]]:
    """The references of a kind that share a watch, by what the watch asks for.

    Each reference has a watch, or each namespace, or the whole kind: the first of these with few watches.
    """
    spaces: dict[str, set[ParametersKey]] = {}
    for key in keys:
        spaces.setdefault(key.namespace, set()).add(key)
    divisions: tuple[Collection[Collection[ParametersKey]], ...] = ([(key,) for key in keys], spaces.values())
    parts: dict[ParametersKey, frozenset[ParametersKey]] = {}
    for part in next((division for division in divisions if len(division) <= FEW), [keys]):
        # What all references of a part have in common is the narrowest key with all their objects.
        first, *others = part
        namespace = first.namespace if all(key.namespace == first.namespace for key in others) else ""
        if first.name and all(key.name == first.name for key in others):
            reach = ParametersKey(kind=first.kind, namespace=namespace, name=first.name)
        else:
            selector = common(EVERYTHING if key.name or key.selector is None else key.selector for key in part)
            reach = ParametersKey(kind=first.kind, namespace=namespace, selector=selector)
        parts[reach] = parts.get(reach, frozenset()) | frozenset(part)
    return parts


# How soon a new or removed CustomResourceDefinition is noticed. No requests are made while the watches work.
LOOK_AGAIN_SECONDS = 5.0
# If there is a known problem, the longest wait. As in kube-apiserver (CollectParams).
PATIENCE_SECONDS = 1.0


class FollowedKind(Discovered):
    """The scope of one kind, and those of its objects that policies name.

    When watches change, the old ones stay until the first lists of the new ones have arrived. parts: those that are
    planned.
    """

    def __init__(self, api: Connection, kind: ParamKind, clock: Clock) -> None:
        super().__init__(str(ParametersKey(kind=kind)), clock, LOOK_AGAIN_SECONDS)
        self.kind = kind
        self._api = api
        self._keys: frozenset[ParametersKey] = frozenset()
        self._served: ServedResource | None = None
        self._moved = asyncio.Event()  # set, and replaced, when more may be known than before
        self._watches: list[ParamWatch] = []  # all that run
        self._planned: dict[ParametersKey, ParamWatch] = {}  # by reference, the watch that should have it
        self._ending: set[asyncio.Task[None]] = set()

    def follow(self, keys: frozenset[ParametersKey]) -> None:
        """Follow exactly these keys from now on. Keys that were already followed keep their objects."""
        self._keys = keys
        if self.task is None:
            self.task = asyncio.create_task(self.run(), name=f"paramKind {self.kind.kind}")
        self._adjust()

    async def stop(self) -> None:
        """Stop following. Known parameters stay available, but are not updated any more."""
        await cancelled([self.task])  # first, because it may start new watches
        await cancelled([*(watch.task for watch in self._watches), *self._ending])

    def unsynced(self) -> list[str]:
        """What is not known yet, with reasons."""
        if not self.decided.is_set():
            return super().unsynced()
        missing = {watch for key, watch in self._planned.items() if self._server(key) is None}
        return [reason for watch in self.parts if watch in missing for reason in watch.unsynced()]

    def problems(self) -> list[str]:
        """What is not up to date, with reasons."""
        reason = "not served; install its CustomResourceDefinition, or correct the paramKind"
        absent = self.decided.is_set() and self._served is None
        return [*super().problems(), *([f"{self._called}: {reason}"] if absent else [])]

    def known(self, key: ParametersKey) -> KnownParameters:
        """The parameters for a key. Raises Missing if they are not known."""
        if not self.decided.is_set():
            raise Missing(key)
        if self._served is None:
            return NOT_SERVED
        if not key.has_objects:
            return KnownParameters(self._served.scope)
        watch = self._server(key) or self._server(self._everywhere(key))
        if watch is None:
            raise Missing(key)
        return KnownParameters(self._served.scope, watch.selected(key))

    async def read(self, key: ParametersKey, seconds: float) -> None:
        """Wait until the parameters are known. Raises FactUnavailable, sooner if there is a known problem."""
        if not await self._settled(key, min(seconds, PATIENCE_SECONDS)) and (
            self._reason(key) or not await self._settled(key, seconds - PATIENCE_SECONDS)
        ):
            slow = f"the API server at {self._api.configuration.host} took over {seconds:.1f} s"
            raise FactUnavailable(f"{key} could not be read: {self._reason(key) or slow}")
        if self._served and _is_watched(key, self._served.scope) and self._plan(key) is None:
            raise not_followed(key)

    def _is_partial(self) -> bool:
        return self._served is None

    async def _look(self) -> None:
        served = (await self._answer(lambda: kinds(self._api, self.kind.api_version))).get(self.kind.kind)
        if served != self._served or not self.decided.is_set():
            event = "param kind is served" if served else "param kind is not served"
            self._log.info(event, param_kind=self._called)
            self._planned = {}
            self._clear()
            self._served = served
            self.decided.set()
            self._adjust()

    def _adjust(self) -> None:
        """Start and end watches to match the keys. It must not wait, so that `known` is consistent."""
        served = self._served
        keys = frozenset(key for key in self._keys if served and _is_watched(key, served.scope))
        self._planned = {}
        for reach, part in plan(keys).items():
            watch = next((watch for watch in self._watches if watch.reach == reach and part <= watch.keys), None)
            if watch is None and served is not None:
                watch = ParamWatch(self._api, reach, part, served, self._clock, self._clear)
                watch.task = asyncio.create_task(watch.run(), name=f"parameters: {reach}")
                self._watches.append(watch)
            self._planned |= dict.fromkeys(part, watch) if watch else {}
        self.parts = sorted({*self._planned.values()}, key=lambda watch: watch.name)
        self._clear()

    def _server(self, key: ParametersKey) -> ParamWatch | None:
        """The watch that has a reference: the planned one or, until its first list has arrived, an older one."""
        planned = self._planned.get(key)
        if planned is None or planned.synced.is_set():
            return planned
        return next((watch for watch in self._watches if watch.synced.is_set() and key in watch.keys), None)

    def _clear(self) -> None:
        """End the watches that nobody needs any more, and wake those that wait for parameters."""
        needed = {*self._planned.values(), *map(self._server, self._planned)}
        for watch in self._watches:
            if watch not in needed and watch.task is not None:
                watch.task.cancel()  # `stop` waits for its end
                self._ending.add(watch.task)
                watch.task.add_done_callback(self._ending.discard)
        self._watches = [watch for watch in self._watches if watch in needed]
        self._moved.set()
        self._moved = asyncio.Event()

    async def _settled(self, key: ParametersKey, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.decided.wait()
                while self._plan(key) and not (self._server(key) or self._server(self._everywhere(key))):
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def _reason(self, key: ParametersKey) -> str | None:
        watch = self._plan(key)
        return self.undecided if watch is None else watch.reason

    def _plan(self, key: ParametersKey) -> ParamWatch | None:
        """The watch that should have these parameters, for their namespace or for all namespaces."""
        return self._planned.get(key) or self._planned.get(self._everywhere(key))

    def _everywhere(self, key: ParametersKey) -> ParametersKey:
        return ParametersKey(kind=self.kind, name=key.name, selector=key.selector)


def not_followed(key: ParametersKey) -> FactUnavailable:
    """The error for parameters that are not followed."""
    return FactUnavailable(f"{key} could not be read: no policy in force names such parameters")


def _is_watched(key: ParametersKey, scope: KindScope) -> bool:
    """Whether a key needs a watch. It does not if its paramRef is wrong or only the scope is needed."""
    return key.has_objects and not (key.namespace and scope == "Cluster")


class ClusterParameters(Following):
    """The parameters of a cluster, from memory. api: the connection, which the caller closes."""

    def __init__(self, api: Connection, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or Clock()
        self._kinds: dict[ParamKind, FollowedKind] = {}
        self._keys: dict[object, frozenset[ParametersKey]] = {}

    async def follow(self, keys: Iterable[ParametersKey], part: object = None) -> None:
        """Follow exactly these keys from now on for a part of all policies. Watches that are still needed continue.

        To change policies, first follow the keys of old and new policies, then put the new ones into force, then follow
        only the keys of these.
        """
        self._keys[part] = frozenset(keys)
        by_kind: dict[ParamKind, set[ParametersKey]] = {}
        for key in sorted(frozenset().union(*self._keys.values()), key=str):
            by_kind.setdefault(key.kind, set()).add(key)
        dropped = [self._kinds.pop(kind) for kind in self._kinds.keys() - by_kind.keys()]
        for kind, of_kind in by_kind.items():
            if kind not in self._kinds:
                self._kinds[kind] = FollowedKind(self._api, kind, self._clock)
            self._kinds[kind].follow(frozenset(of_kind))
        self.parts = [*self._kinds.values()]
        for followed in dropped:
            await followed.stop()

    def known(self, key: ParametersKey) -> KnownParameters:
        """The parameters for a key, objects sorted by name. Raises Missing if they are not known."""
        if key.kind not in self._kinds:
            raise Missing(key)
        return self._kinds[key.kind].known(key)

    async def read(self, key: ParametersKey, seconds: float) -> KnownParameters:
        """Wait until parameters are known. Raises FactUnavailable with what is missing, the reason and the remedy."""
        if key.kind not in self._kinds:
            raise not_followed(key)
        await self._kinds[key.kind].read(key, seconds)
        return self.known(key)
