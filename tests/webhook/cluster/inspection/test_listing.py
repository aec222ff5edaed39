"""Lists that go on: after an expired token, and when the API server asks for time."""

from __future__ import annotations

import pytest
from support.api.fakeapi import FakeApi, named, status
from support.api.times import Times

from policies.engine.request import GroupVersionResource
from webhook.cluster.api.client import Connection
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.api.errors import ApiError
from webhook.cluster.inspection.auditing import Lister

_MAPS = ServedResource(GroupVersionResource("", "v1", "configmaps"), "ConfigMap", namespaced=True)
_PATH = "/api/v1/configmaps"
_NAMES = [f"m-{number}" for number in range(7)]


@pytest.fixture
def lister(api: Connection, server: FakeApi, times: Times) -> Lister:
    """Lists two objects at a time of the seven that there are, of which two are in a Namespace `a`."""
    for number, name in enumerate(_NAMES):
        server.put(_PATH, named(name, namespace="a" if number < 2 else "b"))
    return Lister(api, 10, times.clock, size=2)


async def _listed(lister: Lister) -> list[str]:
    return [obj["metadata"]["name"] async for obj in lister.objects(_MAPS)]


@pytest.mark.parametrize("more", ["4", ""], ids=["a new token", "no token"])
async def test_a_token_expires(lister: Lister, server: FakeApi, more: str) -> None:
    """A list whose token has expired goes on where the API server says, or begins again, and nothing comes twice."""
    gone = status(410, "the provided continue parameter is too old", metadata={"continue": more})
    server.fail(_PATH, 410, gone, query={"continue": "4"})

    assert await _listed(lister) == _NAMES


async def test_an_api_server_that_asks_for_time_gets_it(lister: Lister, server: FakeApi, times: Times) -> None:
    """After 429 the next request comes no sooner than Retry-After says, however often that happens."""
    server.fail(_PATH, 429, status(429, "too many"), times=20, headers={"Retry-After": "7"})

    assert await _listed(lister) == _NAMES
    assert len([pause for pause in times.pauses if pause >= 7]) >= 20


async def test_a_failure_is_tried_again_a_few_times(lister: Lister, server: FakeApi) -> None:
    """Seven failures in a row are waited out, the eighth is told."""
    server.fail(_PATH, 500, status(500, "etcd"), times=7)
    assert len(await _listed(lister)) == len(_NAMES)

    server.fail(_PATH, 500, status(500, "etcd"), times=8)
    with pytest.raises(ApiError, match="etcd"):
        await _listed(lister)


async def test_requests_keep_their_distance(lister: Lister, times: Times) -> None:
    """Between four pages of one list there are three pauses, each a tenth of a second longer by a clock that stands."""
    await _listed(lister)

    assert times.pauses == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.parametrize("metadata", [True, False])
async def test_objects_come_with_their_kind(lister: Lister, server: FakeApi, *, metadata: bool) -> None:
    """Each object has what the items of a list lack, on all pages; metadata may be all that is asked for."""
    objects = [one async for one in lister.objects(_MAPS, metadata=metadata)]

    assert [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in objects] == [
        ("v1", "ConfigMap", name) for name in _NAMES
    ]
    assert ("as=PartialObjectMetadataList" in server.seen[-1].headers["Accept"]) is metadata
