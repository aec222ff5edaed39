"""Membership: the root, the role and the rank of a Pod, from the labels and the owner that controllers give it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.tables import rows

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


@rows(__file__, "roles")
def test_role(kind: str, path: str, obj: dict[str, Any], expected: str) -> None:
    """The role of a template is what its Pods' labels say. path: below the object's spec."""
    name, _, group = kind.partition(".")
    steps = tuple(int(step) if step.isdigit() else step for step in path.split("."))

    assert role((group, name), obj, ("spec", *steps)) == expected


def test_identity_and_owner() -> None:
    """A workload and its controller are named by group, kind, namespace and name."""
    obj = {"apiVersion": "ray.io/v1", "kind": "RayCluster", **_pod("a", ["ray.io/v1", "RayJob", "b"])}

    assert (identity(obj), owner(obj), owner({})) == (
        GangKey("ns", "ray.io", "RayCluster", "a"),
        GangKey("ns", "ray.io", "RayJob", "b"),
        None,
    )
