from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.api.fakeapi import RESOURCE_GROUP, FakeApi, Json, named, status
from support.api.times import Times
from support.patience import until

from webhook.cluster.api.client import Connection
from webhook.cluster.watches.optional import Devices

KINDS = ("resourceclaims", "resourceclaimtemplates", "deviceclasses")


@pytest.fixture
def devices(api: Connection, times: Times) -> Devices:
    """Devices of the small API server."""
    return Devices(api, times.clock)


@asynccontextmanager
async def running(devices: Devices) -> AsyncIterator[None]:
    """Follow during the block; at its end, be cancelled."""
    task = asyncio.create_task(devices.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


def group(*versions: str) -> Json:
    """An APIGroup; the first version is preferred."""
    return {
        "versions": [{"groupVersion": f"resource.k8s.io/{version}", "version": version} for version in versions],
        "preferredVersion": {"groupVersion": f"resource.k8s.io/{versions[0]}", "version": versions[0]},
    }


def serve(server: FakeApi, version: str, *, requests: list[Json]) -> None:
    """Let a version be served, with a claim, a template and a class."""
    server.groups[RESOURCE_GROUP] = group(version)
    spec = {"devices": {"requests": requests}}
    base = f"{RESOURCE_GROUP}/{version}"
    server.put(f"{base}/resourceclaims", named("claim", namespace="team", spec=spec))
    server.put(f"{base}/resourceclaimtemplates", named("template", namespace="team", spec={"spec": spec}))
    server.put(f"{base}/deviceclasses", named("gpu", spec={"extendedResourceName": "example.com/gpu"}))
    server.put(f"{base}/deviceclasses", named("nic", spec={}))


@pytest.mark.parametrize(
    ("version", "requests", "classes"),
    [
        pytest.param("v1", [{"name": "a", "exactly": {"deviceClassName": "gpu"}}], {"gpu"}, id="v1, exactly"),
        pytest.param(
            "v1beta2",
            [{"name": "a", "firstAvailable": [{"deviceClassName": "gpu"}, {"deviceClassName": "mig"}]}],
            {"gpu", "mig"},
            id="v1beta2, firstAvailable",
        ),
        pytest.param(
            "v1beta1",
            [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "nic"}],
            {"gpu", "nic"},
            id="v1beta1, in the request itself",
        ),
    ],
)
async def test_follows_each_version(
    server: FakeApi, devices: Devices, version: str, requests: list[Json], classes: set[str]
) -> None:
    """Claims, templates and classes are known in the shape of each version."""
    serve(server, version, requests=requests)

    async with running(devices):
        await until(lambda: not devices.unsynced())

        assert devices.claims.by_key == {("team", "claim"): classes}
        assert devices.templates.by_key == {("team", "template"): classes}
        assert devices.extended.by_key == {"gpu": "example.com/gpu"}


async def test_follows_changes(server: FakeApi, devices: Devices) -> None:
    """A claim that is made later is known, and one that is deleted is not."""
    serve(server, "v1", requests=[{"exactly": {"deviceClassName": "gpu"}}])
    path = f"{RESOURCE_GROUP}/v1/resourceclaims"
    spec = {"devices": {"requests": [{"exactly": {"deviceClassName": "mig"}}]}}

    async with running(devices):
        await server.watched(path)
        server.put(path, named("later", namespace="team", spec=spec))
        server.delete(path, "claim", "team")
        await until(lambda: devices.claims.by_key == {("team", "later"): {"mig"}})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no devices"),
        pytest.param({"devices": None}, id="devices are null"),
        pytest.param({"devices": {"requests": None}}, id="requests are null"),
        pytest.param({"devices": {"requests": [{"exactly": None, "firstAvailable": None}]}}, id="an empty request"),
        pytest.param({"devices": {"requests": [{"exactly": {"deviceClassName": ""}}]}}, id="an empty name"),
    ],
)
async def test_claims_for_nothing(server: FakeApi, devices: Devices, spec: Json) -> None:
    """A claim that asks for no device class is not kept."""
    serve(server, "v1", requests=[])
    server.put(f"{RESOURCE_GROUP}/v1/resourceclaims", named("claim", namespace="team", spec=spec))

    async with running(devices):
        await until(lambda: not devices.unsynced())

        assert devices.claims.by_key == {}


