"""What `doctor` reads, and what it makes of what cannot be read."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest
from support.patience import PATIENCE

from certs.material import new_authority
from certs.serving import ServingContext
from webhook.cluster.api.errors import ApiError, ClusterError, UnreachableError
from webhook.cluster.inspection.examination import tried
from webhook.cluster.replicas.pods import certificates
from webhook.doctor.observation import Unread

_NOW = datetime.now(UTC)


@asynccontextmanager
async def _listening(said: bytes = b"", context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A port for one caller."""
    ended = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        with suppress(OSError):
            await reader.read()  # until the client has gone
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
    finally:
        server.close()


async def test_the_whole_chain_is_read() -> None:
    """What a server shows is taken as it is, trusted or not, leaf first."""
    authority = new_authority(_NOW)
    leaf = authority.issue(["svc.cloud.svc"], _NOW)
    serving = ServingContext()
    serving.swap(leaf.cert_pem + authority.cert_pem, leaf.key_pem)

    async with _listening(context=serving.context) as port:
        shown = await certificates("127.0.0.1", port, "svc.cloud.svc", PATIENCE)

    assert shown == (leaf.certificate, authority.certificate)


async def test_who_speaks_no_tls() -> None:
    """An answer that is none, and no answer at all, are each a reason."""
    async with _listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        with pytest.raises(UnreachableError, match=r"^no TLS: WRONG_VERSION_NUMBER$"):
            await certificates("127.0.0.1", port, "localhost", PATIENCE)
    async with _listening() as port:
        with pytest.raises(UnreachableError, match=r"^no answer within 0 s$"):
            await certificates("127.0.0.1", port, "localhost", 0.1)
    with pytest.raises(UnreachableError, match=r"^the connection was refused$"):
        await certificates("127.0.0.1", port, "localhost", PATIENCE)


def test_a_server_that_says_no_farewell() -> None:
    """It is not waited for, and its connection is closed all the same."""
    leaf = new_authority(_NOW).issue(["localhost"], _NOW)
    serving = ServingContext()
    serving.swap(leaf.cert_pem, leaf.key_pem)
    ended = threading.Event()

    def serve(listening: socket.socket) -> None:
        with serving.context.wrap_socket(listening.accept()[0], server_side=True):
            ended.wait(PATIENCE)

    with socket.create_server(("127.0.0.1", 0)) as listening, warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always")
        server = threading.Thread(target=serve, args=[listening])
        server.start()
        try:
            asyncio.run(certificates("127.0.0.1", listening.getsockname()[1], "localhost", PATIENCE))
        finally:
            ended.set()
            server.join()
        gc.collect()

    assert [str(each.message) for each in left_open] == []


async def _raising(error: Exception | None) -> str:
    if error is not None:
        raise error
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    return await never


@pytest.mark.parametrize(
    ("error", "unread"),
    [
        pytest.param(ApiError("forbidden", 403), Unread("forbidden", "list things"), id="a right is missing"),
        pytest.param(ApiError("broken", 500), Unread("broken"), id="the API server fails"),
        pytest.param(ClusterError("unreadable"), Unread("unreadable"), id="no object"),
        pytest.param(None, Unread("no answer within 0 s"), id="no answer"),
    ],
)
async def test_what_cannot_be_read_is_an_answer(error: Exception | None, unread: Unread) -> None:
    """Only where a right is missing, the right is named; no read takes for ever."""
    assert await tried(_raising(error), "list things", PATIENCE if error else 0.01) == unread
