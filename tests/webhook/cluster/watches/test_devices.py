from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.api.fakeapi import RESOURCE_GROUP, FakeApi, Json, named
from support.api.times import Times
from support.patience import until

from webhook.cluster.api.client import Connection
from webhook.cluster.watches.optional import Devices


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


def serve(server: FakeApi, version: str, *, requests: list[Json]) -> None:
    """Let a version be served, with a claim, a template and a class."""
    server.install_devices(version)
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
