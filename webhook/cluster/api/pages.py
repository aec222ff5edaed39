"""Lists of objects, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.api.wire import PAGE, UNREADABLE, Page

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


async def pages(
    api: ApiClient, path: str, query: tuple[tuple[str, str], ...], size: int, accept: str = "application/json"
) -> AsyncIterator[Page]:
    """The pages of a list, at least one, each with at most `size` objects; 0 for all in one. Raises ClusterError."""
    more = ""
    while True:
        page_query = (*((("limit", str(size)),) if size else ()), *((("continue", more),) if more else ()))
        body = await fetch(api, Call("GET", path, (*query, *page_query), accept))
        try:
            page = PAGE.decode(body)
        except UNREADABLE as error:
            raise ClusterError(f"the answer to GET {path} is not a list: {error}") from error
        yield page
        more = page.metadata.continue_
        if not more:
            return