@pytest.mark.parametrize(
    ("served", "chosen"),
    [
        pytest.param(("v1", "v1beta1"), "v1", id="the preferred one"),
        pytest.param(("v1beta1", "v1"), "v1beta1", id="the preferred one, though there is a newer one"),
        pytest.param(("v1alpha3", "v1beta1", "v1beta2"), "v1beta2", id="the newest of those that are known"),
    ],
)
async def test_chooses_a_version(server: FakeApi, devices: Devices, served: tuple[str, ...], chosen: str) -> None:
    """Of the versions that are served, the preferred one is taken if its shape is known, else the newest such one."""
    serve(server, chosen, requests=[])
    server.groups[RESOURCE_GROUP] = group(*served)

    async with running(devices):
        await until(lambda: not devices.unsynced())

    assert {seen.path for seen in server.seen} == {
        RESOURCE_GROUP,
        *(f"{RESOURCE_GROUP}/{chosen}/{kind}" for kind in KINDS),
    }


@pytest.mark.parametrize("served", [None, ("v1alpha3",)], ids=["no group", "only an old version"])
async def test_absent(server: FakeApi, devices: Devices, times: Times, served: tuple[str, ...] | None) -> None:
    """A cluster without device claims is no reason to wait and no problem; it is asked again ten minutes later."""
    if served:
        server.groups[RESOURCE_GROUP] = group(*served)

    async with running(devices):
        await until(lambda: times.pauses)

        assert (devices.unsynced(), devices.problems(), times.pauses) == ([], [], [600.0])
        assert {seen.path for seen in server.seen} == {RESOURCE_GROUP}


async def test_an_upgrade_is_noticed(server: FakeApi, devices: Devices, times: Times) -> None:
    """When the cluster begins to serve claims, changes their version, or stops to, that is followed."""
    async with running(devices):
        await until(lambda: times.pauses)

        serve(server, "v1beta1", requests=[{"deviceClassName": "gpu"}])
        times.wake()
        await until(lambda: devices.claims.by_key == {("team", "claim"): {"gpu"}})

        serve(server, "v1", requests=[{"exactly": {"deviceClassName": "mig"}}])
        await until(lambda: len(times.pauses) == 2)
        times.wake()
        await until(lambda: devices.claims.by_key == {("team", "claim"): {"mig"}})
        assert devices.unsynced() == []
        assert sorted(task.get_name() for task in asyncio.all_tasks() if task.get_name() in KINDS) == sorted(KINDS)

        del server.groups[RESOURCE_GROUP]
        await until(lambda: len(times.pauses) == 3)
        times.wake()
        await until(lambda: not devices.claims.by_key)
        assert (devices.templates.by_key, devices.extended.by_key, devices.unsynced()) == ({}, {}, [])


@pytest.mark.parametrize("body", [status(503, "not now"), "<html>"], ids=["a Status", "HTML"])
async def test_discovery_fails(server: FakeApi, devices: Devices, times: Times, body: Any) -> None:
    """Until it is known whether there are claims, readiness has a reason; it is asked again."""
    serve(server, "v1", requests=[])
    server.fail(RESOURCE_GROUP, 503 if isinstance(body, dict) else 200, body)
    times.patience = 0

    async with running(devices):
        await until(devices.problems)
        (reason,) = devices.unsynced()
        assert reason.startswith("resource.k8s.io: not known yet whether it is served: ")
        assert devices.problems() == [reason.replace("not known yet whether it is served: ", "")]

        times.wake()
        await until(lambda: not devices.unsynced())
        assert devices.problems() == []


async def test_a_resource_fails(server: FakeApi, devices: Devices, times: Times) -> None:
    """A kind that may not be listed is a reason and a problem of its own."""
    serve(server, "v1", requests=[])
    server.fail(f"{RESOURCE_GROUP}/v1/deviceclasses", 403, status(403, "you may not"))
    times.patience = 0

    async with running(devices):
        await until(devices.problems)
        words = f"the API server refused GET {RESOURCE_GROUP}/v1/deviceclasses at {server.url} (403: you may not)"
        await until(lambda: len(devices.unsynced()) == 1)

        assert devices.unsynced() == [f"deviceclasses: first list not done: {words}"]
        assert devices.problems() == [f"deviceclasses: {words}"]
