"""Replicas of a LeaderWorkerSet, from the creation of their Pods to where these are bound."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from support.builders import FACTS, TODAY, WORKLOADS, Json, pod_spec, request, resource

from policies.engine.facts import StaticFacts
from policies.objects import patch
from policies.topology.catalog import BUILT_IN, Catalog
from policies.topology.choice.choice import Choice, ChoiceKey
from policies.topology.choice.survey import choose
from policies.topology.constraint import Options
from policies.topology.gang.demand import Cluster
from policies.topology.gang.ledger import Ledger
from policies.topology.gang.membership import membership
from policies.topology.nodes.inventory import Inventory
from policies.topology.nodes.manifest import NodeManifest, PodManifest
from policies.topology.rule import TopologyPlacement
from webhook.cluster.inventory.keeper import Keeper
from webhook.cluster.inventory.resources import gang_of

_LWS, _RACK, _GPU = "leaderworkerset.sigs.k8s.io", "node.coreweave.cloud/rack", "nvidia.com/gpu"
_ASKED = {"kai.scheduler/topology": "coreweave", "kai.scheduler/topology-required-placement": "rack"}
_GPUS, _CPUS = {_GPU: 8}, {"cpu": 4}
_SIZE = 3
_NOW = 1_800_000_000.0


class _Cluster:
    """Racks of Nodes with 8 GPUs, and one LeaderWorkerSet whose workers take a Node each.

    racks: the number of their Nodes. leader: what a leader asks for. refuses: whether gangs without room are refused.
    """

    def __init__(self, *racks: int, leader: Json, refuses: bool = False) -> None:
        self.rule = TopologyPlacement(Catalog(BUILT_IN), Options(WORKLOADS, full="refuse" if refuses else "pin"))
        self.inventory = Inventory(gang_of)
        self.ledger = Ledger(WORKLOADS, Cluster(FACTS))
        self.keeper = Keeper(self.inventory, self.ledger, str, choose)
        self.pods: dict[str, Json] = {}
        self.free: dict[str, list[str]] = {}
        for number, size in enumerate(racks):
            rack = f"r{number}"
            self.free[rack] = [f"{rack}-{node}" for node in range(size)]
            for name in self.free[rack]:
                self.inventory.put_node(msgspec.convert(_node(name, rack), NodeManifest))
        templates = {"leaderTemplate": {"spec": pod_spec(leader)}, "workerTemplate": {"spec": pod_spec({_GPU: 8})}}
        spec = {"replicas": 2, "leaderWorkerTemplate": {"size": _SIZE, **templates}}
        made = resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"spec": spec}, annotations=_ASKED)
        self.workload = self.written(made)
        self.ledger.put(self.workload)

    def answer(self, key: ChoiceKey) -> tuple[Choice, ...]:
        """The choices of the keeper."""
        return self.keeper.answer(key, _NOW)

    def written(self, obj: Json) -> Json:
        """A new object as it is stored."""
        obj["metadata"] |= {"namespace": "default", "creationTimestamp": "2027-01-15T08:00:00Z"}
        facts = StaticFacts(TODAY, chooser=self.answer)
        return patch.apply(deepcopy(obj), self.rule.mutate(request(obj), facts).operations)

    def create(self, name: str) -> str:
        """Create a Pod as the controller does, and bind it to a Node of its rack if one is free. Returns the rack."""
        pod = self.written(self._pod(name))
        rack = _rack(pod) if "affinity" in pod["spec"] else ""
        if self.free.get(rack):
            pod["spec"]["nodeName"] = self.free[rack].pop()
        self.pods[name] = pod
        self.ledger.put_pod(pod)
        if (belongs := membership(pod)) is not None:
            self.keeper.answers.shown(belongs.key)
        self.inventory.put_pod(msgspec.convert(pod, PodManifest))
        return rack

    def delete(self, name: str) -> None:
        """Delete a Pod."""
        pod = self.pods.pop(name)
        self.ledger.remove_pod(pod)
        self.inventory.remove_pod("default", name)
        if node := pod["spec"].get("nodeName"):
            self.free[_rack(pod)].append(node)

    def _pod(self, name: str) -> Json:
        of_set, *numbers = name.split("-")
        is_leader = len(numbers) == 1
        template = self.workload["spec"]["leaderWorkerTemplate"]["leaderTemplate" if is_leader else "workerTemplate"]
        labels = {f"{_LWS}/name": of_set, f"{_LWS}/worker-index": "0" if is_leader else numbers[1]}
        labels |= {} if is_leader else {f"{_LWS}/group-index": numbers[0]}
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name.rpartition("-")[0], "controller": True}
        annotations = {**template.get("metadata", {}).get("annotations", {}), f"{_LWS}/size": str(_SIZE)}
        metadata = {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": [owner]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": deepcopy(template["spec"])}


def _node(name: str, rack: str) -> Json:
    amounts = {"cpu": "64", "pods": "110", _GPU: "8"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": {_RACK: rack}}, "spec": {}, "status": status}


def _rack(pod: Json) -> str:
    """The rack that a Pod's affinity names."""
    terms: Any = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((expression,),) = (term["matchExpressions"] for term in terms["nodeSelectorTerms"])
    (value,) = expression["values"]
    return str(value)


