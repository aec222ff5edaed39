"""Looks at the cluster once a minute, by the process that leads: at Pods that wait, audits, Nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn, get_args

import structlog

from policies.engine import engine
from policies.engine.facts import Facts
from policies.engine.interruption import Missing
from policies.engine.request import (
    AdmissionRequest,
    GroupVersionKind,
    GroupVersionResource,
    JsonObject,
    mapping,
    mappings,
)
from policies.engine.rule import RuleSet
from policies.tolerations import RULE as TOLERATIONS
from policies.topology.nodes.tree import Kind, Machine, data, flaws, machine
from policies.topology.placement import PLACEMENT
from policies.topology.rule import RULE as TOPOLOGY
from webhook.cluster.api.call import Call, Connection, decoded, fetch, one, pages, resource_path
from webhook.cluster.api.errors import ApiError, Clock, ClusterError
from webhook.cluster.api.events import Events, Subject
from webhook.cluster.api.objects import labels_of, name_of
from webhook.cluster.facts import scheduling
from webhook.cluster.inspection.auditing import Place, read
from webhook.cluster.placer.objects import NODES, WatchedNode
from webhook.cluster.watches.reflector import Cache, Reflector
from webhook.configuration import rules
from webhook.configuration.settings import Settings, SettingsError
from webhook.metrics import Metrics

SECONDS: Final = 60.0
FIRST_SECONDS: Final = 5.0
"""The pause at the start, and until a look is due."""


class Leader(NamedTuple):
    """What the process that leads looks with.

    settings, judgement: return the current ones, the latter rules and facts. leading: returns whether it leads.
    """

    api: Connection
    settings: Callable[[], Settings]
    judgement: Callable[[], tuple[RuleSet, Facts]]
    leading: Callable[[], bool]
    metrics: Metrics
    clock: Clock = Clock()


class PeriodicCheck:
    """Base class: looks again and again while that is due. A failure is logged once, until there is another.

    failure: the log event.
    """

    failure = ""

    def __init__(self, leader: Leader) -> None:
        self._api, self._settings, self._judgement, self._leading, self._metrics, self._clock = leader
        self._problem = ""
        self._log = structlog.get_logger()

    async def look(self) -> None:
        """Look once. Raises ClusterError and SettingsError."""

    def _is_due(self) -> bool:
        return True

    def _rest(self) -> None:
        """Called in place of a look while none is due."""

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        pause = FIRST_SECONDS
        while True:
            await self._clock.sleep(pause)
            pause = SECONDS if self._leading() and self._is_due() else FIRST_SECONDS
            if pause == FIRST_SECONDS:
                self._rest()
                continue
            problem = ""
            try:
                await self.look()
            except (ClusterError, SettingsError) as error:
                problem = str(error)
            if problem and problem != self._problem:
                self._log.warning(self.failure, reason=problem)
            self._problem = problem


_MANAGER: Final = ("app.kubernetes.io/managed-by", "cks-admission")
_SECONDS: Final = 15.0


async def publish(api: Connection, namespace: str, name: str, data: dict[str, str]) -> None:
    """Bring a ConfigMap to hold this data, and nothing else. Raises ClusterError.

    One that somebody else made is left as it is.
    """
    path, own = resource_path("v1", "configmaps", namespace), resource_path("v1", "configmaps", namespace, name)
    title = f"ConfigMap {namespace}/{name}"
    try:
        known = await one(api, own, _SECONDS)
        labels = {"app.kubernetes.io/name": "cks-admission", _MANAGER[0]: _MANAGER[1]}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}
        if known is None:
            await fetch(api, Call("POST", path, body=body, seconds=_SECONDS))
            return
        metadata = known["metadata"]
        if (metadata.get("labels") or {}).get(_MANAGER[0]) != _MANAGER[1]:
            raise ClusterError(f"{title} is somebody else's; delete it, or set topology.facts to another name")
        if (known.get("data") or {}) != data or known.get("binaryData"):
            await fetch(api, Call("PUT", own, body={**body, "metadata": metadata}, seconds=_SECONDS))
    except ApiError as error:
        right = f"a Role in namespace {namespace} must allow to create configmaps, and to get and update {name}"
        raise ClusterError(f"{title} could not be written: {error.lacking(right)}") from error


# How long a look waits for the first list; a later one goes on where it was.
FIRST_SYNC: Final = 10.0


class NodeSurvey(PeriodicCheck):
    """Looks at the Nodes while placements are judged."""

    failure = "could not follow the Nodes"

    def __init__(self, leader: Leader) -> None:
        super().__init__(leader)
        self._accelerators: Sequence[str] = ()
        self._nodes: Cache[WatchedNode, str, Machine] | None = None
        self._reflector: Reflector[WatchedNode] | None = None
        # The Nodes, settings and topologies at the last look; the Nodes with flaws by kind, and what is published.
        self._last: tuple[object, Mapping[str, int], dict[str, str]] | None = None

    @property
    def machines(self) -> Sequence[Machine]:
        """The Nodes, as they are now; none before the first look. The same sequence until one changes."""
        return () if self._nodes is None else self._nodes.values

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        try:
            await super().run()
        finally:
            if self._reflector is not None:
                await self._reflector.stop()

    async def look(self) -> None:
        """Count flaws, and publish what has changed. Raises ClusterError and SettingsError."""
        settings = self._settings()
        machines = await self._followed(settings.tolerations.accelerators.resources)
        topologies = self._judgement()[1].topologies()

        def survey() -> tuple[object, Mapping[str, int], dict[str, str]]:
            of_nodes = flaws(machine.node for machine in machines).values()
            flawed = Counter[str](kind for of_node in of_nodes for kind in {flaw.kind for flaw in of_node})
            known = rules.topologies(settings).joined(topologies).by_name.values() if settings.topology.facts else ()
            facts = data(machines, known) if settings.topology.facts else {}
            return (machines, settings, topologies), flawed, facts

        if self._last is None or self._last[0] != (machines, settings, topologies):
            # 10,000 Nodes take a second, so the event loop does not wait for them.
            self._last = await asyncio.to_thread(survey)
        _, flawed, facts = self._last
        for kind in get_args(Kind):
            self._metrics.placing.flawed.labels(kind).set(flawed.get(kind, 0))
        if settings.topology.facts:
            await publish(self._api, settings.cluster.namespace, settings.topology.facts, facts)

    async def _followed(self, accelerators: Sequence[str]) -> Sequence[Machine]:
        """The Nodes, followed from the first look on. Raises ClusterError."""
        if self._nodes is None or self._reflector is None or self._accelerators != accelerators:
            self._end()

            def kept(item: WatchedNode) -> Machine | None:
                """The part of a Node that counts; None for one with a malformed amount."""
                item.manifest.metadata.labels = labels_of(item)
                try:
                    return machine(item.manifest, accelerators)
                except ValueError:
                    return None

            self._accelerators = accelerators
            self._nodes = Cache(name_of, kept)
            self._reflector = Reflector(self._api, NODES, "/api/v1/nodes", self._nodes, self._clock)
            await self._reflector.start()
        try:
            async with asyncio.timeout(FIRST_SYNC):
                await self._reflector.synced.wait()
        except TimeoutError:
            raise ClusterError("; ".join(self._reflector.unsynced())) from None
        return self._nodes.values

    def _is_due(self) -> bool:
        return rules.follows_topologies(self._settings())

    def _rest(self) -> None:
        self._end()
        for kind in get_args(Kind):
            self._metrics.placing.flawed.labels(kind).set(0)

    def _end(self) -> None:
        if self._reflector is not None and self._reflector.task is not None:
            self._reflector.task.cancel()
        self._reflector = self._nodes = self._last = None


_LACKED = {TOLERATIONS: "the toleration for CPU Nodes", TOPOLOGY: "the scheduling gate of its topology annotations"}


def lacked(pod: JsonObject, ruleset: RuleSet, facts: Facts) -> Sequence[str]:
    """What an unschedulable Pod would have got from the built-in rules, had they been asked; empty for other Pods.

    A Pod whose device claims may make it a GPU Pod is left out, as is one that a rule cannot judge from memory, and one
    that is being deleted.
    """
    metadata, spec, status = (mapping(pod, part) for part in ("metadata", "spec", "status"))
    conditions = [
        (condition.get("type"), condition.get("status"), condition.get("reason"))
        for condition in mappings(status, "conditions")
    ]
    is_unschedulable = (
        status.get("phase") == "Pending"
        and not spec.get("nodeName")
        and ("PodScheduled", "False", "Unschedulable") in conditions
    )
    if not is_unschedulable or spec.get("resourceClaims") or metadata.get("deletionTimestamp"):
        return ()
    request = AdmissionRequest(
        uid="",
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        name=str(metadata.get("name", "")),
        namespace=str(metadata.get("namespace", "")),
        operation="CREATE",
        object={"apiVersion": "v1", "kind": "Pod", **pod},
    )
    if ruleset.safety.spares(request):
        return ()
    try:
        answer = engine.mutate(request, ruleset, facts)
    except Missing:
        return ()
    # The placer opened this one: it had its gate.
    had = {TOPOLOGY} if PLACEMENT in mapping(metadata, "annotations") else set()
    rules = [made.rule for made in answer.decisions if made.verdict == "patch"]
    return [_LACKED[rule] for rule in rules if rule in _LACKED and rule not in had]


class AuditCheck(PeriodicCheck):
    """Shows what audits did, where they leave records."""

    failure = "could not read the record of audits"

    async def look(self) -> None:
        """Show what the newest audit did. Raises ClusterError."""
        settings = self._settings()
        self._metrics.audits.show(*await read(self._api, Place(settings.cluster.namespace, settings.audit.record)))

    def _is_due(self) -> bool:
        return bool(self._settings().audit.record)

    def _rest(self) -> None:
        self._metrics.audits.clear()


MOST: Final = 50
"""Events in one look at most; the next look goes on."""
PATH = "/api/v1/pods"
QUERY = (("fieldSelector", "spec.nodeName=,status.phase=Pending"), ("resourceVersion", "0"))
_PAGE = 500  # the cache ignores it and sends all


class WaitingPods(PeriodicCheck):
    """Looks for Pods that wait for what a rule would have given them."""

    failure = "could not list waiting Pods"

    def __init__(self, leader: Leader) -> None:
        super().__init__(leader)
        self._events = Events(self._api, self._clock)
        self._known: set[str] = set()

    async def look(self) -> None:
        """Create an Event for each Pod that lacks something and has none yet. Raises ClusterError.

        After an Event that fails there are none in this look, and the next one begins with it.
        """
        ruleset, facts = self._judgement()
        known, room = set[str](), MOST
        async for page in pages(self._api, PATH, QUERY, _PAGE):
            for raw in page.items or ():
                pod = decoded(raw, f"GET {PATH}")
                metadata = mapping(pod, "metadata")
                namespace, name, uid = (str(metadata.get(key, "")) for key in ("namespace", "name", "uid"))
                if uid in self._known:
                    known.add(uid)
                elif room and (parts := lacked(pod, ruleset, facts)):
                    # One Event for a Pod and what it lacks, whoever leads.
                    written = await self._events.tell(
                        Subject("v1", "Pod", namespace, name, uid),
                        "AdmittedUnchanged",
                        f"It was admitted while cks-admission did not answer, without {' and '.join(parts)}. "
                        "Delete it, so that its controller creates it again, or create it again.",
                        occasion="\n".join(parts),
                    )
                    room = room - 1 if written else 0
                    known |= {uid} if written else set()
        self._known = known


class SchedulingProbe(PeriodicCheck):
    """Asks what the cluster does about topology constraints of workloads, while the setting is on."""

    failure = "could not try workload scheduling"

    async def look(self) -> None:
        """Ask the API server, and write the answer where replicas read it. Raises ClusterError.

        It is written each time, as the configuration may have been made anew.
        """
        settings = self._settings()
        support = await scheduling.probed(self._api, settings.cluster.namespace)
        await scheduling.publish(self._api, settings.registration.name, support)

    def _is_due(self) -> bool:
        return rules.schedules_workloads(self._settings())


def checks(leader: Leader) -> dict[str, Coroutine[None, None, NoReturn]]:
    """What is to run until it is cancelled."""
    return {
        "waiting Pods": WaitingPods(leader).run(),
        "audits": AuditCheck(leader).run(),
        "Nodes": NodeSurvey(leader).run(),
    }
