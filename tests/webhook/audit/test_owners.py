"""Whose objects are."""

from __future__ import annotations

from typing import Any

from policies.engine.request import AdmissionRequest, GroupVersionResource
from webhook.audit.creation import creation
from webhook.audit.owners import Owners


def _owned(kind: str, name: str, by: tuple[str, str] | None) -> dict[str, Any]:
    owner = (
        [{"apiVersion": "v1", "kind": by[0], "name": by[1], "uid": f"uid-{by[1]}", "controller": True}] if by else []
    )
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", "ownerReferences": owner},
    }


def _pod(owner: str) -> AdmissionRequest:
    resource = GroupVersionResource("", "v1", "pods")
    return creation(_owned("Pod", "p", ("ReplicaSet", owner)), resource, namespaced=True)


async def test_owners_are_read_once() -> None:
    """The Pods of a ReplicaSet that nobody has seen cost one look-up for it and one for its Deployment."""
    asked: list[str] = []
    known = {"web-1": _owned("ReplicaSet", "web-1", ("Deployment", "web")), "web": _owned("Deployment", "web", None)}

    async def read(reference: dict[str, Any], _namespace: str) -> dict[str, Any] | None:
        asked.append(reference["name"])
        return known.get(reference["name"])

    owners = Owners(read)

    assert [await owners.topmost(_pod("web-1")) for _ in range(3)] == ["Deployment/web"] * 3
    assert asked == ["web-1", "web"]


async def test_owners_that_were_listed_are_not_read() -> None:
    """Whoever was listed before is remembered; what is not known is the topmost itself."""
    owners = Owners()
    owners.remember(_owned("ReplicaSet", "web-1", ("Deployment", "web")))

    assert await owners.topmost(_pod("web-1")) == "Deployment/web"
    assert await owners.topmost(_pod("other")) == "ReplicaSet/other"
