"""Membership: the root, the role and the rank of a Pod, from the labels and the owner that controllers give it."""

from __future__ import annotations

from typing import Any

import pytest

from policies.topology.gang import GangKey
from policies.topology.membership import Membership, identity, membership, owner, role

_LWS, _JOBSET = "leaderworkerset.sigs.k8s.io/", "jobset.sigs.k8s.io/"
_KUBEFLOW, _RAY, _VOLCANO = "training.kubeflow.org/", "ray.io/", "volcano.sh/"
_INDEX = "batch.kubernetes.io/job-completion-index"


def _pod(name: str, version: str = "", kind: str = "", controller: str = "", **labels: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "labels": labels.get("labels", labels)}
    if kind:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Other", "name": "other"},
            {"apiVersion": version, "kind": kind, "name": controller, "controller": True},
        ]
    return {"metadata": metadata}


_OF_GROVE = {"app.kubernetes.io/part-of": "a", "grove.io/podcliqueset-replica-index": "0"}
_TABLE: dict[str, tuple[dict[str, Any], Membership | None]] = {
    "Pod": (_pod("a"), Membership(GangKey("ns", "", "Pod", "a"))),
    "Job": (_pod("a-x", "batch/v1", "Job", "a"), Membership(GangKey("ns", "batch", "Job", "a"))),
    "Indexed Job": (
        _pod("a-7-x", "batch/v1", "Job", "a", labels={_INDEX: "7"}),
        Membership(GangKey("ns", "batch", "Job", "a"), rank=(7,)),
    ),
    "no index": (
        _pod("a-x", "batch/v1", "Job", "a", labels={_INDEX: "99999999999999999999"}),
        Membership(GangKey("ns", "batch", "Job", "a")),
    ),
    "DaemonSet": (_pod("a-x", "apps/v1", "DaemonSet", "a"), None),
    "static": (_pod("a-x", "v1", "Node", "a"), None),
    "StatefulSet": (
        _pod("a-0", "apps/v1", "StatefulSet", "a", labels={"controller-revision-hash": "a-5f"}),
        Membership(GangKey("ns", "apps", "StatefulSet", "a"), rank=(0,)),
    ),
    "Deployment": (
        _pod("a-77-x", "apps/v1", "ReplicaSet", "a-77", labels={"pod-template-hash": "77"}),
        Membership(GangKey("ns", "apps", "ReplicaSet", "a-77")),
    ),
    "Rollout": (
        _pod("a-77-x", "apps/v1", "ReplicaSet", "a-77", labels={"rollouts-pod-template-hash": "77"}),
        Membership(GangKey("ns", "apps", "ReplicaSet", "a-77")),
    ),
    "ReplicaSet": (_pod("a-x", "apps/v1", "ReplicaSet", "a"), Membership(GangKey("ns", "apps", "ReplicaSet", "a"))),
    "ReplicationController": (
        _pod("a-x", "v1", "ReplicationController", "a"),
        Membership(GangKey("ns", "", "ReplicationController", "a")),
    ),
    "Notebook": (
        _pod("a-0", "apps/v1", "StatefulSet", "a", labels={"notebook-name": "a"}),
        Membership(GangKey("ns", "apps", "StatefulSet", "a"), rank=(0,)),
    ),
    "JobSet": (
        _pod(
            *("a-w-0-x", "batch/v1", "Job", "a-w-0"),
            labels={
                f"{_JOBSET}jobset-name": "a",
                f"{_JOBSET}replicatedjob-name": "w",
                f"{_JOBSET}job-index": "2",
                _INDEX: "1",
            },
        ),
        Membership(GangKey("ns", "jobset.x-k8s.io", "JobSet", "a"), "w", rank=(2, 1)),
    ),
    "PyTorchJob": (
        _pod(
            *("a-worker-0", "kubeflow.org/v1", "PyTorchJob", "a"),
            labels={
                f"{_KUBEFLOW}job-name": "a",
                f"{_KUBEFLOW}replica-type": "worker",
                f"{_KUBEFLOW}replica-index": "3",
            },
        ),
        Membership(GangKey("ns", "kubeflow.org", "PyTorchJob", "a"), "worker", rank=(3,)),
    ),
    "MPIJob launcher": (
        _pod(
            *("a-launcher-x", "batch/v1", "Job", "a-launcher"),
            labels={f"{_KUBEFLOW}job-name": "a", f"{_KUBEFLOW}job-role": "launcher"},
        ),
        Membership(GangKey("ns", "kubeflow.org", "MPIJob", "a"), "launcher"),
    ),
    "RayCluster": (
        _pod(
            *("a-x", "ray.io/v1", "RayCluster", "a"),
            labels={
                f"{_RAY}cluster": "a",
                f"{_RAY}group": "gpus",
                f"{_RAY}worker-group-replica-index": "4",
                f"{_RAY}replica-host-index": "1",
            },
        ),
        Membership(GangKey("ns", "ray.io", "RayCluster", "a"), "gpus", rank=(4, 1)),
    ),
    "Volcano": (
        _pod(
            *("a-t-0", "batch.volcano.sh/v1alpha1", "Job", "a"),
            labels={f"{_VOLCANO}job-name": "a", f"{_VOLCANO}task-spec": "t", f"{_VOLCANO}task-index": "5"},
        ),
        Membership(GangKey("ns", "batch.volcano.sh", "Job", "a"), "t", rank=(5,)),
    ),
    "leader at its creation": (
        _pod("a-3", "apps/v1", "StatefulSet", "a", labels={f"{_LWS}name": "a", f"{_LWS}worker-index": "0"}),
        Membership(GangKey("ns", "leaderworkerset.x-k8s.io", "LeaderWorkerSet", "a", "3"), "leader", rank=(0,)),
    ),
    "forged leader": (
        _pod("x-3", "apps/v1", "StatefulSet", "a", labels={f"{_LWS}name": "a", f"{_LWS}worker-index": "0"}),
        Membership(GangKey("ns", "leaderworkerset.x-k8s.io", "LeaderWorkerSet", "a"), "worker", rank=(0,)),
    ),
    "worker": (
        _pod(
            *("a-3-1", "apps/v1", "StatefulSet", "a-3"),
            labels={
                f"{_LWS}name": "a",
                f"{_LWS}group-index": "3",
                f"{_LWS}worker-index": "1",
                f"{_LWS}template-revision-hash": "6f",
            },
        ),
        Membership(GangKey("ns", "leaderworkerset.x-k8s.io", "LeaderWorkerSet", "a", "3"), "worker", "6f", (1,)),
    ),
    "clique": (
        _pod(
            *("a-0-prefill-x", "grove.io/v1alpha1", "PodClique", "a-0-prefill"),
            labels={**_OF_GROVE, "grove.io/podclique": "a-0-prefill", "grove.io/podclique-pod-index": "2"},
        ),
        Membership(GangKey("ns", "grove.io", "PodCliqueSet", "a", "0"), "prefill", rank=(2,)),
    ),
    "clique of a scaling group": (
        _pod(
            *("a-0-decode-1-leader-x", "grove.io/v1alpha1", "PodClique", "a-0-decode-1-leader"),
            labels={
                **_OF_GROVE,
                "grove.io/podclique": "a-0-decode-1-leader",
                "grove.io/podcliquescalinggroup": "a-0-decode",
                "grove.io/podcliquescalinggroup-replica-index": "1",
            },
        ),
        Membership(GangKey("ns", "grove.io", "PodCliqueSet", "a", "0"), "leader", rank=(1,)),
    ),
    "another kind": (_pod("a-x", "example.org/v1", "Run", "a"), Membership(GangKey("ns", "example.org", "Run", "a"))),
    "malformed": (
        {"metadata": {"labels": 1, "ownerReferences": [1], "name": 2}},
        Membership(GangKey("d", "", "Pod", "")),
    ),
}


