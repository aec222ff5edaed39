"""Lists objects of a whole cluster without harm to it: page by page, and slowly; and the policies of the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Literal

from policies.engine.request import JsonObject, mapping
from webhook.cluster.api.call import ApiClient, Call, Page, decoded, fetch, page_of
from webhook.cluster.api.clock import Backoff, Clock
from webhook.cluster.api.discovery import ServedResource
from webhook.cluster.api.errors import ApiError, UnreachableError
from webhook.cluster.facts.workloads import ACCEPT
from webhook.registration.resources import ADMISSION

PAGE_SIZE: Final = 200
"""Objects per request. A page of Nodes with their images has some 5 MB."""
_ATTEMPTS: Final = 8
_WHOLE: Final = "application/json"


class Lister:
    """Sends requests by `api`, so many in a second at most. When the API server asks for time, it gets it."""

    def __init__(self, api: ApiClient, qps: float, clock: Clock | None = None, size: int = PAGE_SIZE) -> None:
        self.api = api
        self._clock = clock or Clock()
        self._pause = 1 / qps
        self._next = 0.0
        self._size = size

    async def objects(
        self, resource: ServedResource, namespace: str = "", *, metadata: bool = False, labels: str = ""
    ) -> AsyncIterator[JsonObject]:
        """The objects of a resource, with apiVersion and kind. metadata: whether that is all that is read of them.

        The API server lists objects by their keys, so that a list whose token has expired goes on after the last one.
        labels: a selector. Raises ClusterError.
        """
        path = resource.path(namespace)
        token, after, skips = "", "", False
        while True:
            try:
                page = await self._page(path, token, ACCEPT if metadata else _WHOLE, labels=labels)
            except ApiError as error:
                if error.status != 410 or not token:
                    raise
                token, skips = error.more, bool(after)  # empty: from the beginning
                continue
            for raw in page.items or []:
                obj = {**decoded(raw, f"GET {path}"), "apiVersion": resource.api_version}
                key = _key(obj)
                if skips and key.encode() <= after.encode():
                    continue
                skips, after = False, key
                yield {**obj, "kind": resource.kind}
            token = page.metadata.continue_
            if not token:
                return

    async def count(self, resource: ServedResource, namespace: str = "") -> int:
        """How many objects there are, by a page of one. Raises ClusterError."""
        page = await self._page(resource.path(namespace), "", ACCEPT, size=1)
        return len(page.items or ()) + page.metadata.remaining_item_count

    async def metadata(self, resource: ServedResource, namespace: str, name: str) -> JsonObject | None:
        """The metadata of an object; None if it is not there or may not be read. Raises ClusterError."""
        path = resource.path(namespace, name)
        try:
            body = await self.answer(Call("GET", path, accept=ACCEPT.replace("MetadataList", "Metadata")))
        except ApiError as error:
            if error.status in (403, 404):
                return None
            raise
        return decoded(body, f"GET {path}")

    async def all(self, path: str) -> list[JsonObject]:
        """All objects of a short list, without apiVersion and kind. Raises ClusterError."""
        objects: list[JsonObject] = []
        token = ""
        while True:
            page = await self._page(path, token, _WHOLE)
            objects += [decoded(raw, f"GET {path}") for raw in page.items or ()]
            token = page.metadata.continue_
            if not token:
                return objects

    async def _page(self, path: str, token: str, accept: str, size: int = 0, labels: str = "") -> Page:
        more = (("continue", token), ("labelSelector", labels))
        query = (("limit", str(size or self._size)), *(pair for pair in more if pair[1]))
        return page_of(await self.answer(Call("GET", path, query, accept)), path)

    async def answer(self, call: Call) -> bytes:
        """The answer to a call. 429 is waited out; other failures of the API server are tried again a few times.

        Raises ClusterError.
        """
        backoff, failures = Backoff(self._clock), 0
        while True:
            now = self._clock.monotonic()
            wait, self._next = self._next - now, max(self._next, now) + self._pause
            if wait > 0:
                await self._clock.sleep(wait)
            try:
                return await fetch(self.api, call)
            except (ApiError, UnreachableError) as error:
                failures += error.status != 429
                if (0 < error.status < 500 and error.status != 429) or failures >= _ATTEMPTS:
                    raise
                await backoff.wait(error.retry_after)


def _key(obj: JsonObject) -> str:
    """The key by which the API server sorts objects of a kind."""
    metadata = mapping(obj, "metadata")
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata.get('name')}" if namespace else str(metadata.get("name"))


Form = Literal["validating", "mutating"]
VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
"""The versions of mutating policies, the newest first: Kubernetes 1.36, 1.34 and 1.32."""


async def served_policies(
    read: Callable[[str], Awaitable[list[JsonObject]]], form: Form
) -> tuple[str, list[JsonObject], list[JsonObject]]:
    """The newest version that is served, and its policies and bindings. read: lists a path. Raises ClusterError."""
    for version in VERSIONS:
        root = f"/apis/{ADMISSION}/{version}/{form}admissionpolic"
        try:
            return version, await read(f"{root}ies"), await read(f"{root}ybindings")
        except ApiError as error:
            if error.status != 404:
                raise
    return "", [], []
