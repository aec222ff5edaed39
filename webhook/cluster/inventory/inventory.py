"""The inventory of a cluster, which watches keep up to date, and what is to be said about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from policies.engine.request import JsonObject, mapping
from policies.topology.affinity import RECORD
from policies.topology.choice.choice import Choice, ChoiceKey
from policies.topology.gang.gang import GangKey
from policies.topology.gang.ledger import Ledger
from policies.topology.gang.membership import identity, membership
from policies.topology.nodes.inventory import Inventory
from policies.topology.nodes.manifest import NodeManifest
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.objects import WholeObject, key_of, name_of
from webhook.cluster.inventory.entries import Entries
from webhook.cluster.inventory.keeper import Choose, Keeper
from webhook.cluster.inventory.resources import NODES, PODS, Manifest, Pod, gang_of
from webhook.cluster.inventory.workloads import GroupKind, NamespacedName, Sink, Workloads
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.tasks import Followers
from webhook.measures.placing import Placing

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


class ClusterInventory(Followers):
    """Nodes, Pods and what workloads have on record. kinds: those of the workloads.

    stale: the seconds after which Nodes and Pods are too old to choose from.
    """

    def __init__(
        self,
        api: Connection,
        ledger: Ledger,
        kinds: Iterable[GroupKind],
        stale: float,
        choose: Choose,
        measures: Placing,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._stock = Inventory(gang_of)
        self._ledger = ledger
        self._stale = stale
        self._measures = measures
        self._keeper = Keeper(self._stock, ledger, self._doubt, choose)
        self._nodes = Entries(name_of, self._put_node, self._stock.remove_node)
        self._pods = Entries(key_of, self._put_pod, self._remove_pod)
        self._reflectors = (
            Reflector(api, NODES, "/api/v1/nodes", self._nodes, self._clock),
            Reflector(api, PODS, "/api/v1/pods", self._pods, self._clock),
        )
        self._workloads = Workloads(api, kinds, self._sink, self._clock)

    async def start(self) -> None:
        """Begin to follow; until the first lists have arrived no domain is chosen."""
        await super().start()
        await self._workloads.start()

    async def stop(self) -> None:
        """Stop following."""
        await super().stop()
        await self._workloads.stop()

    def answer(self, key: ChoiceKey) -> tuple[Choice, ...]:
        """The choices for the gangs of a workload; unknown, with the reason, if none can be made. Raises nothing."""
        with self._measures.seconds.time():
            return self._keeper.answer(key, self._now())

    def age(self) -> float:
        """Seconds since the last proof that both Nodes and Pods are up to date."""
        now = self._clock.monotonic()
        return max(now - reflector.fresh for reflector in self._reflectors)

    def sizes(self) -> Mapping[str, int]:
        """How much it holds, by kind."""
        promises = len(self._keeper.promises(self._now()))
        return {"node": len(self._stock.nodes), "pod": len(self._stock.pods), "promise": promises}

    def problems(self) -> list[str]:
        """Why no domain is chosen, and what is not counted."""
        doubt = self._doubt()
        return [*([f"no domain is chosen: {doubt}"] if doubt else ()), *self._workloads.problems()]

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _doubt(self) -> str:
        """Why nothing must be chosen from what is known; empty if there is no reason."""
        now = self._clock.monotonic()
        for reflector in self._reflectors:
            if reason := _doubt(reflector, now, self._stale):
                return reason
        return next(iter(self._workloads.unsynced()), "")

    def _put_node(self, node: Manifest[NodeManifest]) -> None:
        self._stock.put_node(node.content)

    def _put_pod(self, pod: Pod) -> None:
        self._stock.put_pod(pod.manifest)
        self._ledger.put_pod(pod.content)
        if pod.has_record and (member := membership(pod.content)) is not None:
            self._shown(member.key, pod.content)

    def _remove_pod(self, key: NamespacedName) -> None:
        self._stock.remove_pod(*key)
        self._ledger.remove_pod(_named(("", "Pod"), key))

    def _sink(self, kind: GroupKind) -> Sink:
        """What is done with the workloads of a kind."""

        def put(item: WholeObject) -> None:
            self._ledger.put(item.content)
            if RECORD in mapping(mapping(item.content, "metadata"), "annotations"):
                self._shown(identity(item.content), item.content)

        return Entries(key_of, put, lambda key: self._ledger.remove(_named(kind, key)))

    def _shown(self, workload: GangKey, obj: JsonObject) -> None:
        self._keeper.answers.shown(workload, str(mapping(obj, "metadata").get("generateName") or ""))


def _named(kind: GroupKind, key: NamespacedName) -> JsonObject:
    """An object of which nothing is left but its name."""
    group, name = kind
    metadata = {"namespace": key[0], "name": key[1]}
    return {"apiVersion": f"{group}/" if group else "", "kind": name, "metadata": metadata}


def _doubt(reflector: Reflector[Any], now: float, stale: float) -> str:
    """Why what a reflector follows must not be trusted; empty if it may."""
    name, age = reflector.resource.name, now - reflector.fresh
    if reflector.status == 403:
        right = f"a ClusterRole must allow the service's account to list and watch {name}"
        return f"{name}: {reflector.problem}; {right}"
    if reasons := reflector.unsynced():
        return reasons[0]
    if age < stale:
        return ""
    reason = reflector.problem or "its watch is silent"
    return f"{name}: not known to be up to date for {age:.0f} s, longer than topology.staleSeconds: {reason}"
