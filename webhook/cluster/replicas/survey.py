"""The Nodes, looked at once a minute by the process that leads: flaws of the network, and facts for policies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, get_args
from urllib.parse import quote

from policies.engine.facts import Facts
from policies.topology.nodes.capacity import data
from policies.topology.nodes.tree import Kind, Machine, flaws, machine
from policies.topology.topology import Topology
from webhook.cluster.api.call import Call, fetch, one
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.objects import labels_of, name_of
from webhook.cluster.placer.objects import NODES, WatchedNode
from webhook.cluster.replicas.periodic import PeriodicCheck
from webhook.cluster.watches.reflector import Cache, Followers, Reflector
from webhook.configuration import rules
from webhook.configuration.settings import Settings
from webhook.measures import Placing

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


_MANAGER: Final = ("app.kubernetes.io/managed-by", "cks-admission")
_SECONDS: Final = 15.0


async def publish(api: Connection, namespace: str, name: str, data: dict[str, str]) -> None:
    """Bring a ConfigMap to hold this data, and nothing else. Raises ClusterError.

    One that somebody else made is left as it is.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
    own = f"{path}/{quote(name, safe='')}"
    title = f"ConfigMap {namespace}/{name}"
    try:
        known = await one(api, own, _SECONDS)
        body = {**_made(name), "data": data}
        if known is None:
            await fetch(api, Call("POST", path, body=body, seconds=_SECONDS))
            return
        metadata = known["metadata"]
        if (metadata.get("labels") or {}).get(_MANAGER[0]) != _MANAGER[1]:
            raise ClusterError(f"{title} is somebody else's; delete it, or set topology.facts to another name")
        if (known.get("data") or {}) != data or known.get("binaryData"):
            await fetch(api, Call("PUT", own, body={**body, "metadata": metadata}, seconds=_SECONDS))
    except ApiError as error:
        remedy = (
            f"; a Role in namespace {namespace} must allow to create configmaps, and to get and update {name}"
            if error.status == 403
            else ""
        )
        raise ClusterError(f"{title} could not be written: {error}{remedy}") from error


def _made(name: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "cks-admission", _MANAGER[0]: _MANAGER[1]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


class Machines(Followers):
    """The Nodes, followed from `start` to `stop`. accelerators: globs of resource names."""

    def __init__(self, api: Connection, accelerators: Sequence[str], clock: Clock) -> None:
        self.accelerators = accelerators
        self._cache = Cache[WatchedNode, str, Machine](name_of, self._machine)
        self._reflector = Reflector(api, NODES, "/api/v1/nodes", self._cache, clock)
        self._reflectors = (self._reflector,)

    def cancel(self) -> None:
        """Stop following, without waiting for its end."""
        for task in self._tasks:
            task.cancel()

    async def listed(self) -> None:
        """Wait until the first list has arrived."""
        await self._reflector.synced.wait()

    @property
    def problem(self) -> str:
        """Why they are not known yet; empty if they are."""
        return "; ".join(self._reflector.unsynced())

    @property
    def known(self) -> Sequence[Machine]:
        """The Nodes; the same sequence until one changes."""
        return self._cache.values

    def _machine(self, item: WatchedNode) -> Machine | None:
        """The part of a Node that counts; None for one with a malformed amount."""
        item.manifest.metadata.labels = labels_of(item)
        try:
            return machine(item.manifest, self.accelerators)
        except ValueError:
            return None


# How long a look waits for the first list; a later one goes on where it was.
FIRST_SYNC: Final = 10.0


class _Findings(NamedTuple):
    """What was found on these Nodes with these settings and topologies of the cluster."""

    machines: Sequence[Machine]
    settings: Settings
    topologies: tuple[Topology, ...]
    flawed: Mapping[str, int]
    data: dict[str, str]


class NodeSurvey(PeriodicCheck):
    """Looks at the Nodes while placements are judged. facts: those of the cluster, as they are now."""

    failure = "could not follow the Nodes"

    def __init__(
        self,
        api: Connection,
        settings: Callable[[], Settings],
        leading: Callable[[], bool],
        facts: Callable[[], Facts],
        measures: Placing,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(settings, leading, clock)
        self._api = api
        self._facts = facts
        self._measures = measures
        self._machines: Machines | None = None
        self._findings: _Findings | None = None

    @property
    def machines(self) -> Sequence[Machine]:
        """The Nodes, as they are now; none before the first look."""
        return () if self._machines is None else self._machines.known

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        try:
            await super().run()
        finally:
            if self._machines is not None:
                await self._machines.stop()

    async def look(self) -> None:
        """Count flaws, and publish what has changed. Raises ClusterError and SettingsError."""
        settings = self._settings()
        machines = await self._followed(settings.tolerations.accelerators.resources)
        topologies = self._facts().topologies()
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
        return self._leading() and rules.follows_topologies(self._settings())

    def _rest(self) -> None:
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
