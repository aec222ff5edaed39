"""Gangs are placed by a process of its own, or by serve."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.api.fakeapi import NAMESPACES, named
from support.api.podapi import PodApi
from support.gangs.world import World, required
from support.patience import until
from support.service.installation import kubeconfig
from support.service.processes import Service

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


def sections(api: PodApi, directory: Path, *, apart: bool) -> dict[str, Any]:
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
    async with Placer(tmp_path, **sections(api, tmp_path, apart=True)) as placer:
        await until(lambda: api.events("Placed"))
        assert api.racks() == {"train-0": "1", "train-1": "1"}
        assert (api.get(LEASES, _LEASE) or {})["spec"]["holderIdentity"]
        ready = await placer.ask("/readyz")
        shown = (await placer.ask("/metrics")).body.decode().splitlines()
        placer.signal(signal.SIGTERM)
        assert await placer.ended() == 0

    assert ready.status == 200
    assert 'cks_admission_pods_opened_total{outcome="opened"} 2.0' in shown
    assert 'cks_admission_placer_objects{kind="node"} 4.0' in shown
    assert "cks_admission_placer_leading 1.0" in shown
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
    async with Service(tmp_path, **sections(api, tmp_path, apart=True)) as service:
        await service.event("serving")
        ready = await service.shows(waits, "/readyz")

    assert ready.status == 200
    assert (api.patches, api.lists("/api/v1/pods")) == ({}, [])
