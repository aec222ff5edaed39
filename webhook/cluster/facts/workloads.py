"""Finds workloads: those that name a topology, and the one at the top of an object's owners."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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

    def names(self, topology: str) -> bool:
        """Whether the object names a topology and is not being deleted."""
        named = self.annotations.topology if self.annotations else None
        return named is not None and named.strip() == topology and not self.deletion_timestamp

    @property
    def is_owned(self) -> bool:
        """Whether a controller owns the object. Then the owner names the topology, too."""
        return any(owner.controller for owner in self.owner_references or ())


class _Item(msgspec.Struct):
    metadata: _Metadata


_ITEM = msgspec.json.Decoder(_Item)
_WHOLE = msgspec.json.Decoder(dict[str, Any])


async def search(api: ApiClient, workloads: Iterable[GroupKind], topology: str, seconds: float) -> References:
    """The workloads of some kinds that name a topology, and the kinds that could not be searched in time."""
    progress = _Search(api, workloads, topology)
    try:
        async with asyncio.timeout(seconds * SHARE), asyncio.TaskGroup() as tasks:
            for group in dict.fromkeys(group for group, _ in progress.left):
                tasks.create_task(progress.group(group, tasks))
    except TimeoutError:
        pass  # the result contains what is left
    # A Pod that waits stands for its root, which may have the annotation in a template only.
    names = {*progress.names, *(progress.roots - progress.owned)}
    return References(tuple(sorted(names)), progress.incomplete())


class _Search:
    """One search of the workloads. names: those that name the topology. left: kinds that are not done, with reasons.

    roots: those of Pods that name it and have no Node yet. owned: objects that name it, as what controls them does.
    """

    def __init__(self, api: ApiClient, workloads: Iterable[GroupKind], topology: str) -> None:
        self.names: set[str] = set()
        self.roots: set[str] = set()
        self.owned: set[str] = set()
        self.left = dict.fromkeys(workloads, _LATE)
        self._api = api
        self._topology = topology
        self._free = asyncio.Semaphore(AT_ONCE)
        self._log = structlog.get_logger()

    def incomplete(self) -> str:
        """The kinds that were not searched completely, with short reasons; empty if there are none."""
        by_reason: dict[str, list[str]] = {}
        for (_, kind), reason in sorted(self.left.items(), key=lambda item: item[0][1]):
            by_reason.setdefault(reason, []).append(kind)
        return "; ".join(f"{listed(names, _SHOWN)} ({reason})" for reason, names in sorted(by_reason.items()))

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
            tasks.create_task(self._kind(group, kind, place))

    async def _kind(self, group: str, kind: str, place: ServedResource) -> None:
        """Search all objects of a kind. Those that name topologies in fields are read whole."""
        # Pods with a Node are not affected. Others may have the annotation only from a template.
        is_pod = (group, kind) == ("", "Pod")
        query = (("fieldSelector", "spec.nodeName="),) if is_pod else ()
        try:
            async with self._free:
                accept = "application/json" if (group, kind) in schemes.PLACES else ACCEPT
                async for page in pages(self._api, place.path(""), query, PAGE_SIZE, accept):
                    for workload, raw in _read(page):
                        if workload.names(self._topology) or self._in_fields(raw, (group, kind), workload):
                            name = _name(kind, workload.namespace, workload.name)
                            if is_pod:
                                belongs = membership(_WHOLE.decode(raw))
                                root = belongs and belongs.key
                                self.roots.add(_name(root.kind, root.namespace, root.name) if root else name)
                            else:
                                (self.owned if workload.is_owned else self.names).add(name)
        except ClusterError as error:
            self._failed([(group, kind)], error)
        else:
            del self.left[group, kind]

    def _in_fields(self, raw: msgspec.Raw, kind: GroupKind, workload: _Metadata) -> bool:
        """Whether a constraint in the fields of an object names the topology."""
        if kind not in schemes.PLACES or workload.deletion_timestamp:
            return False
        return any(one.topology == self._topology for one in schemes.mentions(_WHOLE.decode(raw), kind, None))

    def _failed(self, which: Sequence[GroupKind], error: ClusterError) -> None:
        if error.status == 404:
            for group_kind in which:
                del self.left[group_kind]  # it was removed since discovery
            return
        self.left |= dict.fromkeys(which, _in_short(error))
        self._log.warning("could not list workloads", kinds=[kind for _, kind in which], reason=str(error))


def _read(page: Page) -> list[tuple[_Metadata, msgspec.Raw]]:
    try:
        return [(_ITEM.decode(raw).metadata, raw) for raw in page.items or ()]
    except UNREADABLE as error:
        raise ClusterError(f"a list holds something that is not an object: {error}") from error


def _name(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def _in_short(error: ClusterError) -> str:
    if isinstance(error, ApiError):
        return "forbidden" if error.status == 403 else f"HTTP {error.status}"
    return "no answer" if isinstance(error, UnreachableError) else "failed"


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
