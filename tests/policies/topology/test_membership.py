"""Membership: the root, the role and the rank of a Pod, from the labels and the owner that controllers give it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.builders import WORKLOADS
from support.gangs.world import required
from support.tables import rows

from policies.objects.fieldpath import locate, parse
from policies.topology.gang import GangKey
from policies.topology.membership import (
    ROOT_KINDS,
    STAGED,
    Membership,
    Need,
    due,
    identity,
    membership,
    needs,
    owner,
    placement_of,
    podcount,
    role,
)

_CASES = yaml.safe_load((Path(__file__).parent / "membership.yaml").read_text(encoding="utf-8"))


def _pod(name: str, controller: list[str] | None = None, labels: dict[str, Any] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "labels": labels}
    if controller:
        version, kind, owner_name = controller
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Other", "name": "other"},
            {"apiVersion": version, "kind": kind, "name": owner_name, "controller": True},
        ]
    return {"metadata": metadata}


@pytest.mark.parametrize("case", _CASES["pods"], ids=lambda case: case["name"])
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

    assert identity(obj) == GangKey("ns", "ray.io", "RayCluster", "a")
    assert [owner(obj), owner({})] == [GangKey("ns", "ray.io", "RayJob", "b"), None]


_T = _CASES["template"]
_PLACEMENT = placement_of(_T)


def _kind(case: dict[str, Any]) -> tuple[str, str]:
    kind, _, group = case["kind"].partition(".")
    return group, kind


@pytest.mark.parametrize("case", _CASES["templates"], ids=lambda case: case["kind"])
def test_templates(case: dict[str, Any]) -> None:
    """Each template of a kind has the count that its controller makes of it."""
    patterns = WORKLOADS[_kind(case)].templates
    places = [place for pattern in patterns for place, _ in locate(case["object"], pattern)]

    assert [podcount(_kind(case), case["object"], place) for place in places] == case["counts"]


@pytest.mark.parametrize("case", _CASES["configured"], ids=lambda case: case["name"])
def test_configured_kinds(case: dict[str, Any]) -> None:
    """A kind of the configuration has the count nearest to the template, or none is known."""
    (location, _), *_ = locate(case["object"], parse("spec.workers[*].template"))

    assert podcount(("example.org", "TrainingRun"), case["object"], location) == case["count"]


@pytest.mark.parametrize("case", _CASES["due"], ids=lambda case: case["name"])
def test_due(case: dict[str, Any]) -> None:
    """What is suspended or over is not due; of what comes one after the other no more than there are at once."""
    (location, _), *_ = locate(case["object"], parse(case["template"]))

    assert due(_kind(case), case["object"], location) == case["pods"]


@rows(__file__, "needs")
def test_needs(kind: str, spec: Any, metadata: Any, expected: list[Any] | None) -> None:
    """Each template of a root has its role and its count, and comes in a stage or a phase after others."""
    found = needs({"metadata": metadata or {}, "spec": spec}, WORKLOADS[_kind({"kind": kind})], _PLACEMENT)

    told = None if found is None else [[one.role, one.count, one.stage, one.phase, one.single] for one in found]
    assert told == expected


def test_every_root_is_tried() -> None:
    """There is a row for each kind of root, and each kind that comes in stages is a root."""
    assert set(map(_kind, _CASES["needs"])) == set(ROOT_KINDS)
    assert STAGED <= ROOT_KINDS


def test_another_placement_is_another_gang() -> None:
    """Only templates with the very placement are meant; where none has it, nothing is known."""
    other = {**_T, "metadata": {"annotations": required("rack", preferred="hostname")}}
    tasks = [{"name": "a", "replicas": 2, "template": _T}, {"name": "b", "replicas": 3, "template": other}]
    row = WORKLOADS["batch.volcano.sh", "Job"]
    obj: dict[str, Any] = {"spec": {"tasks": tasks}}

    assert needs(obj, row, _PLACEMENT) == [Need("a", 2, _T)]
    assert needs(obj, row, placement_of(other)) == [Need("b", 3, other)]
    assert needs(obj, row, placement_of({"metadata": {"annotations": required("superpod")}})) is None


@pytest.mark.parametrize(("number", "behind"), [(40, 40), (1500, 1)], ids=["each after all before it", "a long chain"])
def test_many_that_depend_on_others(number: int, behind: int) -> None:
    """The order is found at once, however many paths lead from one to another and however long they are."""
    names = [f"t{index}" for index in range(number)]
    tasks = [
        {"name": name, "replicas": 1, "template": _T, "dependsOn": {"name": names[max(0, index - behind) : index]}}
        for index, name in enumerate(names)
    ]
    found = needs({"spec": {"tasks": tasks[::-1]}}, WORKLOADS["batch.volcano.sh", "Job"], _PLACEMENT)
    assert found is not None
    assert [one.stage for one in found] == [*reversed(range(number))]
