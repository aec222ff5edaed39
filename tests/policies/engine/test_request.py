"""The request that every rule sees, and what it says about itself."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import owner, pod, request, resource

from policies.engine.request import (
    AdmissionRequest,
    Owner,
    controller,
    is_being_deleted,
    is_mirror_pod,
    is_owned,
)


@pytest.mark.parametrize(
    ("asked", "namespace"),
    [
        pytest.param(request(pod(), namespace="team-a"), "team-a", id="namespaced"),
        pytest.param(request(pod(metadata={"namespace": ""}), namespace="team-a"), "team-a", id="empty-in-the-body"),
        pytest.param(request(resource("v1", "Node")), "", id="cluster-scoped"),
        pytest.param(request(resource("v1", "Namespace", name="team-a")), "", id="namespace"),
        pytest.param(
            request(resource("v1", "Namespace", name="team-a"), sub_resource="finalize"),
            "",
            id="subresource-of-a-namespace",
        ),
        pytest.param(
            request(resource("example.org/v1", "Thing"), resource="namespaces", namespace="team-a"),
            "team-a",
            id="resource-of-that-name-in-another-group",
        ),
    ],
)
def test_the_namespace_that_an_object_lives_in(asked: AdmissionRequest, namespace: str) -> None:
    """The request's namespace counts, and a Namespace lives in none although the API server names one."""
    assert asked.scope_namespace == namespace


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        pytest.param(request(pod(), name="web-1"), "web-1", id="name"),
        pytest.param(request(pod(metadata={"name": "web-2"}), name=""), "web-2", id="name-in-the-body"),
        pytest.param(request({"metadata": {"generateName": "web-"}}), "web-…", id="generated"),
        pytest.param(request({"metadata": {"name": None, "generateName": None}}), "…", id="nulls"),
        pytest.param(request({"metadata": []}), "…", id="odd"),
        pytest.param(request(None, old=pod(), name="web-3"), "web-3", id="deletion"),
    ],
)
def test_the_name_for_people(asked: AdmissionRequest, name: str) -> None:
    """An object is called by its name, or by what its name will begin with."""
    assert asked.display_name == name


@pytest.mark.parametrize(
    ("metadata", "owned"),
    [
        pytest.param(owner(), True, id="controller"),
        pytest.param(
            {"ownerReferences": [*owner(controller=False)["ownerReferences"], *owner()["ownerReferences"]]},
            True,
            id="one-of-two",
        ),
        pytest.param(owner(controller=False), False, id="owner-without-control"),
        pytest.param({"ownerReferences": [{"controller": "true"}]}, False, id="text"),
        pytest.param({"ownerReferences": [{}, None, "x"]}, False, id="odd-references"),
        pytest.param({"ownerReferences": None}, False, id="null"),
        pytest.param({"ownerReferences": {"controller": True}}, False, id="map"),
        pytest.param({}, False, id="none"),
    ],
)
def test_owned_objects(metadata: dict[str, Any], owned: bool) -> None:  # noqa: FBT001
    """An object is owned when a controller says so in an owner reference."""
    assert is_owned({"metadata": metadata}) is owned


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
