"""Finds workloads: those that name a topology, and the one at the top of an object's owners."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from policies.engine.facts import References
from policies.engine.request import JsonObject, Owner, mapping
from policies.engine.violation import listed
from policies.objects.workload import BUILT_IN, Workload
from policies.topology import schemes
from policies.topology.membership import membership
from policies.topology.placement import TOPOLOGY
from webhook.cluster.api.call import UNREADABLE, ApiClient, Page, named, pages, resource_path
from webhook.cluster.api.discovery import ServedResource, places
from webhook.cluster.api.errors import ApiError, ClusterError, UnreachableError

GroupKind = tuple[str, str]

WORKLOADS: tuple[GroupKind, ...] = tuple(row.group_kind for row in BUILT_IN if row.makes_pods)
"""The kinds in the built-in table from which Pods are made."""

# As client-go's metadata client asks. An API that does not support it sends whole objects.
ACCEPT = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
PAGE_SIZE = 500
# The number of kinds that are listed concurrently. A page of 500 needs about 1 MB while it is read.
AT_ONCE = 8
# The rest of the time is for the evaluation with the result, and for other look-ups of the review.
SHARE = 0.8
_SHOWN = 3
_LATE = "no time left"


class _Annotations(msgspec.Struct):
    topology: str | None = msgspec.field(name=TOPOLOGY, default=None)


class _Owner(msgspec.Struct):
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    deletion_timestamp: str | None = None
    annotations: _Annotations | None = None
    owner_references: list[_Owner] | None = None


class _Item(msgspec.Struct):
    metadata: _Metadata


_ITEM = msgspec.json.Decoder(_Item)
_WHOLE = msgspec.json.Decoder(dict[str, Any])


async def search(api: ApiClient, workloads: Iterable[GroupKind], topology: str, seconds: float) -> References:
    """The workloads of some kinds that name a topology, and the kinds that could not be searched in time."""
    progress = _Search(api, workloads, topology)
    with suppress(TimeoutError):  # the result contains what is left
        async with asyncio.timeout(seconds * SHARE), asyncio.TaskGroup() as tasks:
            for group in dict.fromkeys(group for group, _ in progress.left):
                tasks.create_task(progress.group(group, tasks))
    by_reason: dict[str, list[str]] = {}
    for (_, kind), reason in sorted(progress.left.items(), key=lambda item: item[0][1]):
        by_reason.setdefault(reason, []).append(kind)
    incomplete = "; ".join(f"{listed(kinds, _SHOWN)} ({reason})" for reason, kinds in sorted(by_reason.items()))
    # A Pod that waits stands for its root, which may have the annotation in a template only.
    return References(tuple(sorted({*progress.names, *(progress.roots - progress.owned)})), incomplete)


class _Search:
    """One search of the workloads. names: those that name the topology. left: kinds that are not done, with reasons.

    roots: those of Pods that name it and have no Node yet. owned: objects that name it, as what controls them does.
    """

    def __init__(self, api: ApiClient, workloads: Iterable[GroupKind], topology: str) -> None:
        self.names, self.roots, self.owned = set[str](), set[str](), set[str]()
        self.left = dict.fromkeys(workloads, _LATE)
        self._api = api
        self._topology = topology
        self._free = asyncio.Semaphore(AT_ONCE)

    async def group(self, group: str, tasks: asyncio.TaskGroup) -> None:
        """Start a task for each installed kind of a group, which searches its objects."""
        of_group = [group_kind for group_kind in self.left if group_kind[0] == group]
        try:
            served = await places(self._api, group, {kind for _, kind in of_group})
        except ClusterError as error:
            self._failed(of_group, error)
            return
        for group_kind in of_group:
            if group_kind[1] not in served:
                del self.left[group_kind]
        for kind, place in served.items():
            tasks.create_task(self._kind((group, kind), place))

    async def _kind(self, group_kind: GroupKind, place: ServedResource) -> None:
        """Search all objects of a kind. Those that name topologies in fields are read whole."""
        kind, in_fields = group_kind[1], group_kind in schemes.PLACES
        # Pods with a Node are not affected. Others may have the annotation only from a template.
        query = (("fieldSelector", "spec.nodeName="),) if group_kind == ("", "Pod") else ()
        try:
            async with self._free:
                accept = "application/json" if in_fields else ACCEPT
                async for page in pages(self._api, place.path(""), query, PAGE_SIZE, accept):
                    for item, raw in _read(page):
                        named = item.annotations.topology if item.annotations else None
                        if item.deletion_timestamp or not (
                            (named is not None and named.strip() == self._topology)
                            or (in_fields and self._topology in _topologies(raw, group_kind))
                        ):
                            continue
                        name = _name(kind, item.namespace, item.name)
                        if query:
                            belongs = membership(_WHOLE.decode(raw))
                            root = belongs and belongs.key
                            self.roots.add(_name(root.kind, root.namespace, root.name) if root else name)
                        else:
                            # What controls an object names the topology, too.
                            is_owned = any(owner.controller for owner in item.owner_references or ())
                            (self.owned if is_owned else self.names).add(name)
        except ClusterError as error:
            self._failed([group_kind], error)
        else:
            del self.left[group_kind]

    def _failed(self, which: Sequence[GroupKind], error: ClusterError) -> None:
        if error.status == 404:
            for group_kind in which:
                del self.left[group_kind]  # it was removed since discovery
            return
        reason = "no answer" if isinstance(error, UnreachableError) else "failed"
        if isinstance(error, ApiError):
            reason = "forbidden" if error.status == 403 else f"HTTP {error.status}"
        self.left |= dict.fromkeys(which, reason)
        kinds = [kind for _, kind in which]
        structlog.get_logger().warning("could not list workloads", kinds=kinds, reason=str(error))


def _topologies(raw: msgspec.Raw, kind: GroupKind) -> set[str | None]:
    """The topologies that constraints in the fields of an object name."""
    return {one.topology for one in schemes.mentions(_WHOLE.decode(raw), kind, None)}


def _read(page: Page) -> list[tuple[_Metadata, msgspec.Raw]]:
    try:
        return [(_ITEM.decode(raw).metadata, raw) for raw in page.items or ()]
    except UNREADABLE as error:
        raise ClusterError(f"a list holds something that is not an object: {error}") from error


def _name(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def owner_reader(
    api: ApiClient, workloads: Mapping[GroupKind, Workload]
) -> Callable[[Owner, str], Awaitable[JsonObject | None]]:
    """Reads the metadata of an owner in a Namespace; None if it is gone, or of a kind that is not among the workloads.

    A list by name needs no right but to list, which replicas have anyway. It raises ClusterError.
    """

    async def read(owner: Owner, namespace: str) -> JsonObject | None:
        row = workloads.get(owner.group_kind)
        if row is None:
            return None
        path = resource_path(owner.api_version, row.resource, namespace)
        found = await named(api, path, owner.name, ACCEPT)
        return found if found and mapping(found, "metadata").get("uid") == owner.uid else None

    return read
