"""Pods that wait because the rules that change objects were not asked."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import FACTS, Json, pod
from support.service.servers import default_rules

from policies.engine.ruleset import RuleSet
from policies.waiting import lacked

_UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
_TOLERATION = {"key": "is_cpu_compute", "operator": "Exists", "effect": "NoSchedule"}
_CPU = "the toleration for CPU Nodes"
_PLACED = "the scheduling gate of its topology annotations"
_REQUIRED = {"kai.scheduler/topology": "kubernetes", "kai.scheduler/topology-required-placement": "zone"}


def _waiting(
    condition: Json | None = None,
    *,
    phase: str = "Pending",
    namespace: str = "team",
    annotations: Json | None = None,
    **spec: Any,
) -> Json:
    waiting = pod(metadata={"namespace": namespace, "annotations": annotations or {}}, **spec)
    return {**waiting, "status": {"phase": phase, "conditions": [condition or _UNSCHEDULABLE]}}


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        pytest.param(_waiting(), [_CPU], id="lacks-the-toleration"),
        pytest.param(_waiting(tolerations=[_TOLERATION]), [], id="has-the-toleration"),
        pytest.param(_waiting(annotations=_REQUIRED), [_PLACED, _CPU], id="lacks-both"),
        pytest.param(
            _waiting(annotations={**_REQUIRED, "cks-admission.dev/placement": "in zone a"}), [_CPU], id="was-opened"
        ),
        pytest.param(_waiting({**_UNSCHEDULABLE, "reason": "SchedulingGated"}), [], id="waits-for-something-else"),
        pytest.param(_waiting({**_UNSCHEDULABLE, "type": "Ready"}), [], id="not-seen-by-the-scheduler"),
        pytest.param(_waiting(phase="Running"), [], id="runs"),
        pytest.param(_waiting(nodeName="one"), [], id="has-a-node"),
        pytest.param(_waiting(resourceClaims=[{"name": "gpu"}]), [], id="may-be-a-gpu-pod"),
        pytest.param({**_waiting(), "metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}}, [], id="is-deleted"),
        pytest.param(_waiting(namespace="cks-admission"), [], id="the-services-own"),
        pytest.param({"metadata": {}, "status": {"conditions": "?"}}, [], id="of-another-shape"),
    ],
)
def test_what_a_pod_lacks(waiting: Json, expected: list[str]) -> None:
    """Only an unschedulable Pod lacks something, and only what the rules would have given it."""
    assert list(lacked(waiting, default_rules(), FACTS)) == expected


def test_rules_that_are_off() -> None:
    """Nobody lacks what no rule gives."""
    assert list(lacked(_waiting(), RuleSet([]), FACTS)) == []
