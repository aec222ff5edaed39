"""Annotations as they are answered: the exact refusals and warnings, and what other schedulers get of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cluster import placements
from cluster.placements import CREATING, PREFERRED, REQUIRED, TOPOLOGY, annotated, answer_of, denied, one_of, required
from cluster.topologynodes import BACKEND, POOL, RACK

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

pytestmark = pytest.mark.usefixtures("topology_nodes")

LEVELS = '  Levels of topology "coreweave", farthest first: region, zone, fabric, superpod, leafgroup, rack, hostname.'
UNUSABLE = "The placement cannot be used."
POOLS = "A workload cannot be placed in node pools of different topologies; its Pods would stay pending."


def asked(required: str, preferred: str = "", topology: str = "coreweave", **spec: Any) -> Manifest:
    """Return a Job with such annotations."""
    return annotated(placements.job("default", **spec), required, preferred, topology)


def at(key: str) -> str:
    """Return the path of an annotation as it is printed."""
    return f"  metadata.annotations[{key}]:"


def test_wrong_annotations_are_refused_in_words(control_plane: ControlPlane) -> None:
    """What is wrong, where, what was found, the levels in their order, and what to do, of all at once."""
    answer = control_plane.apply(asked("superpod(1", "shelf"), "--dry-run=server")

    lines = (
        UNUSABLE,
        f'{at(PREFERRED)} "shelf" is no level of topology "coreweave".',
        f'{at(REQUIRED)} "superpod(1" has a parenthesis that does not close.',
        LEVELS,
        "Name one of them.",
        "Write LEVEL, LEVEL=DOMAIN or LEVEL in (DOMAIN, …); domains above it may follow.",
    )
    assert answer_of(answer) == (1, denied(*lines, doing=CREATING))


@pytest.mark.parametrize(
    ("required", "topology", "line"),
    [
        pytest.param(
            "fabric=f1,superpod=99",
            "coreweave",
            'required "fabric=f1,superpod=99": no Node is in it; name one that Nodes are in: 1, 2, 3',
            id="unknown domain",
        ),
        pytest.param("rack=r1", "pool-empty", 'topology "pool-empty": its node pool has no Nodes now', id="empty pool"),
    ],
)
def test_what_nodes_do_not_have_is_warned_of(
    control_plane: ControlPlane, required: str, topology: str, line: str
) -> None:
    """The object is admitted, with a line that says what the annotations will not do."""
    answer = control_plane.apply(asked(required, topology=topology), "--dry-run=server")

    assert answer_of(answer) == (0, f"Warning: {line}\n")


def test_two_pools_are_refused(control_plane: ControlPlane) -> None:
    """A Job that names two pools whose topologies differ is refused, with both."""
    pools = {f"{POOL}=topology-{pool}": f"{POOL}=topology-{pool} (pool-{pool})" for pool in ("a", "b")}
    first, second = pools.values()
    affinity = required([one_of(POOL, "topology-a", "topology-b")])

    answer = control_plane.apply(asked("rack=r3", affinity=affinity), "--dry-run=server")

    path = "spec.template.spec.affinity.nodeAffinity"
    lines = (POOLS, f"  {path}: {second} has another topology than {first}.")
    assert answer_of(answer) == (1, denied(*lines, "Choose one of the pools, or split the workload.", doing=CREATING))


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
