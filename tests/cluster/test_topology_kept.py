"""What must not change: fixed placements, objects of controllers and those that go, also while the service is away."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from cluster import placements
from cluster.placements import (
    NOWHERE,
    PREFERRED,
    REQUIRED,
    annotated,
    answer_of,
    fixed,
    one_of,
    refusal_of,
    required,
    rolled,
    scheduled,
)
from cluster.polling import NotYet
from cluster.topologynodes import HERE, NODES, RACK
from policies.topology.placement import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

pytestmark = pytest.mark.usefixtures("topology_nodes")


def template_of(control_plane: ControlPlane, kind: str, namespace: str) -> tuple[str, Manifest]:
    """Return what the template of an object called main requires, and its Pod spec."""
    template = control_plane.get(kind, "main", "-n", namespace)["spec"]["template"]
    return template["metadata"]["annotations"][REQUIRED], template["spec"]


def change(namespace: str, *, required: str, kind: str = "job") -> list[str]:
    """Return the arguments of kubectl that write another placement onto an object called main."""
    return ["annotate", "--overwrite", kind, "main", "-n", namespace, f"{REQUIRED}={required}"]


def test_suspended_job_gets_another_domain(control_plane: ControlPlane, namespace: str) -> None:
    """While a Job is suspended its domain can be changed, and when it goes on its Pods run in the new one."""
    control_plane.apply(annotated(placements.job(namespace, suspend=True, pods=2), "superpod=1"), check=True)

    changed = control_plane.kubectl(*change(namespace, required="superpod=3"))
    going_on = control_plane.kubectl("patch", "job", "main", "-n", namespace, "-p", '{"spec":{"suspend":false}}')

    assert [answer_of(each) for each in (changed, going_on)] == [(0, "")] * 2
    assert template_of(control_plane, "job", namespace)[0] == "superpod=3"
    assert scheduled(control_plane, namespace, "main", 2) == ["old-f1-s3"] * 2


def test_job_that_has_run_gets_another_domain(control_plane: ControlPlane, namespace: str) -> None:
    """So it does when it was suspended later, and another controller, as a queue's, adds what it chose."""
    control_plane.apply(annotated(placements.job(namespace, **NOWHERE), "superpod=1"), check=True)

    def started() -> bool:
        return "startTime" in control_plane.get("job", "main", "-n", namespace)["status"]

    def stopped() -> bool:
        return not started()

    control_plane.wait_for("the Job to have started", started)
    control_plane.kubectl("patch", "job", "main", "-n", namespace, "-p", '{"spec":{"suspend":true}}', check=True)
    control_plane.wait_for("the Job to have stopped", stopped)
    control_plane.kubectl(*change(namespace, required="superpod=2"), check=True)
    chosen = {"suspend": False, "template": {"spec": {"nodeSelector": {"example.org/queue": "a"}}}}
    answer = control_plane.kubectl("patch", "job", "main", "-n", namespace, "-p", json.dumps({"spec": chosen}))

    required, spec = template_of(control_plane, "job", namespace)
    selector = {**NOWHERE["nodeSelector"], "example.org/queue": "a"}
    assert answer_of(answer) == (0, "")
    assert (required, spec["nodeSelector"]) == ("superpod=2", selector)


