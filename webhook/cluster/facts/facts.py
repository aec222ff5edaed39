"""The facts of a cluster: kept up to date by watches, so that rules are answered from memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from policies.admissionpolicy.params import UnknownParameters
from policies.cel.library.authorizer import Answer, Check, UnansweredCheck
from policies.engine.facts import NeededLookUp, Node, References, UnknownFact, UnknownReferences
from policies.engine.request import JsonObject
from policies.engine.requester import CONTROL_PLANE, CONTROL_PLANE_LABEL
from policies.topology.topology import Topology
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.objects import (
    NAMESPACES,
    NODES,
    KnownNamespace,
    NamespaceObject,
    NodeObject,
    name_of,
    namespace_of,
    node_of,
)
from webhook.cluster.facts import access, references
from webhook.cluster.facts.namespaces import PATH, NamespaceReads
from webhook.cluster.facts.references import WORKLOADS, GroupKind
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.devices import Devices, cancelled
from webhook.cluster.watches.parameters import ClusterParameters
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.topologies import VERSIONS, Topologies

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

_NO_CLASSES: frozenset[str] = frozenset()


class ClusterFacts:
    """The look-ups that rules may make (policies.engine.facts.Facts), answered for a cluster.

    api: the connection, which stays the caller's to close. watch_nodes: whether a rule needs Nodes, for they are many.
    watch_topologies: whether a rule needs those of the cluster. workloads: the kinds that may name one, to be replaced
    when they are others.
    parameters: those of admission policies, as far as it is told to follow them.
    """

    def __init__(
        self,
        api: Connection,
        *,
        watch_nodes: bool,
        watch_topologies: bool = False,
        workloads: Iterable[GroupKind] = WORKLOADS,
        clock: Clock | None = None,
    ) -> None:
        self.api = api
        self.workloads = tuple(workloads)
        self._clock = clock or Clock()
        self._namespaces = Cache[NamespaceObject, str, KnownNamespace](name_of, namespace_of)
        self._nodes = Cache[NodeObject, str, Node](name_of, node_of)
        self._reads = NamespaceReads(api, self._clock)
        self._devices = Devices(api, self._clock)
        self._topologies = Topologies(api, VERSIONS if watch_topologies else {}, self._clock)
        self.parameters = ClusterParameters(api, self._clock)
        self._reflectors: list[Reflector[Any]] = [Reflector(api, NAMESPACES, PATH, self._namespaces, self._clock)]
        if watch_nodes:
            self._reflectors.append(Reflector(api, NODES, "/api/v1/nodes", self._nodes, self._clock))
        self._tasks: list[asyncio.Task[NoReturn]] = []

    async def start(self) -> None:
        """Begin to follow the cluster; `unsynced` says what has not arrived yet."""
        running = {reflector.resource.name: reflector.run() for reflector in self._reflectors}
        running["devices"] = self._devices.run()
        running |= {f"topologies of {group}": each.run() for group, each in self._topologies.groups.items()}
        self._tasks = [asyncio.create_task(work, name=name) for name, work in running.items()]

    async def stop(self) -> None:
        """End all that is under way. What is known stays known, and grows old."""
        await cancelled(self._tasks)
        self._tasks = []
        await self._reads.stop()
        await self.parameters.stop()

    def unsynced(self) -> list[str]:
        """What is not known yet and why, a reason each; empty from the first lists on, whatever happens later."""
        return [
            *(reason for reflector in self._reflectors for reason in reflector.unsynced()),
            *self._devices.unsynced(),
            *self._topologies.unsynced(),
        ]

    def problems(self) -> list[str]:
        """What is not up to date and why, a reason each."""
        found = [f"{followed.resource.name}: {followed.problem}" for followed in self._reflectors if followed.problem]
        return [*found, *self._devices.problems(), *self._topologies.problems()]

    async def read_namespace(self, name: str, seconds: float) -> None:
        """Ask the API server for a Namespace, so that `namespace` and its labels are known. Raises FactUnavailable.

        The answer is kept for some seconds, also that it does not exist; then it has its name and name label alone.
        """
        await self._reads.read(name, seconds)

    async def read_parameters(self, needed: UnknownParameters, seconds: float) -> None:
        """Wait for parameters of a policy, so that `parameters` knows them. Raises FactUnavailable."""
        await self.parameters.read_parameters(needed, seconds)

    async def review(self, check: Check, seconds: float) -> Answer:
        """Ask the API server for the answer to an authorization check; an errored one if it has none in time."""
        return await access.review(self.api, check, seconds)

    async def read_references(self, topology: str, seconds: float) -> References:
        """Look for the workloads that name a topology; where some could not be looked at in time, it is said."""
        return await references.search(self.api, self.workloads, topology, seconds)

    def control_plane_namespaces(self) -> tuple[str, ...]:
        """The names of the control-plane Namespaces, sorted."""
        namespaces = self._namespaces.by_key.items()
        return tuple(
            sorted(name for name, known in namespaces if known.labels.get(CONTROL_PLANE_LABEL) == CONTROL_PLANE)
        )

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a Namespace. Raises UnknownFact: then `read_namespace` is to be called."""
        return self._namespace(name).labels

    def namespace(self, name: str) -> JsonObject:
        """The whole Namespace. Raises UnknownFact: then `read_namespace` is to be called."""
        found: JsonObject = msgspec.json.decode(self._namespace(name).content)
        return found

    def _namespace(self, name: str) -> KnownNamespace:
        known = self._namespaces.by_key.get(name) or self._reads.get(name)
        if known is None:
            raise UnknownFact(name)
        return known

    def nodes(self) -> Sequence[Node]:
        """The Nodes; none where they are not watched."""
        return self._nodes.values

    def claim_classes(self, namespace: str, claim: str, template: str) -> frozenset[str]:
        """The device classes that a claim, or a claim of a template, asks for; none if it is not known."""
        known = self._devices.claims if claim else self._devices.templates
        return known.by_key.get((namespace, claim or template), _NO_CLASSES)

    def extended_resources(self) -> Mapping[str, str]:
        """The extended resource names of DeviceClasses that have one, by class."""
        return self._devices.extended.by_key

    def topologies(self) -> tuple[Topology, ...]:
        """The topologies that are objects of the cluster, as far as they are watched; the same until one changes."""
        return self._topologies.known

    def references(self, topology: str) -> References:
        """Nothing is known of workloads beforehand: `read_references` is to be called."""
        raise UnknownReferences(topology)

    def answer(self, check: Check) -> Answer:
        """Nothing is known of authorization beforehand: each check is asked when it comes up."""
        raise UnansweredCheck(check)

    def give_up(self, needed: NeededLookUp) -> None:
        """Whoever looks for something knows what it did not find."""

    def today(self) -> date:
        """The date in UTC."""
        return self._clock.now().astimezone(UTC).date()
