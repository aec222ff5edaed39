"""The real processes against an API server: gangs that are placed, watches with their ages, workloads of new kinds."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs
from support.api.fakeapi import NAMESPACES, NODES, FakeApi, named
from support.api.podapi import PodApi
from support.gangs.world import World, required
from support.patience import until
from support.service.installation import kubeconfig
from support.service.processes import Service, replace
from support.service.reviews import body
from support.service.servers import default_rules

from policies.engine.facts import StaticFacts
from policies.kubernetes.release import NEWEST
from policies.topology.objects import KAI
from policies.topology.placement import TOPOLOGY
from webhook import serve
from webhook.cluster.api.client import connect
from webhook.cluster.api.errors import Clock
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.watches.cluster import Followed, ServedRelease
from webhook.configuration.settings import Settings
from webhook.http.decision import Served, ServingState
from webhook.metrics import Metrics

_LEASE = "cks-admission-placer"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/cks-admission/leases"


class Placer(Service):
    """One process of `cks-admission place`."""

    VERB, BEGUN = "place", "placing"


@pytest.fixture
async def api() -> AsyncIterator[PodApi]:
    """A cluster with two racks of two Nodes, and a gang of two Pods that wait."""
    world = World()
    world.now = time.time() - 10
    world.racks("f/1/1", "f/1/2", nodes=2)
    world.job("train", 2, required("rack"))
    async with PodApi() as running:
        running.put(NAMESPACES, named("team", {}))
        running.load(world)
        yield running


def sections(api: FakeApi, directory: Path, *, apart: bool = True) -> dict[str, Any]:
    """The configuration of a process. apart: whether the placer is one of its own."""
    file = directory / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig(api.url)), encoding="utf-8")
    return {
        "cluster": {"kubeconfig": str(file)},
        "policies": {"native": False, "configMaps": False},
        "place": {"apart": apart},
    }


async def test_a_process_of_its_own(api: PodApi, tmp_path: Path) -> None:
    """It takes its Lease, opens the gang's gates, shows what it knows, and gives the Lease up at its end."""
    async with Placer(tmp_path, **sections(api, tmp_path)) as placer:
        await until(lambda: api.events("Placed"))
        assert api.racks() == {"train-0": "1", "train-1": "1"}
        assert (api.get(LEASES, _LEASE) or {})["spec"]["holderIdentity"]
        ready = await placer.ask("/readyz")
        shown = (await placer.ask("/metrics")).body.decode().splitlines()
        placer.signal(signal.SIGTERM)
        assert await placer.ended() == 0

    assert ready.status == 200
    assert {
        'cks_admission_pods_opened_total{outcome="opened"} 2.0',
        'cks_admission_placer_objects{kind="node"} 4.0',
        "cks_admission_placer_leading 1.0",
    } <= {*shown}
    assert any(line.startswith('cks_admission_watch_age_seconds{resource="pods"}') for line in shown)
    assert (api.get(LEASES, _LEASE) or {})["spec"]["holderIdentity"] == ""


async def test_serve_places_where_nobody_else_does(api: PodApi, tmp_path: Path) -> None:
    """With place.apart false, as for development, the placer is inside."""
    async with Service(tmp_path, **sections(api, tmp_path, apart=False)):
        await until(lambda: api.events("Placed"))

    assert api.racks() == {"train-0": "1", "train-1": "1"}


async def test_serve_says_that_there_is_no_placer(api: PodApi, tmp_path: Path) -> None:
    """With place.apart true it opens nothing, follows no Pods, and notes in /readyz that gangs wait; it stays ready."""
    waits = "there is no Lease cks-admission/cks-admission-placer: gangs with a placement wait"
    async with Service(tmp_path, **sections(api, tmp_path)) as service:
        await service.event("serving")
        ready = await service.shows(waits, "/readyz")

    assert ready.status == 200
    assert (api.patches, api.lists("/api/v1/pods")) == ({}, [])


_AGE = re.compile(r'^cks_admission_watch_age_seconds\{resource="(.+)"\} (.+)$', re.MULTILINE)


