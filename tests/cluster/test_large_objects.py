"""Objects that are large where a rule looks: what the API server stores, and what people read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster import workloads
from cluster.placements import MUST, annotated
from policies.topology.placement import GATE

if TYPE_CHECKING:
    from cluster.controlplane import ControlPlane

pytestmark = pytest.mark.usefixtures("service")


def test_a_refusal_of_many_labels_is_short(control_plane: ControlPlane, namespace: str) -> None:
    """Of two thousand reserved labels people read the first twenty, and how many more there are."""
    labels = {f"k{number:04}.coreweave.cloud/x": "1" for number in range(2000)}

    answer = control_plane.apply(workloads.config_map(namespace, labels=labels))

    lines = answer.stderr.splitlines()
    shown = [f'  metadata.labels: k{number:04}.coreweave.cloud/x="1"' for number in range(20)]
    assert (answer.returncode, lines[1:22]) == (1, [*shown, "  and 1980 more"])
    assert len(answer.stderr) < 8192


def test_a_pod_with_many_terms_of_its_own_is_stored(control_plane: ControlPlane, namespace: str) -> None:
    """A Pod with 800 node selector terms of its own waits behind the gate, and keeps its terms as they are."""
    pod = annotated(workloads.pod(namespace), "superpod=3")
    terms = [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": [str(number)]}]} for number in range(800)
    ]
    pod["spec"]["affinity"] = {"nodeAffinity": {MUST: {"nodeSelectorTerms": terms}}}

    answer = control_plane.apply(pod, check=True)

    stored = control_plane.get("pod", "main", "-n", namespace)
    assert stored["spec"]["affinity"] == pod["spec"]["affinity"]
    assert stored["spec"]["schedulingGates"] == [{"name": GATE}]
    assert not answer.stderr
