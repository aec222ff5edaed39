"""Membership: the root, the role and the rank of a Pod, from the labels and the owner that controllers give it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from policies.topology.gang import GangKey
from policies.topology.membership import Membership, identity, membership, owner, role

_PODS = yaml.safe_load((Path(__file__).parent / "membership.yaml").read_text(encoding="utf-8"))["pods"]


def _pod(name: str, controller: list[str] | None = None, labels: dict[str, Any] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "labels": labels}
    if controller:
        version, kind, owner_name = controller
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Other", "name": "other"},
            {"apiVersion": version, "kind": kind, "name": owner_name, "controller": True},
        ]
    return {"metadata": metadata}


@pytest.mark.parametrize("case", _PODS, ids=[case["name"] for case in _PODS])
def test_membership(case: dict[str, Any]) -> None:
    """A Pod belongs to the workload whose Pods start together, in the role of its template, with its numbers."""
    found = membership(_pod(case["pod"], case.get("controller"), case.get("labels")), "d")

    gang = case.get("gang")
    rest = case.get("role", ""), case.get("revision", ""), tuple(case.get("rank", ()))
    assert found == (gang and Membership(GangKey("ns", *gang), *rest))


def test_malformed() -> None:
    """Nothing is read of what is no text."""
    pod = {"metadata": {"labels": 1, "ownerReferences": [1], "name": 2}}

    assert membership(pod, "d") == Membership(GangKey("d", "", "Pod", ""))


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
    obj = {"apiVersion": "ray.io/v1", "kind": "RayCluster", **_pod("a", ["ray.io/v1", "RayJob", "b"])}

    assert (identity(obj), owner(obj), owner({})) == (
        GangKey("ns", "ray.io", "RayCluster", "a"),
        GangKey("ns", "ray.io", "RayJob", "b"),
        None,
    )
