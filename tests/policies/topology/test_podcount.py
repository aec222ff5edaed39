"""Podcounts: how many Pods of each template work together at once, per kind."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import WORKLOADS

from policies.objects.fieldpath import Location, locate, parse, render
from policies.topology.gang import MOST_PODS
from policies.topology.podcount import due, podcount

_T: dict[str, Any] = {"spec": {}}
_STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def _counts(group: str, kind: str, obj: dict[str, Any]) -> dict[str, int | None]:
    """The podcount of each template of an object by path."""
    return {
        render(location): podcount((group, kind), obj, location)
        for pattern in WORKLOADS[group, kind].templates
        for location, _ in locate(obj, pattern)
    }


def _job(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": _T, **fields}}


def _replicated(*jobs: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"template": {"spec": {"template": _T}}, **job} for job in jobs]


def _ray(**group: Any) -> dict[str, Any]:
    return {"headGroupSpec": {"template": _T}, "workerGroupSpecs": [{"template": _T, **group}]}


_JOBS = "spec.replicatedJobs[{}].template.spec.template"
_TRAINING = f"spec.template.{_JOBS}"
_LWS = "spec.leaderWorkerTemplate"


def _cliques(total: int | None, **group: Any) -> dict[str, Any]:
    template: dict[str, Any] = {"cliques": [{"name": "a", "spec": {"replicas": 2}}, {"name": "b", "spec": {}}]}
    if group:
        template["podCliqueScalingGroups"] = [group]
    return {"spec": {"template": template, **({} if total is None else {"replicas": total})}}


_CLIQUE = "spec.template.cliques[{}]"
_TABLE: list[tuple[str, str, dict[str, Any], dict[str, int | None]]] = [
    ("", "Pod", _T, {"": 1}),
    ("", "PodTemplate", {"template": _T}, {"template": None}),
    ("", "ReplicationController", _job(replicas=3), {"spec.template": 3}),
    ("apps", "Deployment", _job(), {"spec.template": 1}),
    ("grove.io", "PodCliqueSet", _cliques(3), {_CLIQUE.format(0): 2, _CLIQUE.format(1): 1}),
    ("grove.io", "PodCliqueSet", _cliques(None), {_CLIQUE.format(0): 2, _CLIQUE.format(1): 1}),
    (
        *("grove.io", "PodCliqueSet", _cliques(2, name="g", cliqueNames=["b"], replicas=4)),
        {_CLIQUE.format(0): 2, _CLIQUE.format(1): 4},
    ),
    ("slinky.slurm.net", "NodeSet", _job(replicas=4), {"spec.template": 4}),
    ("apps", "ReplicaSet", _job(replicas=0), {"spec.template": 0}),
    ("apps", "StatefulSet", _job(replicas=4), {"spec.template": 4}),
    ("apps", "DaemonSet", _job(), {"spec.template": None}),
    ("argoproj.io", "Rollout", _job(replicas=2), {"spec.template": 2}),
    ("batch", "Job", _job(), {"spec.template": 1}),
    ("batch", "Job", _job(parallelism=8), {"spec.template": 8}),
    ("batch", "Job", _job(parallelism=8, completions=3), {"spec.template": 3}),
    ("batch", "Job", _job(parallelism=8, completions=None), {"spec.template": 8}),
    ("batch", "Job", _job(completions=3), {"spec.template": 1}),
    ("batch", "Job", _job(parallelism="8"), {"spec.template": None}),
    ("batch", "Job", _job(parallelism=True), {"spec.template": None}),
    ("batch", "Job", _job(parallelism=-1), {"spec.template": None}),
    ("batch", "Job", _job(parallelism=2**31 - 1), {"spec.template": MOST_PODS}),
    ("batch", "CronJob", {"spec": {"jobTemplate": _job(parallelism=2)}}, {"spec.jobTemplate.spec.template": 2}),
    (
        *("jobset.x-k8s.io", "JobSet"),
        {
            "spec": {
                "replicatedJobs": [
                    {"replicas": 2, "template": _job(parallelism=4, completions=4)},
                    {"template": _job()},
                ]
            }
        },
        {_JOBS.format(0): 8, _JOBS.format(1): 1},
    ),
    (
        *("kubeflow.org", "MPIJob"),
        {"spec": {"mpiReplicaSpecs": {"Launcher": {"template": _T}, "Worker": {"replicas": 8, "template": _T}}}},
        {"spec.mpiReplicaSpecs.Launcher.template": 1, "spec.mpiReplicaSpecs.Worker.template": 8},
    ),
    (
        *("kubeflow.org", "MPIJob"),
        {"spec": {"mpiReplicaSpecs": {"Worker": {"template": _T}}}},
        {"spec.mpiReplicaSpecs.Worker.template": 0},
    ),
    (
        *("kubeflow.org", "PyTorchJob"),
        {
            "spec": {
                "elasticPolicy": {"maxReplicas": 9},
                "pytorchReplicaSpecs": {"Master": {"template": _T}, "Worker": {"replicas": 7, "template": _T}},
            }
        },
        {"spec.pytorchReplicaSpecs.Master.template": 1, "spec.pytorchReplicaSpecs.Worker.template": 7},
    ),
    ("kubeflow.org", "Notebook", _job(), {"spec.template": 1}),
    (
        *("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        {"spec": {"replicas": 5, "leaderWorkerTemplate": {"size": 4, "leaderTemplate": _T, "workerTemplate": _T}}},
        {f"{_LWS}.leaderTemplate": 1, f"{_LWS}.workerTemplate": 3},
    ),
    (
        *("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        {"spec": {"leaderWorkerTemplate": {"size": 4, "workerTemplate": _T}}},
        {f"{_LWS}.workerTemplate": 4},
    ),
    (
        *("ray.io", "RayCluster"),
        {"spec": _ray(replicas=3, numOfHosts=2, minReplicas=0, maxReplicas=2)},
        {"spec.headGroupSpec.template": 1, "spec.workerGroupSpecs[0].template": 4},
    ),
    (
        *("ray.io", "RayJob"),
        {"spec": {"rayClusterSpec": _ray(minReplicas=2), "submitterPodTemplate": _T}},
        {
            "spec.rayClusterSpec.headGroupSpec.template": 1,
            "spec.rayClusterSpec.workerGroupSpecs[0].template": 2,
            "spec.submitterPodTemplate": 1,
        },
    ),
    (
        *("ray.io", "RayService"),
        {"spec": {"rayClusterConfig": _ray(replicas=3, suspend=True)}},
        {
            "spec.rayClusterConfig.headGroupSpec.template": 1,
            "spec.rayClusterConfig.workerGroupSpecs[0].template": 0,
        },
    ),
    (
        *("batch.volcano.sh", "Job"),
        {"spec": {"tasks": [{"replicas": 6, "template": _T}, {"template": _T}]}},
        {"spec.tasks[0].template": 6, "spec.tasks[1].template": 0},
    ),
    ("sunk.coreweave.com", "NodeSet", _job(replicas=9), {"spec.template": 9}),
    ("sunk.coreweave.com", "NodeSet", _job(), {"spec.template": None}),
    (
        *("trainer.kubeflow.org", "TrainingRuntime"),
        {
            "spec": {
                "mlPolicy": {"numNodes": 4},
                "template": {
                    "spec": {
                        "replicatedJobs": [
                            {"name": "initializer", "template": _job()},
                            {"name": "any", "template": {**_job(), "metadata": {"labels": _STEP}}},
                            {"name": "node", "template": _job()},
                        ]
                    }
                },
            }
        },
        {_TRAINING.format(0): 1, _TRAINING.format(1): 4, _TRAINING.format(2): 4},
    ),
    ("serving.knative.dev", "Service", _job(), {"spec.template": None}),
]


@pytest.mark.parametrize(
    ("group", "kind", "obj", "counts"), _TABLE, ids=[f"{row[1]}-{number}" for number, row in enumerate(_TABLE)]
)
def test_templates(group: str, kind: str, obj: dict[str, Any], counts: dict[str, int | None]) -> None:
    """Each template of a kind has the count that its controller makes of it."""
    assert _counts(group, kind, obj) == counts


@pytest.mark.parametrize(
    ("obj", "count"),
    [
        ({"spec": {"workers": [{"template": _T, "replicas": 3}]}}, 3),
        ({"spec": {"replicas": 2, "workers": [{"template": _T}]}}, 2),
        ({"spec": {"parallelism": 5, "workers": [{"template": _T}]}}, 5),
        ({"spec": {"workers": [{"template": _T, "replicas": "3"}]}}, None),
        ({"spec": {"workers": [{"template": _T}]}}, None),
    ],
    ids=["beside", "above", "parallelism", "malformed", "unknown"],
)
def test_configured_kinds(obj: dict[str, Any], count: int | None) -> None:
    """A kind of the configuration has the count nearest to the template, or none is known."""
    (location, _), *_ = locate(obj, parse("spec.workers[*].template"))

    assert podcount(("example.org", "TrainingRun"), obj, location) == count


def _status(obj: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**obj, "status": status}


_TEMPLATE: Location = ("spec", "template")
_JOBSET_TEMPLATE: Location = ("spec", "replicatedJobs", 0, "template", "spec", "template")
_WORKERS: Location = ("spec", "mpiReplicaSpecs", "Worker", "template")
_GROUP: Location = ("spec", "workerGroupSpecs", 0, "template")
_SET = {"spec": {"replicatedJobs": _replicated({"name": "w", "replicas": 3, "template": _job(parallelism=4)})}}
_MPI = {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 8, "template": _T}}}}
_JOB, _JOBSET, _MPIJOB = ("batch", "Job"), ("jobset.x-k8s.io", "JobSet"), ("kubeflow.org", "MPIJob")


@pytest.mark.parametrize(
    ("kind", "obj", "location", "pods"),
    [
        (_JOB, _job(parallelism=4, completions=8), _TEMPLATE, 4),
        (_JOB, _status(_job(parallelism=4, completions=8), succeeded=3), _TEMPLATE, 4),
        (_JOB, _status(_job(parallelism=4, completions=8), succeeded=7), _TEMPLATE, 1),
        (_JOB, _status(_job(parallelism=4, completions=8), succeeded=3, failedIndexes="1,3-5"), _TEMPLATE, 1),
        (_JOB, _status(_job(parallelism=4, completions=8), succeeded=8), _TEMPLATE, 0),
        (_JOB, _status(_job(parallelism=4), active=4), _TEMPLATE, 4),
        (_JOB, _status(_job(parallelism=4), succeeded=1, active=2), _TEMPLATE, 2),
        (_JOB, _status(_job(parallelism=4, completions=4), succeeded="3"), _TEMPLATE, 4),
        (_JOB, _job(parallelism=4, suspend=True), _TEMPLATE, 0),
        (_JOB, _job(parallelism="4"), _TEMPLATE, None),
        (_JOBSET, _SET, _JOBSET_TEMPLATE, 12),
        (
            *(_JOBSET, _status(_SET, replicatedJobsStatus=[{"name": "d", "succeeded": 9}, {"name": "w", "failed": 1}])),
            *(_JOBSET_TEMPLATE, 8),
        ),
        (
            *(_JOBSET, _status(_SET, replicatedJobsStatus=[{"name": "w", "succeeded": 2, "failed": 1}])),
            *(_JOBSET_TEMPLATE, 0),
        ),
        (_JOBSET, {"spec": {**_SET["spec"], "suspend": True}}, _JOBSET_TEMPLATE, 0),
        (_MPIJOB, _status(_MPI, replicaStatuses={"Worker": {"succeeded": 2}}), _WORKERS, 6),
        (_MPIJOB, {"spec": {**_MPI["spec"], "runPolicy": {"suspend": True}}}, _WORKERS, 0),
        (("ray.io", "RayCluster"), {"spec": _ray(replicas=3)}, _GROUP, 3),
        (("ray.io", "RayCluster"), {"spec": {**_ray(replicas=3), "suspend": True}}, _GROUP, 0),
        (("apps", "ReplicaSet"), _status(_job(replicas=3), succeeded=2), _TEMPLATE, 3),
        (("apps", "StatefulSet"), _job(replicas=3), _TEMPLATE, 3),
        (("slinky.slurm.net", "NodeSet"), _job(), _TEMPLATE, None),
    ],
    ids=[
        *("Job", "some done", "one left", "failed indexes", "done", "queue", "queue ends", "malformed", "suspended"),
        *("unknown", "JobSet", "failed Job", "over", "suspended JobSet", "MPIJob", "suspended MPIJob", "Ray"),
        *("suspended Ray", "ReplicaSet", "StatefulSet", "NodeSet"),
    ],
)
def test_due(kind: tuple[str, str], obj: dict[str, Any], location: Location, pods: int | None) -> None:
    """What is suspended or over is not due; of what comes one after the other no more than there are at once."""
    assert due(kind, obj, location) == pods
