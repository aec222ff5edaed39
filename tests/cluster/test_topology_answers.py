"""The exact refusals and warnings that kubectl prints about annotations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from cluster import placements
from cluster.placements import CREATING, PREFERRED, REQUIRED, TOPOLOGY, annotated, answer_of, denied, one_of, required
from cluster.topologynodes import POOL

if TYPE_CHECKING:
    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

pytestmark = pytest.mark.usefixtures("topology_nodes")

LEVELS = '  Levels of topology "coreweave", farthest first: region, zone, fabric, superpod, leafgroup, rack, hostname.'
OTHERS = "topograph, topograph-nvlink, topograph-v1, aws, oci and 8 more."
MORE_SPECIFIC = "The preferred placement must be more specific than the required one."
UNUSABLE = "The placement cannot be used."
POOLS = "A workload cannot be placed in node pools of different topologies; its Pods would stay pending."


@dataclass(frozen=True)
class Said:
    """What the annotations say, and what is answered, line by line."""

    lines: tuple[str, ...]
    required: str = ""
    preferred: str = ""
    topology: str = "coreweave"


def at(key: str) -> str:
    """Return the path of an annotation as it is printed."""
    return f"  metadata.annotations[{key}]:"


REFUSED = {
    "farther": Said(
        (
            MORE_SPECIFIC,
            f'{at(PREFERRED)} "fabric" is farther than the required "rack".',
            LEVELS,
            "Prefer hostname, or require a level above fabric: region or zone.",
        ),
        "rack=r1",
        "fabric",
    ),
    "unknown topology": Said(
        (
            "The topology is not known.",
            f'{at(TOPOLOGY)} "corewave" is no known topology.',
            (
                "Did you mean coreweave? Known topologies: coreweave, coreweave-roce, coreweave-nvlink, "
                "cluster-topology, pool-a, pool-b, pool-empty, coreweave-infiniband, "
                f"{OTHERS.replace(', oci', '')}"
            ),
        ),
        "rack",
        topology="corewave",
    ),
    "both": Said(
        (
            UNUSABLE,
            f'{at(PREFERRED)} "shelf" is no level of topology "coreweave".',
            f'{at(REQUIRED)} "superpod(1" has a parenthesis that does not close.',
            LEVELS,
            "Name one of them.",
            "Write LEVEL, LEVEL=DOMAIN or LEVEL in (DOMAIN, …); domains above it may follow.",
        ),
        "superpod(1",
        "shelf",
    ),
}

WARNED = {
    "unknown domain": Said(
        ('required "fabric=f1,superpod=99": no Node is in it; name one that Nodes are in: 1, 2, 3',),
        "fabric=f1,superpod=99",
    ),
    "empty pool": Said(
        ('topology "pool-empty": its node pool has no Nodes now',),
        "rack=r1",
        topology="pool-empty",
    ),
    "topology alone": Said(("topology alone places nothing: add a required or a preferred placement",)),
}  # fmt: skip


def asked(said: Said, **spec: Any) -> Manifest:
    """Return a Job with such annotations."""
    return annotated(placements.job("default", **spec), said.required, said.preferred, said.topology)


@pytest.mark.parametrize("said", REFUSED.values(), ids=REFUSED)
def test_wrong_annotation_is_refused_in_words(control_plane: ControlPlane, said: Said) -> None:
    """What is wrong, where, what was found, the levels in their order, and what to do."""
    answer = control_plane.apply(asked(said), "--dry-run=server")

    assert answer_of(answer) == (1, denied(*said.lines, doing=CREATING))


@pytest.mark.parametrize("said", WARNED.values(), ids=WARNED)
def test_what_may_surprise_is_warned_of(control_plane: ControlPlane, said: Said) -> None:
    """The object is admitted, with a line that says what the annotations will not do."""
    answer = control_plane.apply(asked(said), "--dry-run=server")

    assert answer_of(answer) == (0, "".join(f"Warning: {line}\n" for line in said.lines))


def test_two_pools_are_refused(control_plane: ControlPlane) -> None:
    """A Job that names two pools whose topologies differ is refused, with both."""
    pools = {f"{POOL}=topology-{pool}": f"{POOL}=topology-{pool} (pool-{pool})" for pool in ("a", "b")}
    first, second = pools.values()
    affinity = required([one_of(POOL, "topology-a", "topology-b")])

    answer = control_plane.apply(asked(Said((), "rack=r3"), affinity=affinity), "--dry-run=server")

    path = "spec.template.spec.affinity.nodeAffinity"
    lines = (POOLS, f"  {path}: {second} has another topology than {first}.")
    assert answer_of(answer) == (1, denied(*lines, "Choose one of the pools, or split the workload.", doing=CREATING))


def test_unrelated_objects_are_not_spoken_of(control_plane: ControlPlane) -> None:
    """Without annotations nothing is said."""
    answer = control_plane.apply(placements.job("default"), "--dry-run=server")

    assert answer_of(answer) == (0, "")
