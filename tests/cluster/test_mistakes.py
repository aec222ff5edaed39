"""The table of mistakes through kubectl, with Nodes of each vocabulary: what a person reads at apply."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.mistakes import Row, clusters, correct, mistakes

from cluster import crds, manifests, workloads
from cluster.service import registered
from policies.selectors import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest

# What the API server itself says of an older key.
_DEPRECATED = "deprecated since"
_REFUSED = "Error from server (Forbidden): error when creating"


@pytest.fixture(scope="module", autouse=True)
def service(judged: ControlPlane) -> Iterator[None]:
    """Run a service with the default rules and packs, as a cluster without a configuration of its own has it."""
    with crds.installed(judged, *crds.ALL), registered(judged, packs={}, organization={}):
        yield


@contextmanager
def standing(control_plane: ControlPlane, cluster: str) -> Iterator[None]:
    """The Nodes of a cluster, known to the service, to the end of the block."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in clusters()[cluster]}
    for name, own in labels.items():
        control_plane.objects.create(manifests.node(name, own, (), {"nvidia.com/gpu": 8}))
    nowhere = workloads.pod("default", "nowhere")
    nowhere["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "nowhere"}

    control_plane.wait_until(
        "the service to know the Nodes",
        lambda: control_plane.objects.applied(nowhere, user="alice", dry_run=True),
        lambda answer: any(warning.endswith(f"Nodes have {listed(labels)}.") for warning in answer.warnings),
    )
    yield
    control_plane.objects.delete("node", *labels)


def _written(rows: list[Row]) -> list[Manifest]:
    """The manifests, each with a name of its own."""
    named = [copy.deepcopy(row.manifest) for row in rows]
    for number, manifest in enumerate(named):
        manifest["metadata"] |= {"name": f"row-{number}"}
        if "Topology" not in manifest["kind"]:
            manifest["metadata"]["namespace"] = "default"
    return named


@pytest.mark.parametrize("cluster", list(clusters()))
def test_what_people_read(judged: ControlPlane, cluster: str) -> None:
    """Each mistake is told at apply in the words of the table, and of what is right nothing is said."""
    wrong, right = ([row for row in of if row.nodes == cluster and not row.offline] for of in (mistakes(), correct()))

    with standing(judged, cluster):
        warned = [row for row in wrong if not row.refused]
        told = judged.apply(_written(warned), "--dry-run=server").stderr.splitlines()
        refusals = [
            (row.name, judged.apply(_written([row]), "--dry-run=server").stderr.rstrip(), "\n".join(row.says))
            for row in wrong if row.refused
        ]  # fmt: skip
        praised = judged.apply(_written(right), "--dry-run=server") if right else None

    # kubectl prints the same warning once.
    assert sorted(line for line in told if _DEPRECATED not in line) == sorted(
        {f"Warning: {line}" for row in warned for line in row.says}
    )
    assert [name for name, text, says in refusals if not (text.startswith(_REFUSED) and text.endswith(says))] == []
    assert praised is None or (praised.returncode, praised.stderr) == (0, "")
