"""The Events on Pods that wait because mutation failed open."""

from __future__ import annotations

import json
from typing import Any

from support.api.fakeapi import FakeApi, status
from support.api.times import Times
from support.builders import FACTS, Json, pod
from support.service.servers import default_rules

from webhook.cluster.api.client import Connection
from webhook.cluster.replicas.looks import PATH, WaitingPods

_MESSAGE = (
    "It was admitted while cks-admission did not answer, without the toleration for CPU Nodes. "
    "Delete it, so that its controller creates it again, or create it again."
)
_EVENTS = "/api/v1/namespaces/team/events"
_UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def _waiting(name: str, **spec: Any) -> Json:
    waiting = pod(metadata={"name": name, "namespace": "team", "uid": f"uid-{name}"}, **spec)
    return {**waiting, "status": {"phase": "Pending", "conditions": [_UNSCHEDULABLE]}}


def _pods(api: Connection, times: Times, *, leading: bool = True) -> WaitingPods:
    return WaitingPods(api, lambda: (default_rules(), FACTS), lambda: leading, times.clock)


def _told(server: FakeApi) -> list[tuple[str, Json]]:
    """The path and the object of each Event that was sent."""
    return [(seen.path, json.loads(seen.body)) for seen in server.seen if seen.method == "POST"]


async def test_a_pod_that_waits_is_told_once(server: FakeApi, api: Connection, times: Times) -> None:
    """Its Event says what it lacks and what to do; Pods that lack nothing have none, and a second look adds none."""
    server.put(PATH, _waiting("one"))
    server.put(PATH, _waiting("fine", tolerations=[{"operator": "Exists"}]))
    pods = _pods(api, times)

    await pods.look()
    await pods.look()

    ((path, event),) = _told(server)
    assert path == _EVENTS
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "team",
        "name": "one",
        "uid": "uid-one",
    }
    assert (event["type"], event["reason"], event["message"]) == (
        "Warning",
        "AdmittedUnchanged",
        _MESSAGE,
    )
    assert server.lists(PATH)[0] == {
        "fieldSelector": "spec.nodeName=,status.phase=Pending",
        "resourceVersion": "0",
        "limit": "500",
    }


async def test_an_event_that_is_there(server: FakeApi, api: Connection, times: Times) -> None:
    """Whoever leads next names the Event alike, so that the API server keeps one, and goes on with the other Pods."""
    server.put(PATH, _waiting("one"))
    server.put(PATH, _waiting("two"))
    server.fail(_EVENTS, 409, status(409, "it exists"))

    await _pods(api, times).look()
    before = _told(server)
    await _pods(api, times).look()

    assert [event["metadata"]["name"] for _, event in _told(server)] == [
        event["metadata"]["name"] for _, event in before
    ] * 2


async def test_many_pods(server: FakeApi, api: Connection, times: Times) -> None:
    """One look creates so many Events at most, and the next one goes on."""
    for number in range(60):
        server.put(PATH, _waiting(f"pod-{number}"))
    pods = _pods(api, times)

    numbers = []
    for _ in range(3):
        await pods.look()
        numbers.append(len(_told(server)))

    assert numbers == [50, 60, 60]
