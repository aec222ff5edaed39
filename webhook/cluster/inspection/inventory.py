"""Reads the Nodes of a cluster, the Pods that are bound to them, and the Topology objects, once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from policies.topology import document
from policies.topology.document import GROUPS, KIND, TopologyError
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.topology import Topology
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.pages import pages
from webhook.cluster.api.wire import UNREADABLE
from webhook.cluster.watches.topologies import VERSIONS
from webhook.doctor.observation import TopologyObjects

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

T = TypeVar("T")

# A Node lists up to 50 images and has at least 20 KB.
_NODES_PAGE, _PODS_PAGE = 100, 500
_BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_NODE = msgspec.json.Decoder(NodeManifest)
_POD = msgspec.json.Decoder(PodManifest)
_CONTENT = msgspec.json.Decoder(dict[str, Any])


async def nodes(api: ApiClient) -> list[NodeManifest]:
    """All Nodes. Raises ClusterError."""
    return [item async for item in _listed(api, "/api/v1/nodes", _NODE, _NODES_PAGE)]


async def pods(api: ApiClient) -> list[PodManifest]:
    """The Pods of all Namespaces that are bound to a Node and have not ended. Raises ClusterError."""
    query = (("fieldSelector", _BOUND),)
    return [item async for item in _listed(api, "/api/v1/pods", _POD, _PODS_PAGE, query)]


async def topologies(api: ApiClient) -> TopologyObjects:
    """The Topology objects of KAI and of Kueue; none if these are not installed. Raises ClusterError.

    A missing right is reported as a problem, because the API server gives the same answer if the kind does not exist.
    """
    read: list[Topology] = []
    problems: list[str] = []
    for group, versions in VERSIONS.items():
        try:
            objects = await _topologies(api, group, versions)
        except ApiError as error:
            if error.status != 403:
                raise
            problems.append(f"{GROUPS[group]}'s topologies are not known: {error}")
            continue
        for item in objects:
            source = document.source_of(item)
            try:
                read.append(document.read(item, source, in_cluster=True))
            except TopologyError as error:
                problems.append(f"{source} cannot be used: {error}")
    return TopologyObjects(tuple(read), tuple(problems))


async def _topologies(api: ApiClient, group: str, versions: Sequence[str]) -> list[dict[str, Any]]:
    """The objects in the newest version that is served, with the kind, which the items of a list do not have."""
    for version in versions:
        try:
            objects = _listed(api, f"/apis/{group}/{version}/topologies", _CONTENT, _PODS_PAGE)
            return [{**item, "apiVersion": f"{group}/{version}", "kind": KIND} async for item in objects]
        except ApiError as error:
            if error.status != 404:
                raise
    return []


async def _listed(
    api: ApiClient, path: str, decoder: msgspec.json.Decoder[T], size: int, query: tuple[tuple[str, str], ...] = ()
) -> AsyncIterator[T]:
    """The objects of a list, page by page. Raises ClusterError."""
    async for page in pages(api, path, query, size):
        for raw in page.items or ():
            try:
                item = decoder.decode(raw)
            except UNREADABLE as error:
                raise ClusterError(f"an object in the answer to GET {path} cannot be read: {error}") from error
            yield item
