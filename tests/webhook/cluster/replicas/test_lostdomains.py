"""The Events on gangs that wait for a domain whose Nodes cannot hold them any more."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from structlog.testing import capture_logs
from support.api.fakeapi import FakeApi
from support.api.times import Times
from support.builders import FACTS, Json
from support.ledgers import job, leader, placed, pod, workload
from support.patience import until
from webhook.cluster.inspection.lostdomains import PODS
from webhook.cluster.replicas.lostdomains import LostDomains

from webhook.cluster.api.client import Connection
from webhook.configuration.settings import Settings
from webhook.metrics import Metrics

_NODES = "/api/v1/nodes"
_JOBS = "/apis/batch/v1/jobs"
_EVENTS = "/api/v1/namespaces/ns/events"
_AGAIN = "To have another domain chosen, delete the Job and create it again."
_GONE = "Its Pods must run in rack=12, which has no Nodes any more."


def _settings() -> Settings:
    return Settings.model_validate({"cluster": {"inCluster": True}})


class _Look:
    """The look with its surroundings."""

    def __init__(self, api: Connection, times: Times) -> None:
        self.measures = Metrics().placing
        self.leading = True
        self.domains = LostDomains(api, _settings, lambda: FACTS, self._leads, self.measures, times.clock)

    def _leads(self) -> bool:
        return self.leading

    def count(self) -> float:
        """The metric."""
        return next(iter(self.measures.lost.collect())).samples[0].value


def _install(server: FakeApi) -> None:
    """Serve workloads, and one Node in another rack."""
    _node(server, "other", "13")
    server.install("batch", {"v1": {"jobs": "Job"}})
    server.install("apps", {"v1": {"deployments": "Deployment"}})


def _waits(server: FakeApi, name: str, owner: str = "batch/v1/Job/a", **metadata: Any) -> None:
    """Put a Pod of a workload that has no Node, in its domain."""
    template, _ = placed("spec.template")
    own = pod(name, owner, node="", metadata={"uid": f"uid-{name}", **metadata}, spec=template["spec"])
    server.put(PODS, {**own, "status": {"phase": "Pending"}})


def _put(server: FakeApi, path: str, obj: Json) -> None:
    obj["metadata"]["uid"] = f"uid-{obj['metadata']['name']}"
    server.put(path, obj)


def _node(server: FakeApi, name: str, rack: str = "12", **spec: Any) -> None:
    room = {"cpu": "8", "memory": "64Gi", "pods": "10", "nvidia.com/gpu": "8"}
    server.put(
        _NODES, {"metadata": {"name": name, "labels": {"rack": rack}}, "spec": spec, "status": {"allocatable": room}}
    )


def _told(server: FakeApi) -> list[tuple[str, str, str]]:
    """The object, the reason and the message of each Event that was sent."""
    events = [json.loads(seen.body) for seen in server.seen if (seen.method, seen.path) == ("POST", _EVENTS)]
    return [
        (f"{event['involvedObject']['kind']} {event['involvedObject']['name']}", event["reason"], event["message"])
        for event in events
    ]


async def test_a_gang_without_its_domain_is_told_once(server: FakeApi, api: Connection, times: Times) -> None:
    """Its Event, the metric and the log say it; a gang whose domain only is full is left alone."""
    _install(server)
    _put(server, _JOBS, job("a", pods=2))
    _put(server, _JOBS, job("small", pods=1))
    _waits(server, "a-0")
    _waits(server, "small-0", "batch/v1/Job/small")
    _node(server, "well")
    _node(server, "ill", unschedulable=True)
    look = _Look(api, times)

    with capture_logs() as logs:
        await look.domains.look()
        await look.domains.look()

    sentence = (
        "Its Pods must run in rack=12, which has 2 Nodes (1 cordoned): "
        "no room for 1 of its 2 Pods, even if nothing else ran there."
    )
    assert _told(server) == [("Job a", "DomainLost", f"{sentence} {_AGAIN}")]
    assert look.count() == 1
    assert [(line["event"], line["gangs"]) for line in logs] == [
        ("domains cannot hold their gangs", [f"Job ns/a: {sentence}"])
    ]


async def test_events_come_again_after_an_hour(server: FakeApi, api: Connection, times: Times) -> None:
    """Kubernetes forgets Events, so that a domain that is still lost is told again."""
    _install(server)
    _put(server, _JOBS, job("a"))
    _waits(server, "a-0")
    look = _Look(api, times)

    await look.domains.look()
    times.pass_by(3600)
    await look.domains.look()

    assert _told(server) == [("Job a", "DomainLost", f"{_GONE} {_AGAIN}")] * 2


async def test_placements_of_the_users_own(server: FakeApi, api: Connection, times: Times) -> None:
    """A gang that waits where its owner put it has no record, and no Nodes are read for it."""
    _install(server)
    own = job("a")
    del own["metadata"]["annotations"]
    _put(server, _JOBS, own)
    _waits(server, "a-0")

    await _Look(api, times).domains.look()

    assert (_told(server), server.lists(_NODES)) == ([], [])


async def test_nobody_waits(server: FakeApi, api: Connection, times: Times) -> None:
    """While no Pod waits for certain Nodes, neither workloads nor Nodes are read."""
    _install(server)
    server.put(PODS, {**pod("free", node=""), "status": {"phase": "Pending"}})
    look = _Look(api, times)

    await look.domains.look()

    assert {seen.path for seen in server.seen} == {PODS}


async def test_a_workload_that_may_be_placed_again(server: FakeApi, api: Connection, times: Times) -> None:
    """Where node affinity may change, the remedy is the annotation and not another object."""
    _install(server)
    template, annotations = placed("spec.template")
    _put(
        server,
        "/apis/apps/v1/deployments",
        workload("apps/v1/Deployment", "web", {"replicas": 2, "template": template}, annotations),
    )
    _waits(server, "web-x-0", "apps/v1/ReplicaSet/web-x", labels={"pod-template-hash": "x"})

    await _Look(api, times).domains.look()

    remedy = "To have another domain chosen, set its annotation cks-admission.dev/repin to a new value."
    assert _told(server) == [("Deployment web", "DomainLost", f"{_GONE} {remedy}")]


async def test_the_record_of_what_a_workload_works_for(server: FakeApi, api: Connection, times: Times) -> None:
    """A RayCluster has a copy of the record of its RayJob, which says nothing of its own templates."""
    _install(server)
    server.install("ray.io", {"v1": {"rayclusters": "RayCluster", "rayjobs": "RayJob"}})
    group = {"groupName": "g", "replicas": 3}
    template, annotations = placed("spec.rayClusterSpec.workerGroupSpecs[0].template")
    spec = {"workerGroupSpecs": [{**group, "template": template}]}
    above = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "r", "controller": True}
    made = workload("ray.io/v1/RayCluster", "r-x", spec, annotations, metadata={"ownerReferences": [above]})
    _put(server, "/apis/ray.io/v1/rayclusters", made)
    _put(
        server,
        "/apis/ray.io/v1/rayjobs",
        workload("ray.io/v1/RayJob", "r", {"rayClusterSpec": spec}, annotations),
    )
    labels = {"ray.io/cluster": "r-x", "ray.io/group": "g"}
    _waits(server, "r-x-0", "ray.io/v1/RayCluster/r-x", labels=labels)

    await _Look(api, times).domains.look()

    remedy = "To have another domain chosen, delete the RayJob and create it again."
    assert _told(server) == [("RayJob r", "DomainLost", f"{_GONE} {remedy}")]


async def test_the_leader_of_a_replica(server: FakeApi, api: Connection, times: Times) -> None:
    """A replica's domain is on record with its leader Pod, so that the Event is there."""
    _install(server)
    made = leader(0)
    made["metadata"]["uid"] = "uid-l-0"
    server.put(PODS, {**made, "status": {"phase": "Pending"}})

    await _Look(api, times).domains.look()

    remedy = "To have another domain chosen, delete the leader Pod of its replica."
    assert _told(server) == [("Pod l-0", "DomainLost", f"{_GONE} {remedy}")]


async def test_who_stops_leading_counts_nothing(server: FakeApi, api: Connection, times: Times) -> None:
    """The metric is that of the process that leads; where no domains are chosen nobody looks."""
    _install(server)
    _put(server, _JOBS, job("a"))
    _waits(server, "a-0")
    look = _Look(api, times)
    times.patience = 1
    task = asyncio.create_task(look.domains.run())
    await until(lambda: look.count() == 1 and times.patience < 0)

    look.leading = False
    times.patience = 1
    times.wake()
    await until(lambda: look.count() == 0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
