"""The inventory of a small API server's cluster."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.api.fakeapi import FakeApi, Json, named, status
from support.api.times import Times
from support.patience import until
from support.rackgangs import RACK, gang, job, question, rack

from policies.engine.facts import StaticFacts
from policies.objects.workload import BUILT_IN, table
from policies.topology.affinity import RECORD
from policies.topology.choice.choice import ChoiceKey
from policies.topology.gang.demand import Cluster
from policies.topology.gang.ledger import Ledger
from webhook.cluster.api.client import Connection
from webhook.cluster.inventory.composition import chooser
from webhook.cluster.inventory.inventory import ClusterInventory
from webhook.metrics import Metrics

NODES, PODS, JOBS = "/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs"
STALE = 300.0
FORBIDDEN = 'pods is forbidden: User "me" cannot list resource "pods"'


def node(name: str, in_rack: str, gpus: int = 8) -> Json:
    """A Node that is ready."""
    allocatable = {"cpu": "8", "pods": "110", "nvidia.com/gpu": str(gpus)}
    labels = {RACK.keys[0]: in_rack}
    return named(name, labels, status={"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]})


def pod(name: str, on: str, gpus: int = 1, **metadata: Json) -> Json:
    """A Pod, bound if `on` is a Node."""
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    made = named(name, namespace="team", spec={"nodeName": on, "containers": containers}, status={"phase": "Running"})
    made["metadata"].update(metadata)
    return made


def placed_job(name: str, times: Times, value: str, path: str = "spec.template") -> Json:
    """A Job of 8 Pods whose Pods are promised room in a rack, each for a GPU."""
    key = RACK.keys[0]
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    record = {path: {"required": [{"to": [term]}], "domain": [{"tier": 0, "keys": [key], "values": [value]}]}}
    containers = pod("", "")["spec"]["containers"]
    made = named(name, namespace="team")
    made["metadata"] |= {
        "annotations": {RECORD: json.dumps(record)},
        "creationTimestamp": times.date.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    template = {"spec": {"affinity": affinity, "containers": containers}}
    made["spec"] = {"parallelism": 8, "completions": 8, "template": template}
    return made


@pytest.fixture
def measures() -> Metrics:
    """Those of a process."""
    return Metrics()


@pytest.fixture
def inventory(api: Connection, times: Times, measures: Metrics) -> ClusterInventory:
    """That of the small API server's cluster, which serves Jobs; whoever pauses waits until he is woken."""
    times.patience = 0
    workloads = table(BUILT_IN)
    ledger = Ledger(workloads, Cluster(StaticFacts(times.date.date())))
    kinds = [("batch", "Job"), ("jobset.x-k8s.io", "JobSet")]
    made = ClusterInventory(api, ledger, kinds, STALE, chooser(), measures.placing, times.clock)
    measures.placing.inventory = made
    return made


@asynccontextmanager
async def followed(inventory: ClusterInventory) -> AsyncIterator[None]:
    """Follow during the block."""
    await inventory.start()
    try:
        yield
    finally:
        await inventory.stop()


async def synced(inventory: ClusterInventory) -> None:
    """Wait until a domain can be chosen."""
    await until(lambda: not inventory.problems())


def chosen(inventory: ClusterInventory, key: ChoiceKey | None = None) -> tuple[str, Any]:
    """The outcome for a gang of 8 Pods, and its rack or the reason for none."""
    (choice,) = inventory.answer(key or question(dry_run=True))
    return choice.outcome, choice.required or choice.reason


@pytest.fixture
def cluster(server: FakeApi) -> FakeApi:
    """Two racks of 8 GPUs, of which the first has one that is taken."""
    server.install("batch", {"v1": {"jobs": "Job"}})
    server.put(NODES, node("a", "r1"))
    server.put(NODES, node("b", "r2"))
    server.put(PODS, pod("busy", "a"))
    return server


async def test_a_domain_is_chosen(cluster: FakeApi, inventory: ClusterInventory) -> None:
    """Room is what Nodes have without what Pods on them take, as it is at the moment."""
    async with followed(inventory):
        await synced(inventory)
        before = chosen(inventory)
        cluster.put(PODS, pod("late", "b"))
        cluster.delete(PODS, "busy", "team")
        await until(lambda: chosen(inventory) != before)

        assert (before, chosen(inventory)) == (("fits", rack("r2")), ("fits", rack("r1")))


async def test_only_pods_that_may_take_room_are_followed(cluster: FakeApi, inventory: ClusterInventory) -> None:
    """The API server leaves out the Pods that have failed, and sends the others in pages."""
    async with followed(inventory):
        await synced(inventory)

    query = {"fieldSelector": "status.phase!=Failed"}
    assert cluster.lists(PODS) == [{**query, "limit": "100"}]
    assert cluster.watches(PODS)[0].items() >= query.items()


