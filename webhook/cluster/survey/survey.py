"""Looks at the Nodes once a minute: counts flaws of the network, and publishes what each topology has for policies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, get_args

from policies.engine.facts import Facts
from policies.topology.nodes.capacity import data
from policies.topology.nodes.fabric import Kind, flaws
from policies.topology.nodes.machine import Machine
from policies.topology.topology import Topology
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.replicas.patrol import Patrol
from webhook.cluster.survey.machines import Machines
from webhook.cluster.survey.publication import publish
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.measures.placing import Placing

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

# How long a look waits for the first list; a later one goes on where it was.
FIRST_SYNC: Final = 10.0


class _Findings(NamedTuple):
    """What was found on these Nodes with these settings and topologies of the cluster."""

    machines: Sequence[Machine]
    settings: Settings
    topologies: tuple[Topology, ...]
    flawed: Mapping[str, int]
    data: dict[str, str]


class Surroundings(NamedTuple):
    """What a look depends on, as it is now: the settings, the facts of the cluster, whether this process leads."""

    settings: Callable[[], Settings]
    facts: Callable[[], Facts]
    leading: Callable[[], bool]


class NodeSurvey:
    """Looks while this process leads and placements are judged."""

    def __init__(self, api: Connection, around: Surroundings, measures: Placing, clock: Clock | None = None) -> None:
        self._api = api
        self._around = around
        self._measures = measures
        self._clock = clock or Clock()
        self._patrol = Patrol(self.look, self._is_due, "Nodes not looked at", self._clock, self._forget)
        self._machines: Machines | None = None
        self._findings: _Findings | None = None

    @property
    def machines(self) -> Sequence[Machine]:
        """The Nodes, as they are now; none before the first look."""
        return () if self._machines is None else self._machines.known

    async def run(self) -> NoReturn:
        """Look until cancelled. Failures are logged once."""
        try:
            await self._patrol.run()
        finally:
            if self._machines is not None:
                await self._machines.stop()

    async def look(self) -> None:
        """Count flaws, and publish what has changed. Raises ClusterError and SettingsError."""
        settings = self._around.settings()
        machines = await self._followed(settings.tolerations.accelerators.resources)
        topologies = self._around.facts().topologies()
        last = self._findings
        if last is None or (last.machines, last.settings, last.topologies) != (machines, settings, topologies):
            # 10,000 Nodes take a second, so the event loop does not wait for them.
            last = self._findings = await asyncio.to_thread(_findings, machines, settings, topologies)
        for kind in get_args(Kind):
            self._measures.flawed.labels(kind).set(last.flawed.get(kind, 0))
        if settings.topology.facts:
            await publish(self._api, settings.cluster.namespace, settings.topology.facts, last.data)

    async def _followed(self, accelerators: Sequence[str]) -> Sequence[Machine]:
        """The Nodes, followed from the first look on. Raises ClusterError."""
        if self._machines is None or self._machines.accelerators != accelerators:
            self._end()
            self._machines = Machines(self._api, accelerators, self._clock)
            await self._machines.start()
        try:
            async with asyncio.timeout(FIRST_SYNC):
                await self._machines.listed()
        except TimeoutError:
            raise ClusterError(self._machines.problem) from None
        return self._machines.known

    def _is_due(self) -> bool:
        return self._around.leading() and rules.follows_topologies(self._around.settings())

    def _forget(self) -> None:
        self._end()
        for kind in get_args(Kind):
            self._measures.flawed.labels(kind).set(0)

    def _end(self) -> None:
        if self._machines is not None:
            self._machines.cancel()
        self._machines = self._findings = None


def _findings(machines: Sequence[Machine], settings: Settings, topologies: tuple[Topology, ...]) -> _Findings:
    """What these Nodes have. Raises SettingsError."""
    of_nodes = flaws(machine.node for machine in machines).values()
    flawed = Counter[str](kind for of_node in of_nodes for kind in {flaw.kind for flaw in of_node})
    facts: dict[str, str] = {}
    if settings.topology.facts:
        facts = data(machines, rules.topologies(settings).joined(topologies).by_name.values())
    return _Findings(machines, settings, topologies, flawed, facts)
