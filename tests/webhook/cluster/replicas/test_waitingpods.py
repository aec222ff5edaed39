"""The Events on Pods that wait because mutation failed open."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.api.fakeapi import FakeApi
from support.api.times import Times
from support.builders import FACTS, Json, pod
from support.service.servers import default_rules, leader

from policies.engine.ruleset import RuleSet
from webhook.cluster.api.client import Connection
from webhook.cluster.replicas.checks import PATH, WaitingPods, lacked

_MESSAGE = (
    "It was admitted while cks-admission did not answer, without the toleration for CPU Nodes. "
    "Delete it, so that its controller creates it again, or create it again."
)
_UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


async def test_a_pod_that_waits_is_told_once(server: FakeApi, api: Connection, times: Times) -> None:
    """Its Event says what it lacks and what to do; Pods that lack nothing have none, and a second look adds none."""
    for name, spec in (("one", {}), ("fine", {"tolerations": [{"operator": "Exists"}]})):
        server.put(PATH, _pod(metadata={"name": name, "namespace": "team", "uid": f"uid-{name}"}, **spec))
    pods = WaitingPods(leader(api, clock=times.clock))

    await pods.look()
    await pods.look()

    ((path, event),) = [(seen.path, json.loads(seen.body)) for seen in server.seen if seen.method == "POST"]
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "one", "uid": "uid-one"}
    assert (path, event["involvedObject"]) == ("/api/v1/namespaces/team/events", about)
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "AdmittedUnchanged", _MESSAGE)
    query = {"fieldSelector": "spec.nodeName=,status.phase=Pending", "resourceVersion": "0", "limit": "500"}
    assert server.lists(PATH)[0] == query


_TOLERATION = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}
_CPU = "the toleration for CPU Nodes"
_PLACED = "the scheduling gate of its topology annotations"
_REQUIRED = {"kai.scheduler/topology": "kubernetes", "kai.scheduler/topology-required-placement": "zone"}


def _pod(condition: Json | None = None, *, phase: str = "Pending", metadata: Json | None = None, **spec: Any) -> Json:
    waiting = pod(metadata={"namespace": "team", **(metadata or {})}, **spec)
    return {**waiting, "status": {"phase": phase, "conditions": [condition or _UNSCHEDULABLE]}}


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param(_pod(), [_CPU], id="lacks-the-toleration"),
        pytest.param(_pod(tolerations=[_TOLERATION]), [], id="has-the-toleration"),
        pytest.param(_pod(metadata={"annotations": _REQUIRED}), [_PLACED, _CPU], id="lacks-both"),
        pytest.param(
            _pod(metadata={"annotations": {**_REQUIRED, "cks-admission.dev/placement": "in zone a"}}),
            [_CPU],
            id="was-opened",
        ),
        pytest.param(_pod({**_UNSCHEDULABLE, "reason": "SchedulingGated"}), [], id="waits-for-something-else"),
        pytest.param(_pod({**_UNSCHEDULABLE, "type": "Ready"}), [], id="not-seen-by-the-scheduler"),
        pytest.param(_pod(phase="Running"), [], id="runs"),
        pytest.param(_pod(nodeName="one"), [], id="has-a-node"),
        pytest.param(_pod(resourceClaims=[{"name": "gpu"}]), [], id="may-be-a-gpu-pod"),
        pytest.param(_pod(metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"}), [], id="is-deleted"),
        pytest.param(_pod(metadata={"namespace": "cks-admission"}), [], id="the-services-own"),
        pytest.param({"metadata": {}, "status": {"conditions": "?"}}, [], id="of-another-shape"),
    ],
)
def test_what_a_pod_lacks(waiting: Json, expected: list[str]) -> None:
    """Only an unschedulable Pod lacks something, and only what the rules would have given it."""
    assert list(lacked(waiting, default_rules(), FACTS)) == expected


def test_rules_that_are_off() -> None:
    """Nobody lacks what no rule gives."""
    assert list(lacked(_pod(), RuleSet([]), FACTS)) == []
