"""What Nodes have, what Pods ask for, and what keeps Pods from a Node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.tables import rows

from policies.engine.facts import Node, Taint
from policies.topology.nodes.manifest import PodManifest, allocatable, lasting, requests
from policies.topology.nodes.tree import Machine

Json = dict[str, Any]


def _requests(pod: Json) -> tuple[tuple[str, int], ...]:
    return requests(msgspec.convert(pod, PodManifest))


@rows(__file__, "pods")
def test_pods_ask_for_what_the_scheduler_counts(pod: Json, requests: dict[str, int]) -> None:
    """Kubernetes' own cases, and templates without what the API server fills in; a Pod is one of those of its Node."""
    assert _requests(pod) == tuple(sorted({**requests, "pods": 1}.items()))


def test_the_whole_pod_is_resized() -> None:
    """While a whole Pod is resized, the larger of what it has and what it is to have counts; of what it asks for."""
    status = {"resources": {"requests": {"cpu": "3", "memory": "1Mi"}}, "allocatedResources": {"cpu": "4"}}

    pod = {"spec": {"containers": [], "resources": {"requests": {"cpu": "2"}}}, "status": status}
    assert _requests(pod) == (("cpu", 4000), ("pods", 1))


def test_a_malformed_amount_is_told() -> None:
    """Nobody counts with what is no amount."""
    amount, devices = "an amount such as 8, 500m or 1.5Gi was", "a whole number of devices was"
    for name, quantity, what in (("nvidia.com/gpu", "1.5", devices), ("cpu", "many", amount), ("memory", "-1", amount)):
        with pytest.raises(ValueError, match=f"^{name} is '{quantity}'; {what} expected$"):
            _requests({"spec": {"containers": [{"resources": {"requests": {name: quantity}}}]}})


def test_a_node_has_what_it_says() -> None:
    """What a Node has is counted like what Pods ask for."""
    assert allocatable({"cpu": "127500m", "memory": "2Ki", "pods": "110", "nvidia.com/gpu": "8", "x": "1"}) == (
        ("cpu", 127_500),
        ("memory", 2048),
        ("nvidia.com/gpu", 8),
        ("pods", 110),
    )


_LOCK = Taint("sunk.coreweave.com/lock", "NoExecute", "true")
_TRIAGE = {"node.coreweave.cloud/state": "triage", "node.coreweave.cloud/reserved": "triage"}
_RESERVED = Taint("node.coreweave.cloud/reserved", "NoSchedule", "hash")
_GPU = Taint("is_gpu", "PreferNoSchedule", "true")
_CPU = Taint("is_cpu_compute", "NoSchedule")


def _node(*taints: Taint, **labels: str) -> Node:
    return Node("n", labels, taints)


@rows(__file__, "reasons")
def test_why_a_node_takes_no_pods(
    taints: Any, labels: Any, reasons: list[str], *, cordoned: bool | None, unready: bool | None
) -> None:
    """A Node says once each why Pods do not land on it for now; what people set apart is no such reason."""
    node = _node(*(Taint(*taint) for taint in taints or ()), **(labels or {}))

    assert Machine(node, cordoned=bool(cordoned), ready=not unready).reasons == tuple(reasons)


def test_what_people_set_lasts() -> None:
    """Taints that keep Pods out last, but for those that go when the Node is well again; the state of repair lasts."""
    assert lasting(_node(_GPU, _CPU, _LOCK, _RESERVED)) == (_CPU, _RESERVED)
    assert lasting(_node(_GPU, _CPU, _LOCK, _RESERVED, **_TRIAGE)) == (
        Taint("node.coreweave.cloud/state", "NoSchedule", "triage"),
        _CPU,
    )
