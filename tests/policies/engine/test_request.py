"""The request that every rule sees, and what it says about itself."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import owner, pod, request, resource

from policies.engine.request import (
    Owner,
    controller,
    is_being_deleted,
    is_mirror_pod,
    is_owned,
)


def test_the_namespace_that_an_object_lives_in() -> None:
    """The request's namespace counts, and a Namespace lives in none although the API server names one."""
    team = resource("v1", "Namespace", name="team-a")
    inside = [
        *(request(obj, namespace="team-a") for obj in (pod(), pod(metadata={"namespace": ""}))),
        request(resource("example.org/v1", "Thing"), resource="namespaces", namespace="team-a"),
    ]
    in_none = [request(resource("v1", "Node")), *(request(team, sub_resource=sub) for sub in ("", "finalize"))]

    assert [asked.scope_namespace for asked in (*inside, *in_none)] == ["team-a"] * 3 + [""] * 3


def test_the_name_for_people() -> None:
    """An object is called by its name, or by what its name will begin with."""
    asked = {
        "web-1": request(pod(), name="web-1"),
        "web-2": request(pod(metadata={"name": "web-2"}), name=""),
        "web-…": request({"metadata": {"generateName": "web-"}}),
        "web-3": request(None, old=pod(), name="web-3"),
    }
    odd = [request({"metadata": {"name": None, "generateName": None}}), request({"metadata": []})]

    assert [each.display_name for each in (*asked.values(), *odd)] == [*asked, "…", "…"]


def test_owned_objects() -> None:
    """An object is owned when a controller says so in an owner reference."""
    both = [*owner(controller=False)["ownerReferences"], *owner()["ownerReferences"]]
    owned = [owner(), {"ownerReferences": both}]
    references: list[Any] = [[{"controller": "true"}], [{}, None, "x"], None, {"controller": True}]
    others = [owner(controller=False), {}, *({"ownerReferences": each} for each in references)]

    assert [metadata for metadata in (*owned, *others) if is_owned({"metadata": metadata})] == owned


def test_mirror_pods_and_deletion() -> None:
    """The mirror annotation with any value makes a mirror; a deletion has begun when it has a time."""
    assert is_mirror_pod({"metadata": {"annotations": {"kubernetes.io/config.mirror": ""}}}) is True
    assert is_mirror_pod({"metadata": {"annotations": {"kubernetes.io/config.source": "file"}}}) is False
    assert is_mirror_pod({"metadata": {"annotations": ["kubernetes.io/config.mirror"]}}) is False
    assert is_being_deleted({"metadata": {"deletionTimestamp": "2026-03-01T00:00:00Z"}}) is True
    assert is_being_deleted({"metadata": {"deletionTimestamp": None}}) is False
    assert [check(None) for check in (is_owned, is_mirror_pod, is_being_deleted)] == [False, False, False]


_REFERENCE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}


def test_the_controller_is_one_of_the_owners() -> None:
    """Others own an object, too; only one of them is its controller."""
    other = {**_REFERENCE, "name": "other", "controller": False}
    owner = controller({"metadata": {"ownerReferences": [other, _REFERENCE]}})

    assert owner == Owner("apps/v1", "ReplicaSet", "web-1", "u")
    assert owner.group_kind == ("apps", "ReplicaSet")


@pytest.mark.parametrize(
    "references",
    [
        None,
        {},
        ["web-1"],
        [{**_REFERENCE, "controller": "true"}],
        [{**_REFERENCE, "uid": 1}],
        [{**_REFERENCE, "name": ""}],
        [{**_REFERENCE, "uid": "u" * 254}],
    ],
)
def test_what_is_no_reference_names_no_controller(references: Any) -> None:
    """Missing, of another type, empty, or longer than any name is."""
    assert controller({"metadata": {"ownerReferences": references}}) is None
