"""What the placer knows: Nodes, Pods with what they take, gangs and their roots.

The whole state comes from what was put. An opened Pod carries its domain and its packed Node in its affinity, so
whoever lists the same objects comes to the same decisions, and finishes what was half opened into the same domain.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from policies.cached import cached_property
from policies.engine.facts import Facts
from policies.engine.request import JsonObject, controller_reference, is_being_deleted, mapping
from policies.objects.workload import Workload
from policies.podspec import Accelerators
from policies.topology.choice import Layouts
from policies.topology.gang import GangKey, Member, member
from policies.topology.membership import STAGED, identity, membership, placement_of
from policies.topology.nodes.inventory import Integers, Inventory, PodKey
from policies.topology.nodes.manifest import Amounts, NodeManifest, PodManifest, requests, seconds
from policies.topology.placement import GATE, PLACEMENT
from policies.topology.placer.opening import Goal, goal, is_fixed, packed
from policies.topology.topology import Catalog, nvl_domain
from policies.vocabulary import CLIQUE, HOSTNAME

V = TypeVar("V", bound=Hashable)
_MOST_SHARED: Final = 10_000
_SCALED: Final = frozenset({("apps", "Deployment"), ("argoproj.io", "Rollout")})


class Options(Struct, frozen=True):
    """What an operator can set. settle, patience: seconds; see topology.settleSeconds and topology.patienceSeconds."""

    workloads: Mapping[tuple[str, str], Workload]
    facts: Facts
    accelerators: Accelerators = Accelerators()
    settle: float = 2.0
    patience: float = 900.0


class Group(Struct, frozen=True):
    """What the Pods of a gang have in common. annotations: those of the placement, with their values."""

    root: GangKey
    revision: str
    annotations: tuple[tuple[str, str], ...]


class Pod(Struct, frozen=True):
    """A Pod with a placement. content: what is needed of it later, as the API server has it. demand: what it asks for.

    problem: why it cannot be placed; empty if it can. node: on which it is bound. host: on which it was packed. gates:
    all of its gates. ready: when it became Ready, in seconds since the epoch; 0 if it is not. fixed: whether it has to
    run on the Node on which it was packed.
    """

    key: PodKey
    group: Group
    role: str
    rank: tuple[int, ...]
    content: JsonObject
    demand: Member
    created: float
    problem: str = ""
    node: str = ""
    host: str = ""
    gates: tuple[str, ...] = ()
    ready: float = 0.0
    fixed: bool = False

    @property
    def uid(self) -> str:
        """The uid of the Pod."""
        return str(self.content["metadata"].get("uid"))

    @property
    def is_written(self) -> bool:
        """Whether its content says where it belongs; that of a Pod that was opened just now does not yet."""
        return PLACEMENT in self.content["metadata"]["annotations"]

    @property
    def is_gated(self) -> bool:
        """Whether its gate is closed."""
        return GATE in self.gates

    @property
    def is_open(self) -> bool:
        """Whether it was opened and is not bound yet."""
        return not self.node and not self.is_gated


class Gang:
    """The Pods of a gang that live: no finished ones, and none that are being deleted.

    version: how often its Pods or its root have changed. The rest is what the placer remembers of it. plan: how it may
    start, with what that was made of. tried: what there was when it did not fit; None to try it at the next look.
    refusal: why its further Pods did not fit then. reason: why it waits, with the time of that. kept: a Node in the
    domain that is kept free for it; empty for none. held: what is kept for Pods that are still to come, with the
    version of that.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.pods: dict[PodKey, Pod] = {}
        self.version = 0
        self.plan: tuple[object, Any] | None = None
        self.tried: tuple[int, object] | None = None
        self.refusal: Any = None
        self.reason = (0.0, "", False)
        self.kept = ""
        self.held: tuple[int, Mapping[str, Integers]] | None = None

    def change(self) -> None:
        """Look at it anew."""
        self.version += 1
        for name in ("gated", "anchors", "order", "since", "last"):
            vars(self).pop(name, None)

    @cached_property
    def gated(self) -> list[Pod]:
        """The Pods that wait, by rank."""
        return sorted(
            (pod for pod in self.pods.values() if pod.is_gated), key=lambda pod: (pod.role, pod.rank, pod.key)
        )

    @cached_property
    def anchors(self) -> list[Pod]:
        """The Pods that are bound, or opened with a packed Node: they say where the gang belongs."""
        return [pod for pod in self.pods.values() if pod.node or (pod.host and not pod.is_gated)]

    @cached_property
    def order(self) -> tuple[int, float, str, str]:
        """The order of gangs that wait: by priority, then by age."""
        priority = max(pod.demand.priority or 0 for pod in self.gated)
        return -priority, self.since, self.group.root.namespace, self.group.root.name

    @cached_property
    def since(self) -> float:
        """Since when it waits."""
        return min(pod.created for pod in self.gated)

    @cached_property
    def last(self) -> float:
        """When its last Pod came."""
        return max(pod.created for pod in self.pods.values())


