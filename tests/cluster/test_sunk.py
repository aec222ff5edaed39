"""DaemonSets on SUNK Nodes get a warning when they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster import workloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane

pytestmark = pytest.mark.usefixtures("service")

HASH = "5f3a"
PATH = "spec.template.spec.tolerations"
TOLERATIONS = [
    {"key": "sunk.coreweave.com/lock", "value": "true", "operator": "Equal"},
    {"key": "is_cpu_compute", "operator": "Exists"},
    {"key": "is_gpu", "operator": "Exists"},
    {"key": "node.coreweave.cloud/reserved", "value": HASH, "operator": "Equal"},
]


@pytest.fixture(scope="module", autouse=True)
def sunk_node(control_plane: ControlPlane) -> Iterator[None]:
    """Make a Node that SUNK has locked, and wait until the service has seen it."""
    taints = [
        {"key": "sunk.coreweave.com/lock", "value": "true", "effect": "NoExecute"},
        {"key": "node.coreweave.cloud/reserved", "value": HASH, "effect": "NoSchedule"},
    ]
    control_plane.node("sunk-1", {"pool": "sunk"}, taints, {"nvidia.com/gpu": 8})

    control_plane.wait_until(
        "the service to know the SUNK Node",
        lambda: control_plane.objects.applied(workloads.apps("DaemonSet", "default"), user="alice", dry_run=True),
        lambda answer: any("taints of SUNK Nodes" in warning for warning in answer.warnings),
    )
    yield
    control_plane.objects.delete("node", "sunk-1")


def test_missing_tolerations_are_warned_of(control_plane: ControlPlane, namespace: str) -> None:
    """A plain DaemonSet is admitted, with one warning that names each taint; the hash is read off the Nodes."""
    answer = control_plane.apply(workloads.apps("DaemonSet", namespace))

    missing = f"sunk.coreweave.com/lock=true, is_gpu and node.coreweave.cloud/reserved={HASH}"
    remedy = "Add a toleration for each: operator Equal with its value, Exists without one."
    expected = f"Warning: {PATH}: none for {missing}, taints of SUNK Nodes. {remedy}\n"
    assert (answer.returncode, answer.stderr) == (0, expected)


def test_complete_one_is_not(control_plane: ControlPlane, namespace: str) -> None:
    """The documented four tolerations are enough."""
    template = workloads.template(tolerations=TOLERATIONS)

    answer = control_plane.apply(workloads.apps("DaemonSet", namespace, template=template))

    assert (answer.returncode, answer.stderr) == (0, "")


def test_one_that_cannot_land_there_is_not(control_plane: ControlPlane, namespace: str) -> None:
    """A node selector that rules SUNK's Nodes out is respected."""
    template = workloads.template(nodeSelector={"pool": "other"})

    answer = control_plane.apply(workloads.apps("DaemonSet", namespace, template=template))

    assert (answer.returncode, answer.stderr) == (0, "")
