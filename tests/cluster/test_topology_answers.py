"""The exact refusals and warnings that kubectl prints about annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cluster import placements
from cluster.placements import CREATING, PREFERRED, REQUIRED, annotated, answer_of, denied, one_of, required
from cluster.topologynodes import POOL

if TYPE_CHECKING:
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
