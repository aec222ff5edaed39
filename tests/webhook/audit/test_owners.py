"""Whose objects are."""

from __future__ import annotations

from typing import Any

from policies.engine.request import AdmissionRequest, GroupVersionResource, Owner
from webhook.audit.audit import creation
from webhook.audit.finding import Owners, Scope


def _owned(kind: str, name: str, by: tuple[str, str] | None, namespace: str = "a") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}"}
    if by:
        owner = {"apiVersion": "v1", "kind": by[0], "name": by[1], "uid": f"uid-{by[1]}", "controller": True}
        metadata["ownerReferences"] = [owner]
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def _pod(kind: str, owner: str, namespace: str = "a") -> AdmissionRequest:
    resource = GroupVersionResource("", "v1", "pods")
    return creation(_owned("Pod", "p", (kind, owner), namespace), resource, namespaced=True)


def _scope(kind: str, name: str) -> Scope:
    return Scope("v1", kind, "a", name, f"uid-{name}")


async def test_owners_are_read_once() -> None:
    """The Pods of a ReplicaSet that nobody has seen cost one look-up for it and one for its Deployment."""
    asked: list[str] = []
    known = {"web-1": _owned("ReplicaSet", "web-1", ("Deployment", "web")), "web": _owned("Deployment", "web", None)}

    async def read(owner: Owner, _namespace: str) -> dict[str, Any] | None:
        asked.append(owner.name)
        return known.get(owner.name)

    owners = Owners(read)

    topmost = ("Deployment/web", _scope("Deployment", "web"))
    assert [await owners.topmost(_pod("ReplicaSet", "web-1")) for _ in range(3)] == [topmost] * 3
    assert asked == ["web-1", "web"]


async def test_a_report_is_about_what_exists() -> None:
    """Neither an owner whose name another object has by now, nor one in no Namespace can own the report of a Pod."""
    known = {"web-1": {**_owned("ReplicaSet", "web-1", None)}, "node-1": _owned("Node", "node-1", None, "")}
    known["web-1"]["metadata"]["uid"] = "uid-of-its-successor"

    async def read(owner: Owner, _namespace: str) -> dict[str, Any] | None:
        return known[owner.name]

    owners = Owners(read)

    assert [await owners.topmost(_pod(*owner)) for owner in (("ReplicaSet", "web-1"), ("Node", "node-1"))] == [
        ("ReplicaSet/web-1", _scope("Pod", "p")),
        ("Node/node-1", _scope("Pod", "p")),
    ]


async def test_a_false_reference_takes_nothing_from_others() -> None:
    """A Pod of another Namespace that names a Deployment as its owner leaves the Deployment's own Pods with it."""
    known = {"a": _owned("Deployment", "web", None)}

    async def read(_owner: Owner, namespace: str) -> dict[str, Any] | None:
        return known.get(namespace)

    owners = Owners(read)

    false = await owners.topmost(_pod("Deployment", "web", "b"))
    assert false == ("Deployment/web", Scope("v1", "Pod", "b", "p", "uid-p"))
    assert await owners.topmost(_pod("Deployment", "web")) == ("Deployment/web", _scope("Deployment", "web"))
