"""Schedulers that read the annotations themselves get valid annotations in their own form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster import placements
from cluster.placements import CREATING, PREFERRED, REQUIRED, TOPOLOGY, annotated, answer_of, denied
from cluster.topologynodes import BACKEND, RACK

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

pytestmark = pytest.mark.usefixtures("topology_nodes")

KAI = {"schedulerName": "kai-scheduler"}
RUNAI = {"schedulerName": "runai-scheduler"}
QUEUE = "kai.scheduler/queue"
FULL = {TOPOLOGY: "coreweave", REQUIRED: f"{BACKEND}/superpod", PREFERRED: RACK}


def not_there(why: str) -> str:
    """Return the warning that a topology of ours is not one that the scheduler knows."""
    known = f"and the scheduler knows only those ({why})"
    return f'Warning: topology "coreweave" is no object of the cluster, {known}\n'


def kept(stored: Manifest) -> tuple[dict[str, str], object]:
    """Return the annotations of placement that an object has, and the gates of its Pods."""
    spec = stored["spec"].get("template", stored)["spec"]
    found = stored["metadata"]["annotations"]
    return {key: value for key, value in found.items() if "topology" in key}, spec.get("schedulingGates")


@pytest.mark.parametrize("scheduler", [KAI, RUNAI], ids=["kai", "runai"])
@pytest.mark.parametrize("make", [placements.pod, placements.job])
def test_annotations_are_left_to_the_scheduler(
    control_plane: ControlPlane, namespace: str, make: Callable[..., Manifest], scheduler: dict[str, str]
) -> None:
    """Short names become the keys that it knows; nothing is gated, and nothing else is added."""
    made = make(namespace, **scheduler)

    answer = control_plane.apply(annotated(made, "superpod", "rack"))

    assert answer_of(answer) == (0, not_there(f"schedulerName {scheduler['schedulerName']}"))
    assert kept(control_plane.get(made["kind"], "main", "-n", namespace)) == (FULL, None)


def test_queue_hands_a_workload_over(control_plane: ControlPlane, namespace: str) -> None:
    """So does the label of a queue, on a Deployment that is moved into one later: its names become full."""
    manifest = annotated(placements.deployment(namespace), "superpod", "rack")
    control_plane.apply(manifest, check=True)
    manifest["metadata"]["labels"] = {QUEUE: "research"}

    answer = control_plane.apply(manifest)

    assert answer_of(answer) == (0, not_there(f"label {QUEUE}"))
    assert kept(control_plane.get("deployment", "main", "-n", namespace)) == (FULL, None)


def test_domain_is_refused(control_plane: ControlPlane) -> None:
    """A domain, which the scheduler would not understand, is refused with the way to choose one."""
    answer = control_plane.apply(annotated(placements.pod("default", **KAI), "superpod=1"), "--dry-run=server")

    problem = "names a domain, which the scheduler cannot read (schedulerName kai-scheduler)."
    refusal = denied(
        "A scheduler that reads the annotations itself knows levels only.",
        f'  metadata.annotations[{REQUIRED}]: "superpod=1" {problem}',
        "Write superpod, and choose the domain by a node selector.",
        doing=CREATING,
    )
    assert answer_of(answer) == (1, refusal)
