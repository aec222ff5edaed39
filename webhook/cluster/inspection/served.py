"""The resources that the API server serves and that can be created and listed, by two requests.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from policies.engine.request import GroupVersionResource, Operation
from webhook.cluster.api.call import Call
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.api.wire import UNREADABLE

_ACCEPT: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ServedResource(Struct, frozen=True):
    """A resource in one version. It is the target of the creation of one of its objects."""

    resource: GroupVersionResource
    kind: str
    namespaced: bool

    @property
    def operation(self) -> Operation:
        """That of a creation."""
        return "CREATE"

    @property
    def sub_resource(self) -> str:
        """None: the object itself is created."""
        return ""

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
        root = "/apis" if self.resource.group else "/api"
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace and self.namespaced else ""
        end = f"/{quote(name, safe='')}" if name else ""
        return f"{root}/{self.api_version}{place}/{self.resource.resource}{end}"


class _Kind(Struct):
    kind: str = ""


class _Resource(Struct, rename="camel"):
    resource: str
    scope: str = ""
    verbs: list[str] | None = None
    response_kind: _Kind | None = None


class _Version(Struct):
    version: str
    resources: list[_Resource] | None = None


class _Metadata(Struct):
    name: str = ""


class _Group(Struct):
    metadata: _Metadata
    versions: list[_Version] | None = None


class _Groups(Struct):
    kind: str
    items: list[_Group] | None = None


_GROUPS: Final = msgspec.json.Decoder(_Groups)


async def served(fetch: Callable[[Call], Awaitable[bytes]]) -> list[ServedResource]:
    """The resources in all versions; of each group the preferred version first. Raises ClusterError.

    fetch: returns the body of the answer to a call.
    """
    found: list[ServedResource] = []
    for path in ("/api", "/apis"):
        try:
            groups = _GROUPS.decode(await fetch(Call("GET", path, accept=_ACCEPT)))
        except UNREADABLE as error:
            raise ClusterError(f"the answer to GET {path} tells no resources: {error}") from error
        if groups.kind != "APIGroupDiscoveryList":
            raise ClusterError(f"GET {path} tells no resources at once; that takes Kubernetes 1.30 or later")
        found += [resource for group in groups.items or () for resource in _of_group(group)]
    return found


def _of_group(group: _Group) -> Iterator[ServedResource]:
    for version in group.versions or ():
        for resource in version.resources or ():
            if {"list", "create"} <= {*(resource.verbs or ())}:
                kind = resource.response_kind.kind if resource.response_kind else ""
                target = GroupVersionResource(group.metadata.name, version.version, resource.resource)
                yield ServedResource(target, kind, resource.scope == "Namespaced")