@pytest.mark.parametrize("case", _TABLE)
def test_membership(case: str) -> None:
    """A Pod belongs to the workload whose Pods start together, in the role of its template, with its numbers."""
    pod, expected = _TABLE[case]

    assert membership(pod, "d") == expected


@pytest.mark.parametrize(
    ("kind", "path", "obj", "expected"),
    [
        (("batch", "Job"), ("spec", "template"), {}, ""),
        (
            ("jobset.x-k8s.io", "JobSet"),
            ("spec", "replicatedJobs", 0, "template", "spec", "template"),
            {"spec": {"replicatedJobs": [{"name": "w"}]}},
            "w",
        ),
        (("kubeflow.org", "TFJob"), ("spec", "tfReplicaSpecs", "PS", "template"), {}, "ps"),
        (("ray.io", "RayJob"), ("spec", "rayClusterSpec", "headGroupSpec", "template"), {}, "headgroup"),
        (
            ("ray.io", "RayCluster"),
            ("spec", "workerGroupSpecs", 0, "template"),
            {"spec": {"workerGroupSpecs": [{"groupName": "gpus"}]}},
            "gpus",
        ),
        (("batch.volcano.sh", "Job"), ("spec", "tasks", 0, "template"), {"spec": {"tasks": [{"name": "t"}]}}, "t"),
        (("batch.volcano.sh", "Job"), ("spec", "tasks", 0, "template"), {"spec": {"tasks": [{}]}}, "default"),
        (
            ("grove.io", "PodCliqueSet"),
            ("spec", "template", "cliques", 0),
            {"spec": {"template": {"cliques": [{"name": "prefill"}]}}},
            "prefill",
        ),
        (
            ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
            ("spec", "leaderWorkerTemplate", "workerTemplate"),
            {},
            "worker",
        ),
    ],
    ids=["Job", "JobSet", "TFJob", "head", "group", "task", "unnamed task", "clique", "worker"],
)
def test_role(kind: tuple[str, str], path: tuple[str | int, ...], obj: dict[str, Any], expected: str) -> None:
    """The role of a template is what its Pods' labels say."""
    assert role(kind, obj, path) == expected


def test_identity_and_owner() -> None:
    """A workload and its controller are named by group, kind, namespace and name."""
    obj = {"apiVersion": "ray.io/v1", "kind": "RayCluster", **_pod("a", "ray.io/v1", "RayJob", "b")}

    assert (identity(obj), owner(obj), owner({})) == (
        GangKey("ns", "ray.io", "RayCluster", "a"),
        GangKey("ns", "ray.io", "RayJob", "b"),
        None,
    )
