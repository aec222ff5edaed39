"""What the API server says of its kinds: their paths, versions and subresources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cluster.objects import DISCOVERY, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.apicalls import Caller
    from cluster.manifests import Manifest


class Kind(NamedTuple):
    """A kind in one version. versions: the same kind in the other ones."""

    resource: Resource
    subresources: tuple[str, ...]
    versions: tuple[Resource, ...]


def kinds(caller: Caller) -> dict[tuple[str, str], Kind]:
    """Every kind that is served, by apiVersion and kind."""
    result: dict[tuple[str, str], Kind] = {}
    for root in ("/api", "/apis"):
        for item in caller.send("GET", root, accept=DISCOVERY).body["items"]:
            result |= _of_group(root, item)
    return result


def of(known: Mapping[tuple[str, str], Kind], manifest: Manifest) -> Kind:
    """The kind of an object."""
    return known[manifest["apiVersion"], manifest["kind"]]


def _of_group(root: str, item: Manifest) -> dict[tuple[str, str], Kind]:
    group = item["metadata"].get("name", "")
    rows: list[tuple[Resource, tuple[str, ...]]] = []
    for version in item["versions"]:
        path = f"{root}/{group}/{version['version']}" if group else f"{root}/{version['version']}"
        rows += [(_resource(path, told), _subresources(told)) for told in version["resources"]]
    return {
        (resource.api_version, resource.kind): Kind(
            resource, subresources, tuple(o for o, _ in rows if o.kind == resource.kind and o.root != resource.root)
        )
        for resource, subresources in rows
    }


def _resource(path: str, told: Mapping[str, Any]) -> Resource:
    return Resource(path, told["resource"], told["responseKind"]["kind"], told["scope"] == "Namespaced")


def _subresources(told: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(each["subresource"] for each in told.get("subresources", ()))
