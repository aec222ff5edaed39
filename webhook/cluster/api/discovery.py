"""Finds out which kinds the API server serves, and at what paths.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#unaggregated-discovery
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import msgspec
import structlog

from policies.admissionpolicy.evaluation.parameters import KindScope
from policies.admissionpolicy.model import ParamKind
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.clock import Backoff, Clock
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.wire import UNREADABLE

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

T = TypeVar("T")


class ServedKind(msgspec.Struct, frozen=True):
    """A kind that is served: `root` is `/api/v1` or `/apis/GROUP/VERSION`, `resource` its plural name."""

    root: str
    resource: str
    scope: KindScope

    def path(self, namespace: str) -> str:
        """The path for lists of objects in a namespace, or of all objects."""
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self.root}{place}/{self.resource}"


class _Version(msgspec.Struct):
    version: str


class _Group(msgspec.Struct, rename="camel"):
    versions: list[_Version]
    preferred_version: _Version | None = None


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


_GROUP = msgspec.json.Decoder(_Group)
_RESOURCES = msgspec.json.Decoder(_Resources)


async def versions(api: ApiClient, group: str) -> tuple[str, ...]:
    """The served versions of a group, the API server's preferred one first; none if it does not serve the group.

    Raises ClusterError.
    """
    if not group:
        return ("v1",)  # the core group has no such document
    document = await _read(api, f"/apis/{quote(group, safe='')}", _GROUP, "a group")
    if document is None:
        return ()
    preferred = (document.preferred_version,) if document.preferred_version else ()
    return tuple(dict.fromkeys(version.version for version in (*preferred, *document.versions)))


async def kinds(api: ApiClient, api_version: str) -> Mapping[str, ServedKind]:
    """The kinds of `v1` or `GROUP/VERSION` by name; none if the version is not served. Raises ClusterError."""
    root = f"/apis/{quote(api_version)}" if "/" in api_version else f"/api/{quote(api_version)}"
    document = await _read(api, root, _RESOURCES, "a list of resources")
    served: dict[str, ServedKind] = {}
    for resource in (document and document.resources) or ():
        if "/" not in resource.name:  # with a slash, it is a subresource
            scope: KindScope = "Namespaced" if resource.namespaced else "Cluster"
            served.setdefault(resource.kind, ServedKind(root, resource.name, scope))
    return served


async def places(api: ApiClient, group: str, names: Iterable[str]) -> dict[str, ServedKind]:
    """The served kinds of a group, each in the first version that has it. Raises ClusterError."""
    served: dict[str, ServedKind] = {}
    for version in await versions(api, group):
        if missing := set(names) - served.keys():
            there = await kinds(api, f"{group}/{version}" if group else version)
            served |= {kind: there[kind] for kind in missing & there.keys()}
    return served


async def find(api: ApiClient, kind: ParamKind) -> ServedKind | None:
    """The served kind; None if it is not served. Raises ClusterError."""
    return (await kinds(api, kind.api_version)).get(kind.kind)


class Discovery:
    """Asks the API server whether something is served, and retries until it answers.

    problem: why the last attempt failed; None if it succeeded.
    """

    def __init__(self, about: str, clock: Clock) -> None:
        self.problem: str | None = None
        self._about = about
        self._backoff = Backoff(clock)
        self._log = structlog.get_logger()

    @property
    def waiting(self) -> str:
        """The message before the first answer."""
        reason = self.problem or "waiting for the API server"
        return f"{self._about}: not known yet whether it is served: {reason}"

    def problems(self) -> list[str]:
        """The problem, with its subject; empty if there is none."""
        return [f"{self._about}: {self.problem}"] if self.problem else []

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """The answer to a question, which raises ClusterError if it has none."""
        while True:
            try:
                answer = await question()
            except ClusterError as error:
                self.problem = str(error)
                self._log.warning("discovery failed", about=self._about, reason=self.problem)
                await self._backoff.wait(error.retry_after)
            else:
                self.problem = None
                self._backoff.reset()
                return answer


async def _read(api: ApiClient, path: str, decoder: msgspec.json.Decoder[T], what: str) -> T | None:
    """The decoded document at a path; None if it does not exist. Raises ClusterError."""
    try:
        return decoder.decode(await fetch(api, Call("GET", path)))
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    except UNREADABLE as error:
        raise ClusterError(f"the answer to GET {path} is not {what}: {error}") from error
