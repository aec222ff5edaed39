"""What roots need, by kind: how many Pods of which template, and which of them come only after others."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import WORKLOADS
from support.gangs.world import required

from policies.topology.placer.opening import placement_of
from policies.topology.podcount import ROOT_KINDS, STAGED, Need, needs

Json = dict[str, Any]
_ANNOTATIONS = required("rack")
_T: Json = {"metadata": {"annotations": _ANNOTATIONS}, "spec": {"containers": []}}
_PLACEMENT = placement_of(_T)
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def _needs(group: str, kind: str, spec: Json, **metadata: Any) -> list[tuple[Any, ...]] | None:
    """Role, count, stage, phase and whether the Pods come one after the other, of each need."""
    found = needs({"metadata": metadata, "spec": spec}, WORKLOADS[group, kind], _PLACEMENT)
    return None if found is None else [(n.role, n.count, n.stage, n.phase, n.single) for n in found]


def _plain(count: int, role: str = "") -> tuple[Any, ...]:
    return role, count, 0, 0, False


def _jobs(*jobs: Json) -> Json:
    template = {"spec": {"parallelism": 2, "completions": 2, "template": _T}}
    return {"replicatedJobs": [{"template": template, **job} for job in jobs]}


def _kubeflow(field: str, master: str) -> Json:
    return {f"{field}ReplicaSpecs": {master: {"template": _T}, "Worker": {"replicas": 4, "template": _T}}}


_SERVE = {"leaderWorkerTemplate": {"size": 4, "workerTemplate": _T}}
_GROVE = {"name": "a", "annotations": _ANNOTATIONS, "spec": {"replicas": 2, "podSpec": _T["spec"]}}
_REPLICATED = (
    ("", "ReplicationController"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("argoproj.io", "Rollout"),
)
_CASES: dict[tuple[str, str], tuple[Json, list[tuple[Any, ...]] | None]] = {
    **dict.fromkeys((*_REPLICATED, ("slinky.slurm.net", "NodeSet")), ({"replicas": 3, "template": _T}, [_plain(3)])),
    ("apps", "StatefulSet"): ({"replicas": 3, "template": _T}, [("", 3, 0, 0, True)]),
    ("batch", "Job"): ({"parallelism": 3, "completions": 9, "template": _T}, [_plain(3)]),
    ("batch.volcano.sh", "Job"): ({"tasks": [{"name": "t", "replicas": 3, "template": _T}]}, [_plain(3, "t")]),
    ("grove.io", "PodCliqueSet"): ({"replicas": 5, "template": {"cliques": [_GROVE]}}, [_plain(2, "a")]),
    ("jobset.x-k8s.io", "JobSet"): (_jobs({"name": "w", "replicas": 2}), [_plain(4, "w")]),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (_SERVE, [_plain(1, "leader"), _plain(3, "worker")]),
    ("ray.io", "RayCluster"): (
        {"headGroupSpec": {"template": _T}, "workerGroupSpecs": [{"groupName": "g", "replicas": 2, "template": _T}]},
        [_plain(1, "headgroup"), _plain(2, "g")],
    ),
    ("sunk.coreweave.com", "NodeSet"): ({"template": _T}, None),
    **{
        ("kubeflow.org", f"{name}Job"): (_kubeflow(field, master), [_plain(1, master.lower()), _plain(4, "worker")])
        for name, field, master in (
            *(("MPI", "mpi", "Launcher"), ("PyTorch", "pytorch", "Master"), ("TF", "tf", "Chief")),
            *(("XGBoost", "xgb", "Master"), ("Paddle", "paddle", "Master"), ("JAX", "jax", "Coordinator")),
        )
    },
}


def test_every_kind_is_tried() -> None:
    """There is a case for each kind of root, and each kind that comes in stages is a root."""
    assert set(_CASES) == set(ROOT_KINDS)
    assert STAGED <= ROOT_KINDS


@pytest.mark.parametrize("kind", _CASES, ids=lambda kind: kind[1])
def test_kinds(kind: tuple[str, str]) -> None:
    """Each template of a kind has its role and its count."""
    spec, expected = _CASES[kind]
    assert _needs(*kind, spec) == expected


def test_another_placement_is_another_gang() -> None:
    """Only templates with the very placement are meant; where none has it, nothing is known."""
    other = {**_T, "metadata": {"annotations": required("rack", preferred="hostname")}}
    tasks = [{"name": "a", "replicas": 2, "template": _T}, {"name": "b", "replicas": 3, "template": other}]
    row = WORKLOADS["batch.volcano.sh", "Job"]
    obj: Json = {"spec": {"tasks": tasks}}

    assert needs(obj, row, _PLACEMENT) == [Need("a", 2, _T)]
    assert needs(obj, row, placement_of(other)) == [Need("b", 3, other)]
    assert needs(obj, row, placement_of({"metadata": {"annotations": required("superpod")}})) is None


_LWS = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")


@pytest.mark.parametrize(
    ("spec", "metadata", "stage"),
    [
        ({}, {}, 0),
        ({"startupPolicy": "LeaderCreated"}, {}, 0),
        ({"startupPolicy": "LeaderReady"}, {}, 1),
        ({}, {"annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}}, 1),
    ],
)
def test_leaders_and_workers(spec: Json, metadata: Json, stage: int) -> None:
    """Workers come after a leader that has to be Ready, or whose Node says where they belong.

    One with a template of its own is counted once, and its workers are those that are left of the size.
    """
    found = _needs(*_LWS, {**_SERVE, **spec}, **metadata)
    assert found == [("leader", 1, 0, 0, False), ("worker", 3, stage, 0, False)]
    template = {"size": 4, "leaderTemplate": {"metadata": {}, "spec": {}}, "workerTemplate": _T}
    assert _needs(*_LWS, {"leaderWorkerTemplate": template}) == [_plain(3, "worker")]


def _after(status: str) -> Json:
    return {"name": "b", "dependsOn": [{"name": "a", "status": status}]}


_A, _B, _C = ({"name": name} for name in "abc")
_CIRCLE = ({**_A, "dependsOn": [_B]}, {**_B, "dependsOn": [_A]})


@pytest.mark.parametrize(
    ("jobs", "more", "order"),
    [
        ((_A, _B), {}, [(0, 0), (0, 0)]),
        ((_A, _B, _C), {"startupPolicy": {"startupPolicyOrder": "InOrder"}}, [(0, 0), (1, 0), (2, 0)]),
        ((_A, _after("Ready")), {}, [(0, 0), (1, 0)]),
        ((_A, _after("Complete")), {}, [(0, 0), (0, 1)]),
        (_CIRCLE, {}, [(1, 0), (2, 0)]),
    ],
    ids=["none", "in order", "ready", "complete", "circle"],
)
def test_jobs_that_depend_on_others(jobs: tuple[Json, ...], more: Json, order: list[tuple[int, int]]) -> None:
    """Jobs that wait for others to be Ready are a later stage, for others to be complete a later phase."""
    found = _needs("jobset.x-k8s.io", "JobSet", {**_jobs(*jobs), **more})
    assert found == [(job["name"], 2, *own, False) for job, own in zip(jobs, order, strict=True)]


@pytest.mark.parametrize(("number", "behind"), [(40, 40), (1500, 1)], ids=["each after all before it", "a long chain"])
def test_many_that_depend_on_others(number: int, behind: int) -> None:
    """The order is found at once, however many paths lead from one to another and however long they are."""
    names = [f"t{index}" for index in range(number)]
    tasks = [
        {"name": name, "replicas": 1, "template": _T, "dependsOn": {"name": names[max(0, index - behind) : index]}}
        for index, name in enumerate(names)
    ]
    found = _needs("batch.volcano.sh", "Job", {"tasks": tasks[::-1]})
    assert found is not None
    assert [one[2] for one in found] == [*reversed(range(number))]


def test_exclusive_topology_of_a_jobset() -> None:
    """The Pods of such Jobs come after a first one, so they are opened as they come."""
    assert _needs("jobset.x-k8s.io", "JobSet", _jobs({"name": "w"}), annotations={_EXCLUSIVE: "rack"}) == [
        ("w", 2, 0, 0, True)
    ]


def test_other_orders() -> None:
    """An MPIJob's launcher may wait for its workers, a Volcano task for others, a StatefulSet may start at once."""
    mpi = {**_kubeflow("mpi", "Launcher"), "launcherCreationPolicy": "WaitForWorkersReady"}
    assert _needs("kubeflow.org", "MPIJob", mpi) == [("launcher", 1, 1, 0, False), ("worker", 4, 0, 0, False)]
    tasks = [
        {"name": name, "replicas": 1, "template": _T, **({"dependsOn": {"name": after}} if after else {})}
        for name, after in (("c", ["b"]), ("b", ["a"]), ("a", []))
    ]
    assert _needs("batch.volcano.sh", "Job", {"tasks": tasks}) == [
        ("c", 1, 2, 0, False), ("b", 1, 1, 0, False), ("a", 1, 0, 0, False),
    ]  # fmt: skip
    assert _needs("apps", "StatefulSet", {"replicas": 2, "podManagementPolicy": "Parallel", "template": _T}) == [
        _plain(2)
    ]
