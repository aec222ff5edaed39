"""HTTP/1.1 by hand, for calls that no regular client would make."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import NamedTuple

from support.patience import PATIENCE

JSON = b"Content-Type: application/json\r\n"


class Reply(NamedTuple):
    """An answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def closes(self) -> bool:
        """Whether the server said that it closes the connection."""
        return self.headers.get("connection") == "close"


def head(path: str = "/validate", length: int | None = None, headers: bytes = JSON, method: str = "POST") -> bytes:
    """The head of a call; without a length its body is chunked."""
    size = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode() + headers + size + b"\r\n\r\n"


class Wire:
    """One connection. Everything on it is bounded in time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, sent: bytes) -> None:
        """Send bytes."""
        self._writer.write(sent)
        async with asyncio.timeout(PATIENCE):
            await self._writer.drain()

    async def reply(self, *, has_body: bool = True) -> Reply:
        """The next answer, whole."""
        async with asyncio.timeout(PATIENCE):
            first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
            pairs = (line.split(": ", 1) for line in lines)
            headers = {name.lower(): value for name, value in pairs}
            body = await self._reader.readexactly(int(headers["content-length"]) if has_body else 0)
        return Reply(int(first.split()[1]), headers, body)

    async def call(self, body: bytes, path: str = "/validate", headers: bytes = JSON) -> Reply:
        """Send a body and wait for its answer."""
        await self.send(head(path, len(body), headers) + body)
        return await self.reply()

    def shown(self) -> str:
        """The fingerprint (SHA-256) of the server's certificate."""
        connection: ssl.SSLObject = self._writer.get_extra_info("ssl_object")
        certificate = connection.getpeercert(binary_form=True)
        return sha256(certificate or b"").hexdigest()

    async def ended(self) -> bool:
        """Wait until the server closes the connection. Returns whether it did so without another byte."""
        async with asyncio.timeout(PATIENCE):
            return await self._reader.read() == b""


@asynccontextmanager
async def connected(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    """A connection to a port of this machine."""
    name = "localhost" if context else None
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()
