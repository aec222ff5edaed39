"""The facts of a cluster, which watches keep up to date, so that rules read them from memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, date
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from policies.admissionpolicy.evaluation.parameters import ParametersKey
from policies.cel.library.kubernetes.authorizer import Check
from policies.engine.facts import Facts, Namespace, NamespaceKey, Node, ReferencesKey
from policies.engine.interruption import Key, Missing
from policies.engine.safety import CONTROL_PLANE, CONTROL_PLANE_LABEL
from policies.topology.topology import Topology
from policies.topology.way import FlavorsKey
from policies.topology.workload import JobKey, SupportKey
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.objects import (
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    NamespaceObject,
    PriorityClassObject,
    WatchedNode,
    name_of,
    namespace_of,
    node_of,
)
from webhook.cluster.facts import references, scheduling
from webhook.cluster.facts.access import AccessReviews
from webhook.cluster.facts.namespaces import PATH, NamespaceReads
from webhook.cluster.facts.references import WORKLOADS, GroupKind
from webhook.cluster.facts.scheduling import Ask, SchedulingSupport
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.devices import Devices
from webhook.cluster.watches.parameters import ClusterParameters
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.tasks import cancelled
from webhook.cluster.watches.topologies import VERSIONS, NodePools, Topologies

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

T = TypeVar("T")
_PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_NO_CLASSES: frozenset[str] = frozenset()


class KnownFacts(Facts, frozen=True):
    """The current facts of a cluster: everything that was read or watched so far."""

    namespaces: Cache[NamespaceObject, str, Namespace]
    reads: NamespaceReads
    watched_nodes: Cache[WatchedNode, str, Node]
    devices: Devices
    watched_topologies: Topologies
    parameters: ClusterParameters
    support: SchedulingSupport
    classes: Cache[PriorityClassObject, str, PriorityClassObject]
    pools: NodePools
    clock: Clock

    def known(self, key: Key[Any]) -> Any:
        """What is in memory. All other keys are looked up for each review. Raises Missing."""
        if isinstance(key, NamespaceKey) and (
            namespace := self.namespaces.by_key.get(key.name) or self.reads.get(key.name)
        ):
            return namespace
        if isinstance(key, ParametersKey):
            return self.parameters.known(key)
        if isinstance(key, SupportKey):
            return self.support.current
        raise Missing(key)

    def nodes(self) -> Sequence[Node]:
        """The Nodes; none if they are not watched."""
        return self.watched_nodes.values

    def nodes_to_come(self) -> Sequence[Mapping[str, str]]:
        """The labels that the pools of the cluster give their Nodes; none if they are not watched."""
        return self.pools.known

    def priorities(self) -> Mapping[str, int] | None:
        """The values of PriorityClasses by name; None before they are known, for there are always some."""
        classes = self.classes.values
        names = ((item.metadata.name, item.value) for item in classes)
        default = (("", item.value) for item in classes if item.global_default)
        return dict((*names, *default)) or None

    def claim_classes(self, namespace: str, claim: str, template: str) -> frozenset[str]:
        """The device classes that a claim, or a claim from a template, requests; none if it is unknown."""
        claims = self.devices.claims if claim else self.devices.templates
        return claims.by_key.get((namespace, claim or template), _NO_CLASSES)

    def extended_resources(self) -> Mapping[str, str]:
        """The extended resource names of DeviceClasses, by class."""
        return self.devices.extended.by_key

    def topologies(self) -> tuple[Topology, ...]:
        """The topologies that are objects of the cluster, if watched. The tuple is the same until one changes."""
        return self.watched_topologies.known

    def today(self) -> date:
        """The date in UTC."""
        return self.clock.now().astimezone(UTC).date()


class ClusterFacts:
    """Follows a cluster, and reads what is missing in `known`.

    api: the connection, which the caller closes. watch_nodes: whether a rule needs Nodes, of which there are many.
    watch_topologies: whether a rule needs the cluster's topologies. watch_devices: whether a rule needs device claims.
    watch_priorities: whether PriorityClasses matter. watch_pools: whether a rule asks for Nodes that may be added.
    workloads: the kinds that may name a topology; to be replaced when they change. support: asks what the cluster does
    about topology constraints of workloads; None if nobody needs to know. parameters: the followed parameters of
    admission policies. known: the facts for rules.
    """

    def __init__(
        self,
        api: Connection,
        *,
        watch_nodes: bool,
        watch_topologies: bool = False,
        watch_devices: bool = True,
        watch_priorities: bool = False,
        watch_pools: bool = False,
        workloads: Iterable[GroupKind] = WORKLOADS,
        support: Ask | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.api = api
        self.workloads = tuple(workloads)
        clock = clock or Clock()
        self._namespaces = Cache[NamespaceObject, str, Namespace](name_of, namespace_of)
        self._reads, self._access = NamespaceReads(api, clock), AccessReviews(api, clock)
        self._support = SchedulingSupport(support, clock)
        self._devices = Devices(api, clock)
        self._watch_devices = watch_devices
        self._topologies = Topologies(api, VERSIONS if watch_topologies else {}, clock)
        self._pools = NodePools(api, clock, watch=watch_pools)
        self.parameters = ClusterParameters(api, clock)
        self._reflectors: list[Reflector[Any]] = [Reflector(api, NAMESPACES, PATH, self._namespaces, clock)]
        nodes = Cache[WatchedNode, str, Node](name_of, node_of)
        if watch_nodes:
            self._reflectors.append(Reflector(api, NODES, "/api/v1/nodes", nodes, clock))
        classes = Cache[PriorityClassObject, str, PriorityClassObject](name_of, lambda item: item)
        # Rules do without them, so nothing waits for their first list.
        priorities = Reflector(api, PRIORITY_CLASSES, _PRIORITY_CLASSES, classes, clock)
        self._optional: list[Reflector[Any]] = [priorities] if watch_priorities else []
        self.known: Facts = KnownFacts(
            self._namespaces,
            self._reads,
            nodes,
            self._devices,
            self._topologies,
            self.parameters,
            self._support,
            classes,
            self._pools,
            clock,
        )
        self._tasks: list[asyncio.Task[NoReturn]] = []

    async def start(self) -> None:
        """Begin to follow the cluster; `unsynced` lists what has not arrived yet."""
        running = {follower.resource.name: follower.run() for follower in (*self._reflectors, *self._optional)}
        if self._watch_devices:
            running["devices"] = self._devices.run()
        if self._support.asks:
            running["workload scheduling"] = self._support.run()
        running |= {f"topologies of {group}": followed.run() for group, followed in self._topologies.groups.items()}
        running |= {f"node pools of {group}": followed.run() for group, followed in self._pools.groups.items()}
        self._tasks = [asyncio.create_task(work, name=name) for name, work in running.items()]

    async def stop(self) -> None:
        """Stop following. The facts stay available, but are not updated any more."""
        await cancelled(self._tasks)
        self._tasks = []
        await self._reads.stop()
        await self._access.stop()
        await self.parameters.stop()

    def reflectors(self) -> list[Reflector[Any]]:
        """What is followed now."""
        sources = (self._devices, self._topologies, self._pools, self.parameters)
        own = (*self._reflectors, *self._optional)
        return [*own, *(reflector for source in sources for reflector in source.reflectors())]

    def unsynced(self) -> list[str]:
        """What is not known yet, with reasons. Always empty after the first lists have arrived."""
        return [
            *(reason for reflector in self._reflectors for reason in reflector.unsynced()),
            *(self._devices.unsynced() if self._watch_devices else ()),
            *self._topologies.unsynced(),
        ]

    def problems(self) -> list[str]:
        """What is not up to date, with reasons."""
        problems = [
            f"{follower.resource.name}: {follower.problem}"
            for follower in (*self._reflectors, *self._optional)
            if follower.problem
        ]
        support = [f"workload scheduling: {self._support.problem}"] if self._support.problem else []
        return [*problems, *self._devices.problems(), *self._topologies.problems(), *self._pools.problems(), *support]

    async def read(self, key: Key[T], seconds: float) -> T:
        """The value of a key that is missing in `known`. Raises FactUnavailable, and Missing if reading found nothing.

        A Namespace is read and cached for some seconds; one that does not exist has only its name and name label.
        Parameters are awaited. References contain the kinds that could not be searched in time. A check without an
        answer in time becomes an errored one.
        """
        readers: Mapping[type[Key[Any]], Callable[[Any, float], Awaitable[Any]]] = {
            NamespaceKey: self._read_namespace,
            ParametersKey: self.parameters.read,
            ReferencesKey: lambda key, seconds: references.search(self.api, self.workloads, key.topology, seconds),
            Check: self._access.review,
            FlavorsKey: lambda key, seconds: scheduling.flavors(self.api, key, seconds),
            JobKey: lambda key, seconds: scheduling.job(self.api, key, seconds),
        }
        value: T = await readers[type(key)](key, seconds)
        return value

    async def _read_namespace(self, key: NamespaceKey, seconds: float) -> Namespace:
        await self._reads.read(key.name, seconds)
        return self.known.look_up(key)

    def control_plane_namespaces(self) -> tuple[str, ...]:
        """The names of the control-plane Namespaces, sorted."""
        names = (
            name
            for name, namespace in self._namespaces.by_key.items()
            if namespace.labels.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE
        )
        return tuple(sorted(names))
