"""Annotations on workloads of other projects: their templates, and the Pods that their controllers create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cluster import crds, placements, workloads
from cluster.placements import REQUIRED, annotated, answer_of, fixed, refusal_of, scheduled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.controlplane import ControlPlane
    from cluster.manifests import Manifest


@pytest.fixture(scope="module", autouse=True)
def kinds(control_plane: ControlPlane, topology_nodes: None) -> Iterator[None]:
    """Install JobSet and LeaderWorkerSet, without their controllers."""
    del topology_nodes
    with crds.installed(control_plane, crds.JOB_SET, crds.LEADER_WORKER_SET):
        yield


def job_set(namespace: str) -> Manifest:
    """Return a JobSet of a launcher that needs no GPU, and of workers."""
    jobs = {"launcher": placements.job("", gpus=0), "workers": placements.job("", pods=4)}
    replicated = [{"name": name, "replicas": 1, "template": {"spec": job["spec"]}} for name, job in jobs.items()]
    metadata = workloads.metadata("main", namespace)
    spec = {"replicatedJobs": replicated}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def leader_worker_set(namespace: str) -> Manifest:
    """Return a LeaderWorkerSet of two groups, each a leader and two workers."""
    templates = {f"{app}Template": placements.template(app) for app in ("leader", "worker")}
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 3, **templates}}
    metadata = workloads.metadata("main", namespace)
    return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": spec}


def owned_by(owner: Manifest) -> list[dict[str, Any]]:
    """Return the owner references that a controller writes."""
    who = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return [{**who, "uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}]


def stateful_set(owner: Manifest, name: str, replicas: int, template: Manifest) -> Manifest:
    """Return what the controller of a LeaderWorkerSet makes of a template."""
    metadata = {**workloads.metadata(name, owner["metadata"]["namespace"]), "ownerReferences": owned_by(owner)}
    selector = {"matchLabels": template["metadata"]["labels"]}
    spec = {"selector": selector, "podManagementPolicy": "Parallel", "serviceName": "main", "replicas": replicas}
    whole = {**spec, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": whole}


def test_job_set_runs_in_its_domain(control_plane: ControlPlane, namespace: str) -> None:
    """The workers' template gets the annotations, the launcher's stays, and the Pods of a Job made of it run there."""
    manifest = annotated(job_set(namespace), "superpod=1", "rack=r5", "coreweave-roce")

    answer = control_plane.apply(manifest)

    stored = control_plane.get("jobset", "main", "-n", namespace)
    launcher, workers = manifest["spec"]["replicatedJobs"]
    template = workers["template"]["spec"]["template"]
    template["metadata"]["annotations"] = manifest["metadata"]["annotations"]
    assert answer_of(answer) == (0, "")
    assert stored["spec"]["replicatedJobs"] == [launcher, workers]

    made = {"apiVersion": "batch/v1", "kind": "Job", **stored["spec"]["replicatedJobs"][1]["template"]}
    made["metadata"] = {**workloads.metadata("main-workers-0", namespace), "ownerReferences": owned_by(stored)}
    answer = control_plane.apply(made)

    assert answer_of(answer) == (0, "")
    assert scheduled(control_plane, namespace, "main", 4) == ["roce-s1"] * 4


def test_job_set_keeps_its_placement(control_plane: ControlPlane, namespace: str) -> None:
    """Another domain is refused in words; JobSet's own webhook would say only that a field is immutable."""
    control_plane.apply(annotated(job_set(namespace), "superpod=1"), check=True)
    before = control_plane.get("jobset", "main", "-n", namespace)

    answer = control_plane.kubectl(
        "annotate", "--overwrite", "jobset", "main", "-n", namespace, f"{REQUIRED}=superpod=2"
    )

    refusal = fixed("JobSet", f'{REQUIRED}]: "superpod=2" was "superpod=1" before.')
    assert refusal_of(answer) == refusal
    assert control_plane.get("jobset", "main", "-n", namespace) == before


def test_job_set_obeys_its_job_templates(control_plane: ControlPlane, namespace: str) -> None:
    """An annotation on one job template is for that one, GPUs or not."""
    manifest = job_set(namespace)
    launcher = manifest["spec"]["replicatedJobs"][0]
    launcher["template"]["metadata"] = {"annotations": placements.asking("superpod=1")}

    control_plane.apply(manifest, check=True)

    stored = control_plane.get("jobset", "main", "-n", namespace)["spec"]["replicatedJobs"]
    templates = [job["template"]["spec"]["template"]["metadata"] for job in stored]
    assert [each.get("annotations") for each in templates] == [placements.asking("superpod=1"), None]


def test_leader_worker_set_runs_in_its_domain(control_plane: ControlPlane, namespace: str) -> None:
    """Leaders and workers get the annotations, and the Pods of the StatefulSets that are made of them run there."""
    answer = control_plane.apply(annotated(leader_worker_set(namespace), "fabric=f1,superpod=3"))

    stored = control_plane.get("leaderworkerset", "main", "-n", namespace)
    templates = {name: stored["spec"]["leaderWorkerTemplate"][f"{name}Template"] for name in ("leader", "worker")}
    said = placements.asking("fabric=f1,superpod=3")
    assert answer_of(answer) == (0, "")
    assert [each["metadata"]["annotations"] for each in templates.values()] == [said] * 2

    sets = [stateful_set(stored, name, 2 if name == "leader" else 4, each) for name, each in templates.items()]
    control_plane.apply(sets, check=True)

    assert scheduled(control_plane, namespace, "leader", 2) == ["old-f1-s3"] * 2
    assert scheduled(control_plane, namespace, "worker", 4) == ["old-f1-s3"] * 4