async def test_what_is_on_record_is_promised(
    cluster: FakeApi, inventory: ClusterInventory, times: Times, measures: Metrics
) -> None:
    """The room for a workload's Pods is kept for them from the answer on, until they are bound, and then taken."""
    async with followed(inventory):
        await synced(inventory)
        first = chosen(inventory, question())
        second = chosen(inventory, question(gang(job("next")), dry_run=True))[0]
        cluster.put(JOBS, placed_job("train", times, "r2"))
        await until(lambda: not len(inventory._keeper.answers))
        third = chosen(inventory, question(gang(job("next")), dry_run=True))[0]
        shown = [line for line in measures.expose().decode().splitlines() if "inventory_objects{" in line]
        cluster.delete(JOBS, "train", "team")
        await until(lambda: chosen(inventory)[0] == "fits")

    assert (first, second, third) == (("fits", rack("r2")), "full", "full")
    assert shown == [
        'cks_admission_inventory_objects{kind="node"} 2.0',
        'cks_admission_inventory_objects{kind="pod"} 1.0',
        'cks_admission_inventory_objects{kind="promise"} 1.0',
    ]


async def test_nothing_is_chosen_before_the_first_lists(cluster: FakeApi, inventory: ClusterInventory) -> None:
    """Without Pods the room is not known: the answer is unknown at once, and says what is missing."""
    cluster.slow.add(PODS)
    async with followed(inventory):
        await cluster.watched(NODES)

        assert chosen(inventory) == ("unknown", "pods: first list not done: waiting for the API server")
        assert inventory.problems() == ["no domain is chosen: pods: first list not done: waiting for the API server"]
    cluster.slow.clear()


async def test_a_right_that_is_missing(cluster: FakeApi, inventory: ClusterInventory) -> None:
    """Without the right to list Pods no domain is chosen, and the remedy is named."""
    cluster.fail(PODS, 403, status(403, FORBIDDEN), times=99)
    async with followed(inventory):
        await until(lambda: "forbidden" in "".join(inventory.problems()))
        outcome, reason = chosen(inventory)

    assert outcome == "unknown"
    assert FORBIDDEN in reason
    assert reason.endswith("; a ClusterRole must allow the service's account to list and watch pods")


async def test_workloads_without_a_right_are_named(cluster: FakeApi, inventory: ClusterInventory) -> None:
    """A kind that may not be listed is a problem that is named, and domains are chosen all the same."""
    cluster.fail(JOBS, 403, status(403, "jobs is forbidden"), times=99)
    async with followed(inventory):
        await until(lambda: "forbidden" in "".join(inventory.problems()))
        await until(lambda: chosen(inventory)[0] == "fits")
        (problem,) = inventory.problems()

    assert problem.startswith("jobs.batch: the API server refused ")
    assert problem.endswith("; a ClusterRole must allow the service's account to list and watch jobs.batch")


async def test_what_is_too_old_is_not_used(
    cluster: FakeApi, inventory: ClusterInventory, times: Times, measures: Metrics
) -> None:
    """If nothing proves that Pods are up to date, no domain is chosen after some minutes, until something does."""
    async with followed(inventory):
        await synced(inventory)
        await cluster.watched(NODES)
        await cluster.watched(PODS)
        times.pass_by(STALE - 1)
        before = chosen(inventory)[0]
        times.pass_by(1)
        cluster.put(NODES, node("c", "r3", gpus=1))
        await until(lambda: inventory.sizes()["node"] == 3)
        after = chosen(inventory)
        age = next(line for line in measures.expose().decode().splitlines() if "inventory_age_seconds 3" in line)
        cluster.put(PODS, pod("sign", "c"))
        await until(lambda: inventory.age() == 0)

        assert (before, chosen(inventory)[0]) == ("fits", "fits")
        assert after == (
            "unknown",
            "pods: not known to be up to date for 300 s, longer than topology.staleSeconds: its watch is silent",
        )
        assert age == "cks_admission_inventory_age_seconds 300.0"


async def test_kinds_come_and_go(cluster: FakeApi, inventory: ClusterInventory, times: Times) -> None:
    """A kind that is installed later is followed then; what it promised is over when it is gone."""
    jobsets = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
    async with followed(inventory):
        await synced(inventory)
        cluster.install("jobset.x-k8s.io", {"v1alpha2": {"jobsets": "JobSet"}})
        await awake(times, lambda: cluster.watches(jobsets))
        made = placed_job("wide", times, "r2", "spec.replicatedJobs[0].template.spec.template")
        made["spec"] = {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": made["spec"]}}]}
        cluster.put(jobsets, made)
        await until(lambda: inventory.sizes()["promise"] == 1)
        promised = chosen(inventory)[0]
        cluster.uninstall("jobset.x-k8s.io")
        await awake(times, lambda: inventory.sizes()["promise"] == 0 and not inventory.problems())

        assert (promised, chosen(inventory)[0]) == ("full", "fits")


async def awake(times: Times, condition: Any) -> None:
    """Wake whoever pauses until a condition is true."""

    def tried() -> Any:
        times.wake()
        return condition()

    await until(tried)
