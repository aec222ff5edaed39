"""Finds out which kinds the API server serves, and at what paths.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#unaggregated-discovery
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from policies.admissionpolicy.evaluation.inputs import KindScope
from policies.engine.request import GroupVersionResource, Operation, mapping, mappings
from webhook.cluster.api.call import ApiClient, Call, decoded, one, resource_path
from webhook.cluster.api.errors import ClusterError


class ServedResource(Struct, frozen=True):
    """A resource that is served, in one version. It is the target of the creation of one of its objects."""

    resource: GroupVersionResource
    kind: str
    namespaced: bool
    operation: Operation = "CREATE"
    sub_resource: str = ""  # the object itself is created

    @property
    def scope(self) -> KindScope:
        """Whether its objects are in Namespaces."""
        return "Namespaced" if self.namespaced else "Cluster"

    @property
    def api_version(self) -> str:
        """The group and the version, as objects name them."""
        group, version = self.resource.group, self.resource.version
        return f"{group}/{version}" if group else version

    @property
    def name(self) -> str:
        """Kind and group, such as `Deployment.apps`."""
        return f"{self.kind}.{self.resource.group}" if self.resource.group else self.kind

    def path(self, namespace: str = "", name: str = "") -> str:
        """The path of a list or of an object. namespace: empty for all."""
        return resource_path(self.api_version, self.resource.resource, namespace if self.namespaced else "", name)


async def versions(api: ApiClient, group: str) -> tuple[str, ...]:
    """The served versions of a group, the API server's preferred one first; none if it does not serve the group.

    Raises ClusterError.
    """
    if not group:
        return ("v1",)  # the core group has no such document
    document = await one(api, f"/apis/{quote(group, safe='')}")
    served = [mapping(document, "preferredVersion"), *mappings(document, "versions")]
    return tuple(dict.fromkeys(str(entry["version"]) for entry in served if "version" in entry))


async def kinds(api: ApiClient, api_version: str) -> Mapping[str, ServedResource]:
    """The kinds of `v1` or `GROUP/VERSION` by name; none if the version is not served. Raises ClusterError."""
    root = f"/apis/{quote(api_version)}" if "/" in api_version else f"/api/{quote(api_version)}"
    group, _, version = api_version.rpartition("/")
    served: dict[str, ServedResource] = {}
    for resource in mappings(await one(api, root), "resources"):
        name, kind = str(resource.get("name")), str(resource.get("kind"))
        if "/" not in name:  # with a slash, it is a subresource
            target = GroupVersionResource(group, version, name)
            served.setdefault(kind, ServedResource(target, kind, resource.get("namespaced") is True))
    return served


async def places(
    api: ApiClient, group: str, names: Iterable[str], order: Callable[[Sequence[str]], Iterable[str]] = tuple
) -> dict[str, ServedResource]:
    """The served kinds of a group, each in the first version that has it. Raises ClusterError.

    order: the versions that count, of those that are served, of which the API server's preferred one is the first.
    """
    served: dict[str, ServedResource] = {}
    for version in order(await versions(api, group)):
        if missing := set(names) - served.keys():
            there = await kinds(api, f"{group}/{version}" if group else version)
            served |= {kind: there[kind] for kind in missing & there.keys()}
    return served


_ACCEPT: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def served(fetch: Callable[[Call], Awaitable[bytes]]) -> list[ServedResource]:
    """The resources in all versions; of each group the preferred version first. Raises ClusterError.

    fetch: returns the body of the answer to a call.
    """
    found: list[ServedResource] = []
    for path in ("/api", "/apis"):
        answer = decoded(await fetch(Call("GET", path, accept=_ACCEPT)), f"GET {path}")
        if answer.get("kind") != "APIGroupDiscoveryList":
            raise ClusterError(f"GET {path} lists no resources in one answer; Kubernetes 1.30 and later do")
        for version, name in (
            (version, str(mapping(group, "metadata").get("name", "")))
            for group in mappings(answer, "items")
            for version in mappings(group, "versions")
        ):
            for resource in mappings(version, "resources"):
                if {"list", "create"} <= {*(resource.get("verbs") or ())}:
                    target = GroupVersionResource(name, str(version.get("version")), str(resource.get("resource")))
                    kind = str(mapping(resource, "responseKind").get("kind", ""))
                    found.append(ServedResource(target, kind, resource.get("scope") == "Namespaced"))
    return found
