"""Opens the ports of a process, and closes them without dropping a review."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web
from yarl import URL

from webhook.http.entrance import BACKLOG, Crowd, Site
from webhook.http.state import ServingState
from webhook.tls.certificates import Certificates

# How long connections may take to close after the last review.
LAST_WAIT = 0.5
# The longest time from accepting a connection to its review. A TLS handshake takes milliseconds, on a busy host tenths
# of a second.
HANDSHAKE_SECONDS = 0.5


class PortError(Exception):
    """A port cannot be opened; the text says which one and why."""


async def listen(runner: web.AppRunner, host: str, port: int) -> None:
    """Open the health port. Raises PortError."""
    await runner.setup()
    await _start(runner, web.TCPSite(runner, host, port, backlog=BACKLOG), host, port)


async def listen_for_calls(
    runner: web.ServerRunner, address: tuple[str, int], certificates: Certificates, crowd: Crowd
) -> None:
    """Open the TLS port. Raises PortError."""
    await runner.setup()
    await _start(runner, Site(runner, address, certificates.serving.context, crowd), *address)


async def _start(runner: web.BaseRunner, site: web.BaseSite, host: str, port: int) -> None:
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        problem = f"{error.strerror or error}; is another process using it?"
        raise PortError(f"cannot listen on {host}:{port}: {problem}") from None


def address(scheme: str, runner: web.BaseRunner) -> str:
    """The URL at which a runner listens, usable in a client."""
    host, port = runner.addresses[0][:2]
    return str(URL.build(scheme=scheme, host=host, port=port))


async def finish(admission: web.ServerRunner, state: ServingState, seconds: float) -> None:
    """Close the port, and wait for the reviews in flight and on connections that were just accepted.

    aiohttp's own clean-up is not used, because it drops the rest of a handshake or of a body.
    """
    for site in list(admission.sites):
        await site.stop()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            quiet = 0.0
            while quiet < HANDSHAKE_SECONDS:
                await asyncio.sleep(0.01)
                quiet = 0.0 if state.in_flight else quiet + 0.01
