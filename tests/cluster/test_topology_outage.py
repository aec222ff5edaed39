"""The service goes down and comes back: annotated workloads go on, and what is written meanwhile is not gated."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from cluster import placements
from cluster.placements import REQUIRED, annotated, answer_of, rolled, scheduled
from cluster.polling import NotYet
from cluster.topologynodes import HERE, NODES
from policies.topology.placement import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

NAMESPACE = "topology-outage"
# Its Pods stay pending, so that it does not end.
RUNNING = annotated(
    placements.job(NAMESPACE, "running", nodeSelector={**HERE, "example.org/none": "true"}), "superpod=1"
)


def paused(name: str) -> Manifest:
    """Return an annotated Deployment whose controller makes no ReplicaSet yet."""
    made = annotated(placements.deployment(NAMESPACE, name, replicas=1), "superpod=1")
    made["spec"]["paused"] = True
    return made


@pytest.fixture(scope="module")
def outage(control_plane: ControlPlane, service: Service, topology_nodes: None) -> Iterator[None]:
    """An annotated Deployment, and a Job whose template is annotated; then the service is killed."""
    del topology_nodes
    control_plane.namespace(NAMESPACE)
    job = placements.job(NAMESPACE, "ending")
    job["spec"]["template"]["metadata"]["annotations"] = placements.asking("superpod=1")
    control_plane.apply([annotated(placements.deployment(NAMESPACE, "grown", 1), "superpod=3"), job], check=True)
    for name in ("grown", "ending"):
        scheduled(control_plane, NAMESPACE, name, 1)
    service.kill()
    yield
    if not service.is_running:
        service.start()
    control_plane.objects.delete("namespace", NAMESPACE)


@pytest.fixture(scope="module")
def back(control_plane: ControlPlane, service: Service, outage: None) -> None:
    """A Job and a Deployment, written while the service is away; then it is started again."""
    del outage
    written = [RUNNING, paused("rolled")]
    control_plane.apply(written, check=True)
    service.start()


@pytest.mark.usefixtures("outage")
def test_deployment_is_scaled(control_plane: ControlPlane) -> None:
    """Nobody gates the Pods that follow, nor says where they belong: they run where there is room."""
    answer = control_plane.kubectl("scale", "deployment/grown", "-n", NAMESPACE, "--replicas=3")

    assert answer_of(answer) == (0, "")
    nodes = scheduled(control_plane, NAMESPACE, "grown", 3)
    pods = control_plane.get("pods", "-n", NAMESPACE, "-l", "app=grown")["items"]
    assert "old-f1-s3" in nodes
    assert set(nodes) <= set(NODES)
    assert Counter(PLACEMENT in pod["metadata"]["annotations"] for pod in pods) == {True: 1, False: 2}


@pytest.mark.usefixtures("outage")
def test_job_ends(control_plane: ControlPlane) -> None:
    """The Job's controller takes its finalizer off the annotated Pod, and counts it."""

    def complete() -> bool:
        status = control_plane.get("job", "ending", "-n", NAMESPACE)["status"]
        if status.get("succeeded") != 1 or status.get("uncountedTerminatedPods"):
            raise NotYet(f"{status}")
        return True

    assert control_plane.wait_for("the Job to end", complete)


@pytest.mark.usefixtures("back")
@pytest.mark.parametrize("manner", ["label", "apply"])
def test_job_that_was_not_seen_is_updated(control_plane: ControlPlane, manner: str) -> None:
    """A running Job takes a label, and its own manifest again, with a warning and without a change to its template."""
    before = control_plane.get("job", "running", "-n", NAMESPACE)["spec"]

    if manner == "label":
        answer = control_plane.kubectl("label", "job", "running", "-n", NAMESPACE, "example.org/team=b")
    else:
        answer = control_plane.apply({**RUNNING, "metadata": {**RUNNING["metadata"], "labels": {"a": "b"}}})

    assert answer_of(answer) == (0, "")
    assert control_plane.get("job", "running", "-n", NAMESPACE)["spec"] == before


@pytest.mark.usefixtures("back")
def test_deployment_that_was_not_seen_gets_its_annotations(control_plane: ControlPlane) -> None:
    """With the next update of a Deployment its template gets them, in one ReplicaSet, and its Pods are placed."""
    changed = control_plane.kubectl(
        "annotate", "--overwrite", "deployment", "rolled", "-n", NAMESPACE, f"{REQUIRED}=superpod=3"
    )
    control_plane.kubectl("rollout", "resume", "deployment/rolled", "-n", NAMESPACE, check=True)

    assert answer_of(changed) == (0, "")
    assert scheduled(control_plane, NAMESPACE, "rolled", 1) == ["old-f1-s3"]
    assert rolled(control_plane, NAMESPACE, "rolled") == [("example.test/main:1", placements.asking("superpod=3"))]
