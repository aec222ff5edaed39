"""Single reads of a cluster. A failure is a result, too: what could not be read, and the missing right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from policies.engine.request import JsonObject
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.pages import pages
from webhook.cluster.api.wire import UNREADABLE
from webhook.doctor.observation import Read, Unread

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

T = TypeVar("T")

SECONDS = 7.0
"""The time limit of a read."""

_PAGE = 500
_OBJECT = msgspec.json.Decoder(dict[str, Any])


async def tried(reading: Awaitable[T], right: str, seconds: float = SECONDS) -> Read[T]:
    """The result of a read, or why it failed. right: the required right, such as `list nodes`."""
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        return Unread(f"no answer within {seconds:.0f} s")
    except ApiError as error:
        return Unread(str(error), right if error.status == 403 else "")
    except ClusterError as error:
        return Unread(str(error))


async def one(api: ApiClient, path: str) -> JsonObject | None:
    """The object at a path; None if there is none. Raises ClusterError."""
    try:
        return await send(api, Call("GET", path))
    except ApiError as error:
        if error.status == 404:
            return None
        raise


async def several(
    api: ApiClient, path: str, query: tuple[tuple[str, str], ...] = (), accept: str = "application/json"
) -> list[JsonObject]:
    """The objects of a list; empty if the kind does not exist. query: selectors. Raises ClusterError."""
    try:
        return await listed(api, path, query, accept)
    except ApiError as error:
        if error.status == 404:
            return []
        raise


async def listed(
    api: ApiClient, path: str, query: tuple[tuple[str, str], ...] = (), accept: str = "application/json"
) -> list[JsonObject]:
    """The objects of a list. Raises ClusterError; an ApiError with status 404 if the kind does not exist."""
    return [decoded(raw, path) async for page in pages(api, path, query, _PAGE, accept) for raw in page.items or ()]


async def send(api: ApiClient, call: Call) -> JsonObject:
    """The object in the answer to a call. Raises ClusterError."""
    return decoded(msgspec.Raw(await fetch(api, call)), call.path)


def decoded(raw: msgspec.Raw, path: str) -> JsonObject:
    """The decoded object. Raises ClusterError."""
    try:
        return _OBJECT.decode(raw)
    except UNREADABLE as error:
        raise ClusterError(f"the answer to GET {path} cannot be read: {error}") from error
