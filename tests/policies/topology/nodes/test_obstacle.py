"""Why Nodes take no new Pods."""

from __future__ import annotations

import pytest

from policies.engine.facts import Node, Taint
from policies.topology.nodes.manifest import lasting, obstacles, reasons

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
    assert reasons(obstacles(node, cordoned=cordoned, ready=ready)) == expected


def test_what_people_set_lasts() -> None:
    """Taints that keep Pods out last, but for those that go when the Node is well again; the state of repair lasts."""
    assert lasting(_node(_GPU, _CPU, _LOCK, _RESERVED)) == (_CPU, _RESERVED)
    assert lasting(_node(_GPU, _CPU, _LOCK, _RESERVED, **_TRIAGE)) == (
        Taint("node.coreweave.cloud/state", "NoSchedule", "triage"),
        _CPU,
    )
