"""Reads the Nodes and Pods of a cluster, workloads with a placement, and topologies, once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from itertools import groupby, product
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from policies.engine.request import JsonObject
from policies.objects.workload import plural
from policies.topology import objects
from policies.topology.membership import ROOT_KINDS
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.objects import GROUPS, KINDS, TopologyError
from policies.topology.topology import Topology
from webhook.cluster.api.call import UNREADABLE, ApiClient, pages
from webhook.cluster.api.discovery import places
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.placer.objects import MENTION
from webhook.cluster.watches.optional import VERSIONS
from webhook.doctor.observation import TopologyObjects

T = TypeVar("T")

# A Node lists up to 50 images and has at least 20 KB.
_NODES_PAGE, _PODS_PAGE, _WORKLOADS_PAGE = 100, 500, 100
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_NODE = msgspec.json.Decoder(NodeManifest)
_POD = msgspec.json.Decoder(PodManifest)
_CONTENT = msgspec.json.Decoder(dict[str, Any])


async def nodes(api: ApiClient) -> list[NodeManifest]:
    """All Nodes. Raises ClusterError."""
    return [item async for item in _listed(api, "/api/v1/nodes", _NODE.decode, _NODES_PAGE)]


async def pods(api: ApiClient) -> list[tuple[PodManifest, msgspec.Raw]]:
    """The Pods of all Namespaces that have not ended, each with its JSON. Raises ClusterError."""
    query = (("fieldSelector", _UNFINISHED),)
    return [pod async for pod in _listed(api, "/api/v1/pods", lambda raw: (_POD.decode(raw), raw), _PODS_PAGE, query)]


class WorkloadObjects(NamedTuple):
    """Workloads with a placement. problems: a line for each kind that cannot be read."""

    found: tuple[JsonObject, ...]
    problems: tuple[str, ...]


async def workloads(api: ApiClient) -> WorkloadObjects:
    """The workloads with a placement, of all kinds that are served. Raises ClusterError.

    A missing right is reported as a problem: what is free is known without them.
    """
    placed: list[JsonObject] = []
    problems: list[str] = []
    for group, rows in groupby(sorted(ROOT_KINDS), key=itemgetter(0)):
        served = await places(api, group, [kind for _, kind in rows])
        for kind, place in sorted(served.items()):
            head = {"apiVersion": place.api_version, "kind": kind}
            try:
                objects = [item async for item in _listed(api, place.path(""), _placed, _WORKLOADS_PAGE)]
            except ApiError as error:
                if error.status not in (403, 404):
                    raise
                problems.append(f"how many Pods a {kind} starts is not known: {error}")
            else:
                placed += [{**item, **head} for item in objects if item]
    return WorkloadObjects(tuple(placed), tuple(problems))


def _placed(raw: msgspec.Raw) -> JsonObject:
    """An object with a placement; empty for others."""
    return _CONTENT.decode(raw) if MENTION in bytes(raw) else {}


async def topologies(api: ApiClient) -> TopologyObjects:
    """The topologies of KAI, Kueue and Grove; none if these are not installed. Raises ClusterError.

    A missing right is reported as a problem, because the API server gives the same answer if the kind does not exist.
    """
    read: list[Topology] = []
    problems: list[str] = []
    for group, versions in VERSIONS.items():
        try:
            items = await _topologies(api, group, versions)
        except ApiError as error:
            if error.status != 403:
                raise
            problems.append(f"{GROUPS[group]}'s topologies are not known: {error}")
            continue
        for item in items:
            source = objects.source_of(item)
            try:
                read.append(objects.read(item, source, in_cluster=True))
            except TopologyError as error:
                problems.append(f"{source} cannot be used: {error}")
    return TopologyObjects(tuple(read), tuple(problems))


async def _topologies(api: ApiClient, group: str, versions: Sequence[str]) -> list[dict[str, Any]]:
    """The objects in the newest version that is served, with the kind, which the items of a list do not have."""
    for version, kind in product(versions, KINDS[group]):
        try:
            objects = _listed(api, f"/apis/{group}/{version}/{plural(kind)}", _CONTENT.decode, _PODS_PAGE)
            return [{**item, "apiVersion": f"{group}/{version}", "kind": kind} async for item in objects]
        except ApiError as error:
            if error.status != 404:
                raise
    return []


async def _listed(
    api: ApiClient, path: str, decode: Callable[[msgspec.Raw], T], size: int, query: tuple[tuple[str, str], ...] = ()
) -> AsyncIterator[T]:
    async for page in pages(api, path, query, size):
        for raw in page.items or ():
            try:
                item = decode(raw)
            except UNREADABLE as error:
                raise ClusterError(f"an object in the answer to GET {path} cannot be read: {error}") from error
            yield item