def test_running_job_is_applied_again(control_plane: ControlPlane, namespace: str) -> None:
    """The same manifest is accepted, though its template lacks the annotations that are stored, and changes nothing."""
    own = required([one_of(RACK, "r1")], [one_of(RACK, "r2")])
    manifest = annotated(placements.job(namespace, affinity=own, **NOWHERE), "superpod=1", "hostname")
    control_plane.apply(manifest, check=True)
    before = control_plane.get("job", "main", "-n", namespace)

    answers = [control_plane.apply(manifest), control_plane.apply(manifest, "--server-side", "--force-conflicts")]

    after = control_plane.get("job", "main", "-n", namespace)
    assert [answer_of(each) for each in answers] == [(0, "")] * 2
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("written", "line"),
    [
        pytest.param(f"{REQUIRED}=superpod=2", f'{REQUIRED}]: "superpod=2" was "superpod=1" before.', id="another"),
        pytest.param(f"{REQUIRED}-", f'{REQUIRED}]: was "superpod=1" before, and is gone.', id="none"),
        pytest.param(f"{PREFERRED}=rack=r1", f'{PREFERRED}]: "rack=r1" was not there before.', id="one more"),
    ],
)
def test_running_job_keeps_its_placement(control_plane: ControlPlane, namespace: str, written: str, line: str) -> None:
    """Another placement on a running Job is refused in words that say what to do, not in those of the API server."""
    control_plane.apply(annotated(placements.job(namespace, **NOWHERE), "superpod=1"), check=True)

    answer = control_plane.kubectl("annotate", "--overwrite", "job", "main", "-n", namespace, written)

    assert answer.returncode == 1
    assert refusal_of(answer) == fixed("Job", line)
    assert template_of(control_plane, "job", namespace)[0] == "superpod=1"


def test_pod_keeps_its_placement(control_plane: ControlPlane, namespace: str) -> None:
    """So it is refused on a Pod, and a label on it is accepted."""
    control_plane.apply(annotated(placements.pod(namespace), "superpod=1"), check=True)

    answer = control_plane.kubectl(*change(namespace, required="superpod=2", kind="pod"))
    labelled = control_plane.kubectl("label", "pod", "main", "-n", namespace, "example.org/team=b")

    line = f'{REQUIRED}]: "superpod=2" was "superpod=1" before.'
    assert refusal_of(answer) == fixed("Pod", line)
    assert answer_of(labelled) == (0, "")
    assert control_plane.get("pod", "main", "-n", namespace)["metadata"]["annotations"][REQUIRED] == "superpod=1"


def test_deployment_has_a_replica_set_per_template(control_plane: ControlPlane, namespace: str) -> None:
    """Scaled and rolled out to another image and domain, it has as many ReplicaSets as it had templates."""
    manifest = placements.deployment(namespace, replicas=1)
    control_plane.apply(annotated(manifest, "superpod=1"), check=True)
    first = rolled(control_plane, namespace)
    scaled = control_plane.kubectl("scale", "deployment/main", "-n", namespace, "--replicas=2")
    second = rolled(control_plane, namespace)
    control_plane.kubectl("set", "image", "deployment/main", "-n", namespace, "main=example.test/main:2", check=True)
    third = rolled(control_plane, namespace)
    control_plane.kubectl(*change(namespace, required="superpod=2", kind="deployment"), check=True)
    fourth = rolled(control_plane, namespace)

    said = placements.asking("superpod=1")
    one, two = ("example.test/main:1", said), ("example.test/main:2", said)
    assert answer_of(scaled) == (0, "")
    other = ("example.test/main:2", placements.asking("superpod=2"))
    assert [first, second, third, fourth] == [[one], [one], [one, two], [one, two, other]]


def test_object_that_goes_is_left_alone(control_plane: ControlPlane, namespace: str) -> None:
    """What only waits for a finalizer can be written to, whatever its annotations say, and its template stays."""
    manifest = annotated(placements.deployment(namespace), "superpod=1")
    manifest["metadata"]["finalizers"] = ["example.org/hold"]
    control_plane.apply(manifest, check=True)
    control_plane.kubectl("delete", "deployment", "main", "-n", namespace, "--wait=false", check=True)

    changed = control_plane.kubectl(*change(namespace, required="nonsense", kind="deployment"))
    found = control_plane.get("deployment", "main", "-n", namespace)
    freed = control_plane.kubectl(
        "patch", "deployment", "main", "-n", namespace, "-p", '{"metadata":{"finalizers":[]}}'
    )

    assert [answer_of(each) for each in (changed, freed)] == [(0, "")] * 2
    assert found["spec"]["template"]["metadata"]["annotations"] == placements.asking("superpod=1")


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
