"""Where the API server has the objects of a kind, if it has any."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from policies.admissionpolicy.model import ParamKind
from policies.admissionpolicy.params import KindScope
from webhook.cluster.call import Call, fetch
from webhook.cluster.errors import ApiError, ClusterError
from webhook.cluster.wire import UNREADABLE

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


class ServedKind(msgspec.Struct, frozen=True):
    """A kind that is served: `root` is `/api/v1` or `/apis/GROUP/VERSION`, `resource` its name in plural."""

    root: str
    resource: str
    scope: KindScope

    def path(self, namespace: str) -> str:
        """Where objects are listed: those of a namespace, or all."""
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self.root}{place}/{self.resource}"


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


_RESOURCES = msgspec.json.Decoder(_Resources)


async def find(api: ApiClient, kind: ParamKind) -> ServedKind | None:
    """Where the objects of a kind are, None where it is not served. Raises ClusterError.

    https://kubernetes.io/docs/concepts/overview/kubernetes-api/#unaggregated-discovery
    """
    version = quote(kind.api_version)
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        found = _RESOURCES.decode(await fetch(api, Call("GET", root)))
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    except UNREADABLE as error:
        raise ClusterError(f"the answer to GET {root} is not a list of resources: {error}") from error
    for each in found.resources or ():
        if each.kind == kind.kind and "/" not in each.name:  # with a slash it is a subresource
            return ServedKind(root, each.name, "Namespaced" if each.namespaced else "Cluster")
    return None