class State:
    """What was put. open: when each Pod was first seen opened and not bound, in seconds since the epoch; 0: not yet."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.inventory = Inventory()
        self.layouts = Layouts(self.inventory)
        self.gangs: dict[Group, Gang] = {}
        self.open: dict[PodKey, float] = {}
        self.pods: dict[PodKey, Pod] = {}
        # Gangs with a Pod that is gated or open, and some that had one: all that there is to look at.
        self.active: set[Group] = set()
        # Gangs of kinds whose Pods may come in stages, and Pods that were bound since the last look.
        self.staged: set[Group] = set()
        self.bound: set[PodKey] = set()
        # How often topologies have changed.
        self.topologies = 0
        self._catalog = Catalog(())
        self._same: dict[Any, Any] = {}
        self._goals: dict[tuple[tuple[str, str], ...], Goal | str] = {}
        self._hosts: dict[str, str] = {}
        self._cliques: dict[str, str] = {}
        self._roots: dict[GangKey, JsonObject] = {}
        self._of_root: dict[GangKey, set[Group]] = {}

    def put_catalog(self, catalog: Catalog) -> None:
        """Take the topologies as they are now."""
        self._catalog = catalog
        self._goals.clear()
        self.topologies += 1

    def put_node(self, node: NodeManifest) -> None:
        """Take a Node as it is now. Raises ValueError for a malformed amount."""
        self.inventory.put_node(node)
        labels = node.metadata.labels or {}
        self._hosts[labels.get(HOSTNAME, node.metadata.name)] = node.metadata.name
        if self._cliques.get(node.metadata.name, "") != labels.get(CLIQUE, ""):
            self._cliques[node.metadata.name] = labels.get(CLIQUE, "")

    def remove_node(self, name: str) -> None:
        """Forget a Node."""
        self.inventory.remove_node(name)
        self._cliques.pop(name, None)

    def put_pod(self, pod: PodManifest, content: JsonObject | None) -> None:
        """Take a Pod as it is now. content: the whole Pod if it has a placement, else None. Raises ValueError."""
        if pod.status.phase in ("Succeeded", "Failed"):
            self.remove_pod(*pod.key)
            return
        asked, node, known = requests(pod), pod.spec.node_name, None
        if content is not None and not is_being_deleted(content):
            known = self._read(pod.key, content, asked)
        if known is None:
            self._forget(pod.key)
        else:
            self._take(known)
            known = self.pods[pod.key]
            node = known.node or ("" if known.is_gated else known.host)
        if node:
            self.inventory.put_pod(pod.key, node, asked, pod.spec.priority or 0)
        else:
            self.inventory.remove_pod(pod.key)

    def remove_pod(self, namespace: str, name: str) -> None:
        """Forget a Pod."""
        self._forget((namespace, name))
        self.inventory.remove_pod((namespace, name))

    def put_root(self, obj: JsonObject) -> None:
        """Take a workload as it is now."""
        self._roots[identity(obj)] = obj
        self._stir(identity(obj))

    def remove_root(self, group: str, kind: str, namespace: str, name: str) -> None:
        """Forget a workload."""
        key = GangKey(namespace, group, kind, name)
        self._roots.pop(key, None)
        self._stir(key)

    def root(self, key: GangKey) -> JsonObject | None:
        """The object of a root; None if it is not known."""
        return self._roots.get(_base(key))

    def scaler(self, key: GangKey) -> JsonObject | None:
        """The Deployment or Rollout of a ReplicaSet; None for others, and if it is not known."""
        owner = controller_reference(self.root(key))
        if owner is None or key.kind != "ReplicaSet":
            return None
        group = str(owner.get("apiVersion")).rpartition("/")[0]
        kind, name = str(owner.get("kind")), str(owner.get("name"))
        return self._roots.get(GangKey(key.namespace, group, kind, name)) if (group, kind) in _SCALED else None

    def family(self, key: GangKey) -> list[Gang]:
        """The gangs of a root, and those of other ReplicaSets of the same Deployment."""
        keys = {_base(key)}
        if (scaler := self.scaler(key)) is not None:
            keys |= {own for own in self._of_root if own.kind == "ReplicaSet" and self.scaler(own) is scaler}
        groups = (group for own in keys for group in self._of_root.get(own, ()))
        return [self.gangs[group] for group in groups if group.root.part == key.part]

    def goal(self, group: Group) -> Goal | str:
        """The placement of a gang, or why there is none."""
        if group.annotations not in self._goals:
            self._goals[group.annotations] = goal(dict(group.annotations), self._catalog)
        return self._goals[group.annotations]

    def cliques(self, domain: str) -> list[str]:
        """The cliques of an NVL Domain."""
        return sorted({clique for clique in self._cliques.values() if clique and nvl_domain(clique) == domain})

    def opened(self, pod: Pod, host: str, now: float, *, fixed: bool) -> None:
        """Count a Pod as opened, and packed on a Node; empty without one."""
        gang = self.gangs[pod.group]
        gates = tuple(gate for gate in pod.gates if gate != GATE)
        self.pods[pod.key] = gang.pods[pod.key] = replace(pod, host=host, gates=gates, fixed=fixed)
        self._stirred(gang)
        self.open[pod.key] = now
        if host:
            self.inventory.put_pod(pod.key, host, pod.demand.requests, pod.demand.priority or 0)

    def gated(self, pod: Pod) -> None:
        """Count a Pod as gated again, whose opening was not carried out."""
        self._forget(pod.key)
        self._take(replace(pod, host="", gates=(*pod.gates, GATE), fixed=False))
        self.inventory.remove_pod(pod.key)

    def _read(self, key: PodKey, content: JsonObject, asked: Amounts) -> Pod | None:
        metadata, spec = mapping(content, "metadata"), mapping(content, "spec")
        annotations, belongs = placement_of(content), membership(content)
        if belongs is None or not annotations:
            return None
        gates = tuple(str(gate.get("name")) for gate in spec.get("schedulingGates") or () if isinstance(gate, dict))
        options = self.options
        demand = member(content, belongs.role, 1, options.facts, options.accelerators, namespace=key[0], asked=asked)
        conditions = mapping(content, "status").get("conditions") or ()
        ready: JsonObject = next((one for one in conditions if one.get("type") == "Ready"), {})
        is_opened = PLACEMENT in mapping(metadata, "annotations") and GATE not in gates
        return Pod(
            key,
            self._shared(Group(belongs.key, belongs.revision, annotations)),
            belongs.role,
            belongs.rank,
            _kept(content),
            self._shared(demand if isinstance(demand, Member) else Member(belongs.role, 1, ())),
            seconds(metadata.get("creationTimestamp")),
            "" if isinstance(demand, Member) else demand,
            str(spec.get("nodeName") or ""),
            self._hosts.get(packed(content), packed(content)) if is_opened else "",
            gates,
            seconds(ready.get("lastTransitionTime")) if ready.get("status") == "True" else 0.0,
            is_opened and is_fixed(content),
        )

    def _shared(self, value: V) -> V:
        """The same value for all that are equal: Pods of a gang have much in common."""
        if len(self._same) > _MOST_SHARED:
            self._same.clear()
        return self._same.setdefault(value, value)  # type: ignore[no-any-return]

    def _take(self, pod: Pod) -> None:
        known = self.pods.get(pod.key)
        if known is not None and known.group != pod.group:
            self._forget(pod.key)
            known = None
        if known is not None and known.uid == pod.uid and known.is_open and pod.is_gated:
            # No gate ever closes again: this is from before its opening, which counts until it fails.
            pod = replace(known, content=pod.content)
        gang = self.gangs.get(pod.group)
        if gang is None:
            gang = self.gangs[pod.group] = Gang(pod.group)
        self._of_root.setdefault(_base(pod.group.root), set()).add(pod.group)
        self.pods[pod.key] = gang.pods[pod.key] = pod
        if pod.is_open and pod.is_written:
            self.open.setdefault(pod.key, 0.0)
        elif self.open.pop(pod.key, None) is not None and pod.node:
            self.bound.add(pod.key)
        if known is None or replace(known, content=pod.content) != pod:
            self._stirred(gang)

    def _forget(self, key: PodKey) -> None:
        pod = self.pods.pop(key, None)
        self.open.pop(key, None)
        if pod is None:
            return
        gang = self.gangs[pod.group]
        del gang.pods[key]
        self._stirred(gang)
        if not gang.pods:
            del self.gangs[pod.group]
            self.active.discard(pod.group)
            groups = self._of_root[_base(pod.group.root)]
            groups.discard(pod.group)
            if not groups:
                del self._of_root[_base(pod.group.root)]

    def _stir(self, key: GangKey) -> None:
        scales = (key.group, key.kind) in _SCALED
        for group in self.active:
            own = group.root
            if own.namespace == key.namespace and (_base(own) == key or (scales and own.kind == "ReplicaSet")):
                self.gangs[group].change()

    def _stirred(self, gang: Gang) -> None:
        gang.change()
        if (gang.group.root.group, gang.group.root.kind) in STAGED and gang.pods:
            self.staged.add(gang.group)
        self.active.add(gang.group)


def _base(key: GangKey) -> GangKey:
    """The key of the object, which has several roots if each of its replicas is one."""
    return replace(key, part="") if key.part else key


def _kept(content: JsonObject) -> JsonObject:
    """What is needed of a Pod later: its gates, its affinity, whose it is, and why it is not bound."""
    metadata, spec = content["metadata"], mapping(content, "spec")
    annotations = {key: "" for key in (PLACEMENT,) if key in mapping(metadata, "annotations")}
    kept: JsonObject = {"uid": str(metadata.get("uid")), "annotations": annotations}
    kept["ownerReferences"] = [one for one in (controller_reference(content),) if one is not None]
    if spec.get("nodeName"):
        return {"metadata": kept, "spec": {}}
    conditions = [c for c in mapping(content, "status").get("conditions") or () if c.get("type") == "PodScheduled"]
    return {
        "metadata": kept,
        "spec": {field: spec[field] for field in ("schedulingGates", "affinity") if field in spec},
        "status": {"conditions": conditions},
    }
