from __future__ import annotations

import asyncio

import pytest
from support.api.fakeapi import RESOURCE_GROUP, FakeApi, Json, named
from support.api.times import Times
from support.patience import until

from webhook.cluster.api.client import Connection
from webhook.cluster.watches.optional import Devices
from webhook.cluster.watches.reflector import cancelled

NOTHING: list[Json] = [
    {},
    {"devices": None},
    {"devices": {"requests": None}},
    {"devices": {"requests": [{"exactly": None, "firstAvailable": None}]}},
    {"devices": {"requests": [{"exactly": {"deviceClassName": ""}}]}},
]


@pytest.mark.parametrize(
    ("version", "requests", "classes"),
    [
        ("v1", [{"name": "a", "exactly": {"deviceClassName": "gpu"}}], {"gpu"}),
        (
            "v1beta2",
            [{"name": "a", "firstAvailable": [{"deviceClassName": "gpu"}, {"deviceClassName": "mig"}]}],
            {"gpu", "mig"},
        ),
        ("v1beta1", [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "nic"}], {"gpu", "nic"}),
    ],
)
async def test_follows_each_version(
    server: FakeApi, api: Connection, times: Times, version: str, requests: list[Json], classes: set[str]
) -> None:
    """Claims, templates and classes are known in the shape of each version; not a claim that asks for no class."""
    server.install_devices(version)
    spec = {"devices": {"requests": requests}}
    base = f"{RESOURCE_GROUP}/{version}"
    server.put(f"{base}/resourceclaims", named("claim", namespace="team", spec=spec))
    server.put(f"{base}/resourceclaimtemplates", named("template", namespace="team", spec={"spec": spec}))
    server.put(f"{base}/deviceclasses", named("gpu", spec={"extendedResourceName": "example.com/gpu"}))
    server.put(f"{base}/deviceclasses", named("nic", spec={}))
    for number, nothing in enumerate(NOTHING):
        server.put(f"{base}/resourceclaims", named(f"claim-{number}", namespace="team", spec=nothing))
    devices = Devices(api, times.clock)
    task = asyncio.create_task(devices.run())
    await until(lambda: not devices.unsynced())
    await cancelled([task])

    assert devices.claims.by_key == {("team", "claim"): classes}
    assert devices.templates.by_key == {("team", "template"): classes}
    assert devices.extended.by_key == {"gpu": "example.com/gpu"}
