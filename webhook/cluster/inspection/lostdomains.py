"""Reads which gangs wait for a domain that cannot hold them any more, since its Nodes are gone or take no Pods.

Nothing is kept from look to look, and nothing is read but Pods without a Node while none of these has to run in certain
domains. Then come the kinds of workloads that they belong to, and the Nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from policies.engine.facts import Facts
from policies.engine.request import JsonObject, mapping
from policies.topology.affinity import RECORD, selector_terms
from policies.topology.constraint import REPIN, Options
from policies.topology.gang.account import POD, Account, Share, account, seat
from policies.topology.gang.address import Address
from policies.topology.gang.demand import Cluster
from policies.topology.gang.gang import GangKey, Member
from policies.topology.gang.lifetime import Life
from policies.topology.gang.membership import identity, membership, owner
from policies.topology.nodes.loss import Sites, site
from policies.topology.nodes.manifest import NodeManifest
from webhook.cluster.api.discovery import places
from webhook.cluster.api.events import Subject
from webhook.cluster.api.objects import Object
from webhook.cluster.api.pages import pages
from webhook.cluster.inspection import inventory
from webhook.cluster.inspection.reads import decoded

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

PODS = "/api/v1/pods"
# The API server answers from memory, so that a look every minute costs it little.
_UNBOUND = (("fieldSelector", "spec.nodeName=,status.phase=Pending"), ("resourceVersion", "0"))
_PAGE = 500
_AFFINITY = b'"nodeAffinity"'
_OBJECT = msgspec.json.Decoder(Object)

GroupKind = tuple[str, str]


class LostDomain(NamedTuple):
    """A gang without its domain. sentence: what is missing where. remedy: what its owner can do."""

    about: Subject
    domain: str
    sentence: str
    remedy: str


class _Holder(NamedTuple):
    """An object with a record, and what it promises."""

    obj: JsonObject
    account: Account
    remedy: str


async def read(api: ApiClient, options: Options, kinds: Collection[GroupKind], facts: Facts) -> list[LostDomain]:
    """The gangs that wait for a domain that cannot hold them. kinds: those with records. Raises ClusterError."""
    waiting = await _waiting(api)
    recorded = await _Search(api, kinds).recorded(waiting)
    if not (recorded or any(_has_record(pod) for pods in waiting.values() for pod in pods)):
        return []
    nodes = await inventory.nodes(api)
    cluster = Cluster(facts, options.accelerators)

    def lost() -> list[LostDomain]:
        return _lost([*_pods(waiting, cluster), *_workloads(recorded, options, cluster)], nodes)

    # 10,000 Nodes and hundreds of gangs take a while, so the event loop does not wait for them.
    return await asyncio.to_thread(lost)


def _lost(holders: Iterable[_Holder], nodes: Iterable[NodeManifest]) -> list[LostDomain]:
    sites = Sites(map(site, nodes))
    return [
        LostDomain(_subject(holder.obj), loss.domain, loss.sentence, f"To have another domain chosen, {holder.remedy}.")
        for holder in holders
        for loss in sites.losses(holder.account)
    ]


def _workloads(recorded: Iterable[JsonObject], options: Options, cluster: Cluster) -> Iterator[_Holder]:
    """The workloads whose own record is true."""
    for obj in recorded:
        key = identity(obj)
        row = options.workloads[key.group, key.kind]
        if (made := account(obj, key, row, cluster)) is not None:
            again = f"delete the {key.kind} and create it again"
            remedy = f"set its annotation {REPIN} to a new value" if row.affinity == "always" else again
            yield _Holder(obj, made, remedy)


def _pods(waiting: Mapping[GangKey, list[JsonObject]], cluster: Cluster) -> Iterator[_Holder]:
    """The Pods with a record of their own: single ones, and those of a LeaderWorkerSet's replica together."""
    for key, pods in waiting.items():
        if not key.part and (key.group, key.kind) != POD:
            continue
        own: dict[tuple[Address, Member], int] = {}
        for pod in pods:
            belongs = membership(pod)
            known = None if belongs is None else seat(pod, belongs, cluster, matters=False)
            if known is not None and known.own is not None:
                own[known.own] = own.get(known.own, 0) + 1
        shares = [Share("", replace(member, count=count), address=address) for (address, member), count in own.items()]
        remedy = "delete the leader Pod of its replica" if key.part else "delete the Pod and create it again"
        yield _Holder(pods[0], Account(Life(0.0), tuple(shares)), remedy)


async def _waiting(api: ApiClient) -> dict[GangKey, list[JsonObject]]:
    """The Pods without a Node that must run on certain Nodes, by gang."""
    waiting: dict[GangKey, list[JsonObject]] = {}
    async for page in pages(api, PODS, _UNBOUND, _PAGE):
        for raw in page.items or ():
            if _AFFINITY not in bytes(raw):
                continue
            pod = {**decoded(raw, PODS), "apiVersion": "v1", "kind": "Pod"}
            belongs = membership(pod)
            if belongs is not None and any(selector_terms(mapping(pod, "spec").get("affinity"))):
                waiting.setdefault(belongs.key, []).append(pod)
    return waiting


class _Search:
    """A search for the records of waiting gangs, from their workloads upward. kinds: those that may have records."""

    def __init__(self, api: ApiClient, kinds: Collection[GroupKind]) -> None:
        self._api = api
        self._kinds = kinds
        self._seen: set[GangKey] = set()

    async def recorded(self, gangs: Iterable[GangKey]) -> list[JsonObject]:
        """The workloads of these gangs that have a record, or those for which they work."""
        recorded = []
        due = {replace(key, part="") for key in gangs}
        while due:
            self._seen |= due
            above: set[GangKey] = set()
            for group in {key.group for key in due}:
                async for obj in self._objects(group, due):
                    if _has_record(obj):
                        recorded.append(obj)
                    # A copy of the record of what it works for tells nothing.
                    if (controller := owner(obj)) is not None:
                        above.add(controller)
            due = above - self._seen
        return recorded

    async def _objects(self, group: str, due: Collection[GangKey]) -> AsyncIterator[JsonObject]:
        """The objects of a group with these keys."""
        of_group = {key.kind for key in due if key.group == group and (group, key.kind) in self._kinds}
        served = await places(self._api, group, of_group) if of_group else {}
        for kind, place in served.items():
            path = place.path("")
            head = {"apiVersion": place.root.removeprefix("/apis/").removeprefix("/api/"), "kind": kind}
            async for page in pages(self._api, path, (), _PAGE):
                for raw in page.items or ():
                    own = _OBJECT.decode(raw).metadata
                    if GangKey(own.namespace, group, kind, own.name) in due:
                        yield {**decoded(raw, path), **head}


def _has_record(obj: JsonObject) -> bool:
    return RECORD in mapping(mapping(obj, "metadata"), "annotations")


def _subject(obj: JsonObject) -> Subject:
    metadata = mapping(obj, "metadata")
    namespace, name, uid = (str(metadata.get(key) or "") for key in ("namespace", "name", "uid"))
    return Subject(str(obj["apiVersion"]), str(obj["kind"]), namespace, name, uid)
