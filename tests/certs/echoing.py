"""A TLS server that sends each line back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.patience import PATIENCE

from certs.serving import ServingContext


@asynccontextmanager
async def echoing(serving: ServingContext) -> AsyncIterator[int]:
    """Its port. At the end of the block it waits until the callers have closed their connections."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=serving.context)
    yield server.sockets[0].getsockname()[1]
    closed = asyncio.create_task(server.wait_closed())
    await asyncio.sleep(0)  # it begins before close(): after that Python 3.11 waits for no connection
    server.close()
    await asyncio.wait_for(closed, PATIENCE)
