"""Sends requests to the API server, using only the client's transport: its TLS, credentials and connections.

The client's generated classes would convert every object to a tree of Python objects. Here bodies stay bytes, and the
objects of lists and watches stay undecoded, because their types differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from aiohttp import ClientError, ClientPayloadError, ClientResponse, ClientTimeout

from webhook.cluster.api.errors import ApiError, ClusterError, UnreachableError
from webhook.cluster.api.objects import Metadata

if TYPE_CHECKING:
    import kubernetes.aio.client

    from webhook.cluster.api import client

# By name, because the client's 16 MB are paid by whoever connects.
ApiClient: TypeAlias = "kubernetes.aio.client.ApiClient"
Connection: TypeAlias = "client.Connection"


class _ListMetadata(Metadata, rename="camel"):
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int = 0


class Page(msgspec.Struct):
    """A list, or a part of one if its metadata has a continue token."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """A line of a watch. A bookmark's object has only a version; that of an error is a Status."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_PAGE = msgspec.json.Decoder(Page)
EVENT = msgspec.json.Decoder(WatchEvent)
# What decoding raises: ValueError if bytes are not UTF-8, RecursionError for too deep nesting.
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class Lines:
    """Splits a body that arrives in parts into lines.

    The response's own readline fails for lines over a limit (4 MiB with the client's buffers), so that a watch would
    fail at the same line forever. It also concatenates parts in quadratic time.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, part: bytes) -> list[bytes]:
        """The lines that a part completes."""
        *complete, rest = part.split(b"\n")
        lines = []
        for end in complete:
            lines.append(b"".join([*self._rest, end]))
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return lines


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def resource_path(api_version: str, resource: str, namespace: str = "", name: str = "") -> str:
    """The path of a list or of an object. namespace: empty for all, and for what is in none."""
    root = "/apis" if "/" in api_version else "/api"
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    end = f"/{quote(name, safe='')}" if name else ""
    return f"{root}/{quote(api_version)}{place}/{resource}{end}"


CONNECT_SECONDS = 10.0
# Enough for 500 large objects from a busy API server, whose own limit for a request is 60 s.
ANSWER_SECONDS = 65.0
_LONGEST_MESSAGE = 600  # an error's text may become part of a log line or an answer


class Call(msgspec.Struct, frozen=True):
    """A request. `path` must be quoted; `body` is sent as JSON.

    seconds: the time limit for the whole answer, None for an endless one. silence: the time limit for its next part.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    accept: str = "application/json"
    content_type: str = "application/json"
    body: Mapping[str, Any] | Sequence[Any] | None = None
    seconds: float | None = ANSWER_SECONDS
    silence: float | None = None


