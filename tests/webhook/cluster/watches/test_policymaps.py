"""ConfigMaps with policies: what is known of them, and what they are told."""

from __future__ import annotations

import json
from typing import Any

from support.api.fakeapi import Failure, FakeApi, status
from support.api.times import Times

from policies.kubernetes.release import NEWEST
from webhook.cluster.api.client import Connection
from webhook.cluster.watches.policies import REFUSED, PolicyMaps
from webhook.sources import policyset
from webhook.sources.policyset import ConfigMaps

MAPS = "/api/v1/namespaces/cks/configmaps"
EVENTS = "/api/v1/namespaces/cks/events"


def _config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "data": data}


async def _followed(api: Connection, times: Times) -> PolicyMaps:
    maps = PolicyMaps(api, "cks", times.clock)
    await maps.start()
    await maps.changed.wait()
    return maps


def _told(server: FakeApi) -> list[tuple[str, Any]]:
    """The writes: path, and the annotation or the Event's type and message."""
    bodies = [(seen.path, json.loads(seen.body)) for seen in server.seen if seen.method != "GET"]
    return [
        (path, (body["type"], body["message"]) if path == EVENTS else body["metadata"]["annotations"][REFUSED])
        for path, body in bodies
    ]


async def test_keys_are_files(server: FakeApi, api: Connection, times: Times) -> None:
    """Each ConfigMap is a source of its own with a version of its data; one without a file says what it lacks."""
    server.put(MAPS, _config_map("empty", notes="x"))
    server.put(MAPS, _config_map("good", **{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n"}))
    maps = await _followed(api, times)

    found = await policyset.read(await ConfigMaps(maps).units(NEWEST), NEWEST)
    await maps.stop()

    assert {name: (len(content.parts), content.problem) for name, content in found.items()} == {
        "ConfigMap cks/empty": (0, "ConfigMap empty: no key of its data ends in .yaml, .yml, .json"),
        "ConfigMap cks/good": (1, ""),
    }


async def test_what_could_not_be_told_is_told_later(server: FakeApi, api: Connection, times: Times) -> None:
    """A refusal that the API server did not take is told again; the next one that looks finds it told."""
    server.put(MAPS, _config_map("team", **{"a.yaml": "{}"}))
    maps = await _followed(api, times)
    server.failures.append(Failure(f"{MAPS}/team", 503, status(503, "busy"), 1))

    await maps.report("team", "a.yaml:1:1: wrong")
    await maps.report("team", "a.yaml:1:1: wrong")
    await maps.report("gone", "a.yaml:1:1: wrong")
    await maps.stop()

    refused = "a.yaml:1:1: wrong"
    assert _told(server) == [(f"{MAPS}/team", refused)] * 2 + [(EVENTS, ("Warning", refused))]


async def test_a_warning_about_a_file(server: FakeApi, api: Connection, times: Times) -> None:
    """The ConfigMap with a policy's file gets an Event, one in an hour by its name; other files get none."""
    server.put(MAPS, _config_map("good", **{"a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n"}))
    maps = await _followed(api, times)
    for seconds in (0, 1, 3600):
        times.pass_by(seconds)
        for file in ("good/a.yaml", "good/b.yaml", "policies/a.yaml"):
            await maps.warn(file, "PolicySlow", "Policy x is slow.")
    await maps.stop()

    events = [json.loads(seen.body) for seen in server.seen if seen.method == "POST"]
    assert {(event["reason"], event["type"], event["message"]) for event in events} == {
        ("PolicySlow", "Warning", "Policy x is slow.")
    }
    assert [event["involvedObject"]["name"] for event in events] == ["good"] * 3
    assert len({event["metadata"]["name"] for event in events}) == 2