async def test_the_process_shows_the_ages_of_its_watches(tmp_path: Path) -> None:
    """Each kind that is followed has its age among the metrics, and a service that hears its API server is ready."""
    async with FakeApi() as api:
        api.put(NAMESPACES, named("team", {}))
        api.put(NODES, named("n1", {}))
        async with Service(tmp_path, **sections(api, tmp_path)) as service:
            await service.port()
            measured = (await service.ask("/metrics")).text
            ready = await service.ask("/readyz")

    ages = {resource: float(age) for resource, age in _AGE.findall(measured)}
    assert ages.keys() == {"namespaces", "nodes"}
    assert all(0 <= age < 300 for age in ages.values())
    assert (ready.status, ready.text.partition("\n")[0]) == (200, "ok")
    beside = f'cks_admission_kubernetes_info{{proven="true",release="{NEWEST.name}",version="v{NEWEST.proven}"}} 1.0'
    assert beside in measured


async def test_a_replica_that_was_cut_off_is_not_ready(tmp_path: Path) -> None:
    """An hour without a word is a reason not to be ready, a note, a metric and a line of the log."""
    an_hour_ago = Clock(monotonic=lambda: time.monotonic() - 3600)
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig("http://127.0.0.1:1")), encoding="utf-8")
    api = await connect(str(file), in_cluster=False)
    followed = Followed(ClusterFacts(api, watch_nodes=True, clock=an_hour_ago), ServedRelease(api), None, None)
    state, measures = ServingState(Served(default_rules(), StaticFacts(date.min))), Metrics()
    others = {"placement": None, "replica": None, "webhooks": None}
    parts: Any = SimpleNamespace(cluster=followed, measures=measures, settings=Settings(), **others)
    with capture_logs() as logs:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(api.close)
            serve._watch_ages(stack, parts, state)
            await until(lambda: logs)
            unready, notes, measured = state.unready(), state.notes(), measures.expose().decode()

    heard = "watches: cut off: nothing was heard from the API server for 3600 s; facts about the cluster are that old"
    assert (unready, notes) == ([f"{heard}, longer than cluster.cutOffSeconds (1800)"], [heard])
    assert {resource for resource, age in _AGE.findall(measured) if float(age) >= 3600} == {"namespaces", "nodes"}
    assert [(entry["event"], entry["reasons"]) for entry in logs] == [
        ("watches are stale", [heard.removeprefix("watches: ")])
    ]


async def test_a_kind_of_workloads_that_is_added(tmp_path: Path) -> None:
    """Once the configuration knows a kind, whoever deletes a Topology is told of the objects of it that name that."""
    file, train = tmp_path / "cks.yaml", named("t", namespace="team")
    train["metadata"]["annotations"] = {TOPOLOGY: "racks"}
    topology = named("racks", spec={"levels": [{"nodeLabel": "example.org/rack"}]})
    deleted = {"apiVersion": f"{KAI}/v1alpha1", "kind": "Topology", **topology}
    resource = {"group": KAI, "version": "v1alpha1", "resource": "topologies"}
    kind = {"group": "example.org", "kind": "Train", "templates": ["spec.template"]}
    async with FakeApi() as api:
        api.put(NAMESPACES, named("team", {}))
        api.put(NODES, named("n1", {}))
        api.install(KAI, {"v1alpha1": {"topologies": "Topology"}}, namespaced=False)
        api.put(f"/apis/{KAI}/v1alpha1/topologies", topology)
        api.install("example.org", {"v1": {"trains": "Train"}})
        api.put("/apis/example.org/v1/trains", train)

        async def warnings() -> list[str]:
            answer = await service.answer(body(None, deleted, operation="DELETE", namespace="", resource=resource))
            return list(answer.get("warnings", ()))

        async with Service(tmp_path, **sections(api, tmp_path)) as service:
            found = [await warnings()]
            settings = yaml.safe_load(file.read_text(encoding="utf-8"))
            replace(file, yaml.safe_dump({**settings, "workloads": [kind]}))
            await service.event("configuration loaded")
            found.append(await warnings())

    warning = (
        'topology "racks" is named by Train team/t. Change or delete them first: Pods that wait would never be '
        "scheduled. Running ones go on. topology.deletion: deny refuses this."
    )
    assert found == [[], [warning]]
