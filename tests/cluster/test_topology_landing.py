"""Workloads of other projects, annotated word for word as in the documents, land together on a real scheduler.

Each needs six Nodes of one rack, and one of two racks has them. The controllers of JobSet and LeaderWorkerSet make
Pods; for an MPIJob this test makes what its controller would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from cluster import controllers, crds, gangs, manifests, racks, workloads
from cluster.controllers import NAMESPACE
from cluster.racks import PODS, Racks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest
    from cluster.service import Service

MPI_JOB = manifests.custom_resource("MPIJob", "kubeflow.org", "v2beta1")

# "For Distributed Training"
SAME_RACK = yaml.safe_load("""
# Strict same-rack, all GPUs need high-bandwidth all-reduce
annotations:
  kai.scheduler/topology: "cluster-topology"
  kai.scheduler/topology-required-placement: "cloud.provider.com/topology-rack"
""")["annotations"]
# "LeaderWorkerSet Behavior", without its label runai/queue, which leaves all to Run:ai.
SAME_BLOCK = yaml.safe_load("""
annotations:
    kai.scheduler/topology: "cluster-topology"
    kai.scheduler/topology-required-placement: "cloud.provider.com/topology-block"
    kai.scheduler/topology-preferred-placement: "cloud.provider.com/topology-rack"
""")["annotations"]


@pytest.fixture(scope="module")
def example(control_plane: ControlPlane, service: Service) -> Iterator[Racks]:
    """Two racks, of which one has six Nodes free, and the kinds, which the service looks for when it starts."""
    kinds = (*controllers.KINDS.values(), MPI_JOB)
    with racks.standing(control_plane), crds.installed(control_plane, *kinds), service.configured():
        control_plane.namespace(NAMESPACE)
        yield Racks(control_plane, NAMESPACE)


@pytest.fixture
def two_racks(example: Racks, request: pytest.FixtureRequest) -> Iterator[Racks]:
    """The racks, filled anew, and empty again at the end."""
    example.arrange(1000 + request.session.items.index(request.node))
    yield example
    example.control_plane.objects.delete_all("jobsets", "leaderworkersets", "mpijobs", namespace=NAMESPACE)
    example.empty()


def template(app: str, gpus: int = racks.GPUS, **spec: object) -> Manifest:
    """Return a template of Pods that run until they are deleted."""
    job = gangs.job(NAMESPACE, app, "plain", pods=1, gpus=gpus, **{**racks.ON_THEM, **spec})
    made: Manifest = job["spec"]["template"]
    if not gpus:
        made["spec"]["containers"] = workloads.POD_SPEC["containers"]
    return made


def annotated(api_version: str, kind: str, annotations: Mapping[str, str], spec: Manifest) -> Manifest:
    """Return a workload."""
    metadata = {"name": "main", "namespace": NAMESPACE, "annotations": dict(annotations)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def test_job_lands_together(two_racks: Racks) -> None:
    """All six Pods of a Job are in the rack that has six Nodes free."""
    spec = {"parallelism": PODS, "completions": PODS, "template": template("worker")}

    two_racks.control_plane.apply(annotated("batch/v1", "Job", SAME_RACK, spec), check=True)

    assert two_racks.places("worker", PODS) == ["a"] * PODS


def test_job_set_lands_together(two_racks: Racks) -> None:
    """So are the Pods of both Jobs that JobSet's controller makes, whose launcher needs no GPU and runs anywhere."""
    jobs = {"launcher": (1, template("launcher", gpus=0), 1), "worker": (2, template("worker"), 3)}
    replicated = [
        {
            "name": name,
            "replicas": replicas,
            "template": {
                "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": of}
            },
        }
        for name, (replicas, of, pods) in jobs.items()
    ]
    spec = {"replicatedJobs": replicated, "network": {"enableDNSHostnames": False}}
    with controllers.running(two_racks.control_plane, "jobset"):
        made = annotated("jobset.x-k8s.io/v1alpha2", "JobSet", SAME_RACK, spec)
        two_racks.control_plane.apply(made, check=True)

        assert two_racks.places("worker", PODS) == ["a"] * PODS
        assert len(two_racks.places("launcher", 1)) == 1


@pytest.mark.parametrize("annotations", [SAME_RACK, SAME_BLOCK], ids=["required", "preferred"])
def test_replicas_of_a_leader_worker_set_land_together(two_racks: Racks, annotations: Mapping[str, str]) -> None:
    """Each replica, which the LeaderWorkerSet's controllers make of a leader and its workers, is in one rack."""
    size = 3
    group = {
        "size": size,
        "leaderTemplate": template("leader", restartPolicy="Always"),
        "workerTemplate": template("worker", restartPolicy="Always"),
        "restartPolicy": "RecreateGroupOnPodRestart",
    }
    spec = {"replicas": 2, "leaderWorkerTemplate": group, "startupPolicy": "LeaderCreated"}
    with controllers.running(two_racks.control_plane, "lws"):
        made = annotated("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", annotations, spec)
        two_racks.control_plane.apply(made, check=True)

        leaders, workers = two_racks.places("leader", 2), two_racks.places("worker", 4)
        by_group = two_racks.groups("leaderworkerset.sigs.k8s.io/group-index")
        assert (len(leaders), len(workers)) == (2, 4)
        assert {index: (len(places), len(set(places))) for index, places in by_group.items()} == {
            "0": (size, 1),
            "1": (size, 1),
        }


def test_mpi_job_lands_together(two_racks: Racks) -> None:
    """So are the workers of an MPIJob, of which its controller makes Pods; the launcher is a Job without GPUs."""
    cluster = two_racks.control_plane
    replicas = {
        "Launcher": {"replicas": 1, "template": template("launcher", gpus=0)},
        "Worker": {"replicas": PODS, "template": template("worker")},
    }
    made = annotated("kubeflow.org/v2beta1", "MPIJob", SAME_RACK, {"mpiReplicaSpecs": replicas})
    cluster.apply(made, check=True)

    stored = cluster.get("mpijob", "main", "-n", NAMESPACE)
    for pod in mpi_workers(stored):
        cluster.objects.create(pod)

    assert two_racks.places("worker", PODS) == ["a"] * PODS


def mpi_workers(stored: Manifest) -> Iterator[Manifest]:
    """The Pods that the controller of Kubeflow makes of an MPIJob's workers: its template, labels and an owner.

    Source: newWorker in pkg/controller/mpi_job_controller.go of kubeflow/mpi-operator.
    """
    owner = {"apiVersion": stored["apiVersion"], "kind": "MPIJob", "name": "main", "uid": stored["metadata"]["uid"]}
    worker = stored["spec"]["mpiReplicaSpecs"]["Worker"]
    for index in range(worker["replicas"]):
        labels = {
            **worker["template"]["metadata"]["labels"],
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/job-name": "main",
            "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/replica-index": str(index),
        }
        owners = [{**owner, "controller": True, "blockOwnerDeletion": True}]
        metadata = {"name": f"main-worker-{index}", "namespace": NAMESPACE, "labels": labels, "ownerReferences": owners}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": worker["template"]["spec"]}