@pytest.mark.parametrize("leader", [_GPUS, {_GPU: 4}, _CPUS], ids=["alike", "smaller", "without GPUs"])
def test_a_replica_is_in_one_rack(leader: Json) -> None:
    """A leader's rack has room for its workers, which follow it or the first of them; another replica has its own."""
    places = 2 if leader == _CPUS else 3
    cluster = _Cluster(1, places, places + 1, places, leader=leader)
    names = ["trainer-0", "trainer-1", "trainer-1-2", "trainer-0-1", "trainer-1-1", "trainer-0-2"]

    racks = {name: cluster.create(name) for name in names}

    first, second = {racks["trainer-0-1"]}, {racks["trainer-1-1"]}
    assert {frozenset(first), frozenset(second)} == {frozenset({"r1"}), frozenset({"r3"})}
    assert {racks["trainer-0-2"], racks["trainer-0"] or racks["trainer-0-2"]} == first
    assert {racks["trainer-1-2"], racks["trainer-1"] or racks["trainer-1-2"]} == second


@pytest.mark.parametrize("leader", [_GPUS, _CPUS], ids=["leader", "worker"])
def test_a_worker_that_comes_again(leader: Json) -> None:
    """It follows the others, though another rack alone has room, even where gangs without room are refused."""
    cluster = _Cluster(3, 4, leader=leader, refuses=True)
    racks = [cluster.create(name) for name in ("trainer-0", "trainer-0-1", "trainer-0-2")]
    cluster.delete("trainer-0-2")
    containers = [{"resources": {"requests": {_GPU: 8}}}]
    for name in cluster.free["r0"]:
        other = {"metadata": {"name": name, "namespace": "other"}, "spec": {"nodeName": name, "containers": containers}}
        cluster.inventory.put_pod(msgspec.convert(other, PodManifest))

    assert (racks[1:], cluster.create("trainer-0-2")) == (["r0"] * 2, "r0")


def test_a_replica_that_begins_anew() -> None:
    """Its leader is placed where there is room, not where the Pods were that are being deleted."""
    cluster = _Cluster(3, 4, leader=_GPUS)
    racks = [cluster.create(name) for name in ("trainer-0", "trainer-0-1", "trainer-0-2")]
    cluster.delete("trainer-0")
    for name in ("trainer-0-1", "trainer-0-2"):
        cluster.pods[name]["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
        cluster.ledger.put_pod(cluster.pods[name])
    cluster.inventory.remove_node(cluster.free["r0"].pop())

    assert (racks, cluster.create("trainer-0")) == (["r0"] * 3, "r1")
