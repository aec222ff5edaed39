"""The service goes down and comes back: annotated workloads go on, and objects written meanwhile stay unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster import placements
from cluster.placements import REQUIRED, annotated, answer_of, one_of, replica_sets, required, scheduled
from cluster.polling import NotYet
from cluster.topologynodes import HERE, RACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

NAMESPACE = "topology-outage"
OWN = required([one_of(RACK, "r1")])
# Its Pods stay pending, so that it does not end.
RUNNING = annotated(
    placements.job(NAMESPACE, "running", affinity=OWN, nodeSelector={**HERE, "example.org/none": "true"}), "superpod=1"
)
UNAPPLIED = (
    'Warning: required "superpod=1" is not in the node affinity: '
    "the Pods may run anywhere; create it again (spec.template)\n"
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
    service.kill()
    yield
    if not service.is_running:
        service.start()
    control_plane.objects.delete("namespace", NAMESPACE)


@pytest.fixture(scope="module")
def back(control_plane: ControlPlane, service: Service, outage: None) -> None:
    """A Job and two Deployments, written while the service is away; then it is started again."""
    del outage
    written = [RUNNING, paused("older"), paused("rolled")]
    control_plane.apply(written, check=True)
    service.start()


@pytest.mark.usefixtures("outage")
def test_deployment_is_scaled(control_plane: ControlPlane) -> None:
    """The Deployment's controller writes to the ReplicaSet, which has a copy of the annotations, and Pods follow."""
    answer = control_plane.kubectl("scale", "deployment/grown", "-n", NAMESPACE, "--replicas=3")

    assert answer_of(answer) == (0, "")
    assert scheduled(control_plane, NAMESPACE, "grown", 3) == ["old-f1-s3"] * 3


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
def test_job_that_was_not_translated_is_updated(control_plane: ControlPlane, manner: str) -> None:
    """A running Job takes a label, and its own manifest again, with a warning and without a change to its template."""
    before = control_plane.get("job", "running", "-n", NAMESPACE)["spec"]

    if manner == "label":
        answer = control_plane.kubectl("label", "job", "running", "-n", NAMESPACE, "example.org/team=b")
    else:
        answer = control_plane.apply({**RUNNING, "metadata": {**RUNNING["metadata"], "labels": {"a": "b"}}})

    found = control_plane.get("job", "running", "-n", NAMESPACE)["spec"]
    assert answer_of(answer) == (0, UNAPPLIED)
    assert found == before
    assert found["template"]["spec"]["affinity"] == OWN


@pytest.mark.usefixtures("back")
def test_replica_sets_are_as_the_controller_wrote_them(control_plane: ControlPlane) -> None:
    """The ReplicaSets that the controller makes now, of templates that were not translated, are one per template."""
    resumed = control_plane.kubectl("rollout", "resume", "deployment/older", "-n", NAMESPACE)
    first = replica_sets(control_plane, NAMESPACE, "older")
    image = control_plane.kubectl("set", "image", "deployment/older", "-n", NAMESPACE, "main=example.test/main:2")
    second = replica_sets(control_plane, NAMESPACE, "older")

    assert [answer_of(each) for each in (resumed, image)] == [(0, UNAPPLIED)] * 2
    one, two = ("example.test/main:1", None), ("example.test/main:2", None)
    assert (first, second) == ([one], [one, two])


@pytest.mark.usefixtures("back")
def test_deployment_that_is_annotated_anew_is_translated(control_plane: ControlPlane) -> None:
    """Another domain on such a Deployment is translated, and its Pods go there."""
    changed = control_plane.kubectl(
        "annotate", "--overwrite", "deployment", "rolled", "-n", NAMESPACE, f"{REQUIRED}=superpod=3"
    )
    control_plane.kubectl("rollout", "resume", "deployment/rolled", "-n", NAMESPACE, check=True)

    assert answer_of(changed) == (0, "")
    assert scheduled(control_plane, NAMESPACE, "rolled", 1) == ["old-f1-s3"]
    assert len(replica_sets(control_plane, NAMESPACE, "rolled")) == 1
