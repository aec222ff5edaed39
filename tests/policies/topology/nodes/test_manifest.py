"""What Nodes have, what Pods ask for, and what keeps Pods from a Node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from policies.engine.facts import Node, Taint
from policies.topology.nodes.manifest import PodManifest, allocatable, lasting, requests
from policies.topology.nodes.tree import Machine

Json = dict[str, Any]
_PODS = yaml.safe_load((Path(__file__).parent / "manifest.yaml").read_text(encoding="utf-8"))["pods"]


def _requests(pod: Json) -> tuple[tuple[str, int], ...]:
    return requests(msgspec.convert(pod, PodManifest))


@pytest.mark.parametrize("case", _PODS, ids=lambda case: case["name"])
def test_pods_ask_for_what_the_scheduler_counts(case: Json) -> None:
    """Kubernetes' own cases, and templates without what the API server fills in; a Pod is one of those of its Node."""
    assert _requests(case["pod"]) == tuple(sorted({**case["requests"], "pods": 1}.items()))


def test_the_whole_pod_is_resized() -> None:
    """While a whole Pod is resized, the larger of what it has and what it is to have counts; of what it asks for."""
    status = {"resources": {"requests": {"cpu": "3", "memory": "1Mi"}}, "allocatedResources": {"cpu": "4"}}

    pod = {"spec": {"containers": [], "resources": {"requests": {"cpu": "2"}}}, "status": status}
    assert _requests(pod) == (("cpu", 4000), ("pods", 1))


@pytest.mark.parametrize(
    ("name", "quantity", "message"),
    [
        pytest.param(
            "nvidia.com/gpu", "1.5", "nvidia.com/gpu is '1.5'; a whole number of devices was expected", id="part"
        ),
        pytest.param("cpu", "many", "cpu is 'many'; an amount such as 8, 500m or 1.5Gi was expected", id="word"),
        pytest.param("memory", "-1", "memory is '-1'; an amount such as 8, 500m or 1.5Gi was expected", id="negative"),
    ],
)
def test_a_malformed_amount_is_told(name: str, quantity: str, message: str) -> None:
    """Nobody counts with what is no amount."""
    with pytest.raises(ValueError, match=f"^{message}$"):
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


@pytest.mark.parametrize(
    ("node", "cordoned", "ready", "expected"),
    [
        pytest.param(_node(_GPU, _CPU), False, True, (), id="none"),
        pytest.param(_node(), True, True, ("cordoned",), id="cordoned"),
        pytest.param(
            _node(Taint("node.kubernetes.io/unschedulable", "NoSchedule")), True, True, ("cordoned",), id="cordon-taint"
        ),
        pytest.param(_node(), False, False, ("not ready",), id="not-ready"),
        pytest.param(
            _node(Taint("node.kubernetes.io/unreachable", "NoExecute")),
            False,
            False,
            ("unreachable",),
            id="unreachable",
        ),
        pytest.param(_node(_LOCK), True, True, ("cordoned", "locked by SUNK"), id="locked-and-cordoned"),
        pytest.param(_node(_RESERVED, **_TRIAGE), False, True, ("in triage",), id="triage"),
        pytest.param(
            _node(_RESERVED, **{"node.coreweave.cloud/state": "production", "node.coreweave.cloud/reserved": "org"}),
            False,
            True,
            (),
            id="production",
        ),
        pytest.param(
            _node(**{"node.coreweave.cloud/reserved": "org", "node.coreweave.cloud/reserved-desired": "control-plane"}),
            False,
            True,
            ("pending",),
            id="pending",
        ),
        pytest.param(
            _node(Taint("node.kubernetes.io/disk-pressure", "NoSchedule")), False, True, ("disk pressure",), id="disk"
        ),
    ],
)
def test_why_a_node_takes_no_pods(node: Node, cordoned: bool, ready: bool, expected: tuple[str, ...]) -> None:  # noqa: FBT001 - cases
    """A Node says once each why Pods do not land on it for now; what people set apart is no such reason."""
    assert Machine(node, cordoned=cordoned, ready=ready).reasons == expected


def test_what_people_set_lasts() -> None:
    """Taints that keep Pods out last, but for those that go when the Node is well again; the state of repair lasts."""
    assert lasting(_node(_GPU, _CPU, _LOCK, _RESERVED)) == (_CPU, _RESERVED)
    assert lasting(_node(_GPU, _CPU, _LOCK, _RESERVED, **_TRIAGE)) == (
        Taint("node.coreweave.cloud/state", "NoSchedule", "triage"),
        _CPU,
    )