def merge(path: str, body: Mapping[str, Any], seconds: float, manager: str = "") -> Call:
    """The call that merges a body into an object. manager: the field manager, if it is not the default one."""
    query = (("fieldManager", manager),) if manager else ()
    return Call("PATCH", path, query, content_type="application/merge-patch+json", body=body, seconds=seconds)


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class Status(msgspec.Struct):
    """The body of the API server's answer to a failed request."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None
    metadata: _ListMetadata | None = None


_STATUS = msgspec.json.Decoder(Status)


async def fetch(api: ApiClient, call: Call) -> bytes:
    """The body of the answer to a call. Raises ClusterError."""
    async with opened(api, call) as response:
        return await response.read()


@asynccontextmanager
async def opened(api: ApiClient, call: Call) -> AsyncIterator[ClientResponse]:
    """The answer while its body arrives. Raises ApiError and UnreachableError, the latter also while it is read."""
    where = f"{call.method} {call.path} at {api.configuration.host}"
    untyped: Any = api  # these parts of the client have no type annotations
    try:
        method, url, headers, body, form = await untyped.param_serialize(
            call.method,
            call.path,
            query_params=list(call.query),
            header_params={"Accept": call.accept, "Content-Type": call.content_type},
            body=call.body,
            auth_settings=["BearerToken"],
        )
    except Exception as error:
        # Tokens are read again from time to time, from a file that may be gone or by a program that may fail.
        raise ClusterError(f"no credentials for {where}: {error}") from error
    timeout = ClientTimeout(total=call.seconds, sock_connect=CONNECT_SECONDS, sock_read=call.silence)
    try:
        answer = await untyped.call_api(method, url, headers, body, form, _request_timeout=timeout)
        response: ClientResponse = answer.response
        try:
            if response.status >= 400:
                raise refused(where, response.status, await response.read(), response.headers.get("Retry-After", ""))
            yield response
        finally:
            # The connection returns to the pool if the whole body was read; otherwise it is closed.
            response.close()
    except TimeoutError as error:
        raise UnreachableError(f"the API server did not answer {where} in time") from error
    except ClientPayloadError as error:
        raise UnreachableError(f"the API server's answer to {where} broke off") from error
    except (ClientError, OSError) as error:
        raise UnreachableError(
            f"the API server did not answer {where}: {str(error) or type(error).__name__}"
        ) from error


def refused(where: str, status: int, body: bytes, retry_after: str = "") -> ApiError:
    """The error for an answer, with the message in its body if that is a Status."""
    try:
        answer = _STATUS.decode(body)
    except UNREADABLE:
        answer = Status(message=body.decode("utf-8", "replace"))
    status = status or answer.code or 0
    words = " ".join((answer.message or answer.reason or "").split())[:_LONGEST_MESSAGE]
    seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
    if not seconds and answer.details is not None:
        seconds = answer.details.retry_after_seconds or 0.0
    more = answer.metadata.continue_ if answer.metadata is not None else ""
    return ApiError(f"the API server refused {where} ({status}{f': {words}' if words else ''})", status, seconds, more)


async def pages(
    api: ApiClient, path: str, query: tuple[tuple[str, str], ...], size: int, accept: str = "application/json"
) -> AsyncIterator[Page]:
    """The pages of a list, at least one, each with at most `size` objects; 0 for all in one. Raises ClusterError."""
    more = ""
    while True:
        page_query = (*((("limit", str(size)),) if size else ()), *((("continue", more),) if more else ()))
        page = page_of(await fetch(api, Call("GET", path, (*query, *page_query), accept)), path)
        yield page
        more = page.metadata.continue_
        if not more:
            return


def page_of(body: bytes, path: str) -> Page:
    """The page in the answer to the list at a path. Raises ClusterError."""
    try:
        return _PAGE.decode(body)
    except UNREADABLE as error:
        raise ClusterError(f"the answer to GET {path} is not a list: {error}") from error


_OBJECT = msgspec.json.Decoder(dict[str, Any])


def decoded(raw: msgspec.Raw | bytes, about: str) -> dict[str, Any]:
    """The decoded object. about: the call that was answered. Raises ClusterError."""
    try:
        return _OBJECT.decode(raw)
    except UNREADABLE as error:
        raise ClusterError(f"the answer to {about} cannot be read: {error}") from error


async def send(api: ApiClient, call: Call) -> dict[str, Any]:
    """The object in the answer to a call. Raises ClusterError."""
    return decoded(await fetch(api, call), f"{call.method} {call.path}")


async def one(api: ApiClient, path: str, seconds: float = ANSWER_SECONDS) -> dict[str, Any] | None:
    """The object at a path; None if there is none. Raises ClusterError."""
    try:
        return await send(api, Call("GET", path, seconds=seconds))
    except ApiError as error:
        if error.status == 404:
            return None
        raise


async def listed(
    api: ApiClient, path: str, query: tuple[tuple[str, str], ...] = (), accept: str = "application/json"
) -> list[dict[str, Any]]:
    """The objects of a list. query: selectors. Raises ClusterError; an ApiError with status 404 for no such kind."""
    return [
        decoded(raw, f"GET {path}") async for page in pages(api, path, query, 500, accept) for raw in page.items or ()
    ]


async def several(
    api: ApiClient, path: str, query: tuple[tuple[str, str], ...] = (), accept: str = "application/json"
) -> list[dict[str, Any]]:
    """The objects of a list; empty if the kind does not exist. Raises ClusterError."""
    try:
        return await listed(api, path, query, accept)
    except ApiError as error:
        if error.status == 404:
            return []
        raise


async def named(api: ApiClient, path: str, name: str, accept: str = "application/json") -> dict[str, Any] | None:
    """The object of a list with a name; None if there is none. It takes no right but to list. Raises ClusterError."""
    return next(iter(await several(api, path, (("fieldSelector", f"metadata.name={name}"),), accept)), None)
