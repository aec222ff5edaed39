"""The ports of a process: opened, named, and closed without dropping a review."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web
from yarl import URL

from webhook.http.state import ServingState
from webhook.tls.certificates import Certificates

BACKLOG = 1024
# How long connections may take to close once nothing is in flight any more.
LAST_WAIT = 0.5
# How long it may take from a connection that was accepted to the review that comes by it: a TLS handshake takes
# milliseconds, and tenths of a second on a busy host.
HANDSHAKE_SECONDS = 0.5
# sun_path of unix(7) has 108 bytes, and 104 on other systems, with the zero at its end.
LONGEST_SOCKET = 103


class PortError(Exception):
    """A port that cannot be opened; the text says which and why."""


async def listen(
    runner: web.BaseRunner, host: str, port: int, certificates: Certificates | None = None, *, shared: bool = False
) -> None:
    """Open a port, one that other workers open too where it is shared. Raises PortError."""
    await runner.setup()
    context = certificates.serving.context if certificates else None
    try:
        await web.TCPSite(runner, host, port, ssl_context=context, backlog=BACKLOG, reuse_port=shared).start()
    except OSError as error:
        await runner.cleanup()
        problem = f"{error.strerror or error}; is another process using it?"
        raise PortError(f"cannot listen on {host}:{port}: {problem}") from None


async def listen_at(runner: web.BaseRunner, path: str) -> None:
    """Open a Unix socket. Raises PortError."""
    await runner.setup()
    try:
        await web.UnixSite(runner, path).start()
    except OSError as error:
        await runner.cleanup()
        hint = "; set TMPDIR to a shorter path" if len(path) > LONGEST_SOCKET else ""
        raise PortError(f"cannot listen on {path}: {error.strerror or error}{hint}") from None


def address(scheme: str, runner: web.BaseRunner) -> str:
    """Where a runner listens, as a URL that can be put into a client as it is."""
    address_ = runner.addresses[0]
    if isinstance(address_, str):
        return f"unix:{address_}"
    host, port = address_[:2]
    return str(URL.build(scheme=scheme, host=host, port=port))


async def finish(admission: web.ServerRunner, state: ServingState, seconds: float) -> None:
    """Close the port, and wait for the reviews in flight, and for those whose connections were just being made.

    Not left to aiohttp's own clean-up: that drops what still arrives of a handshake or of a body.
    """
    for site in list(admission.sites):
        await site.stop()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            quiet = 0.0
            while quiet < HANDSHAKE_SECONDS:
                await asyncio.sleep(0.01)
                quiet = 0.0 if state.in_flight else quiet + 0.01
