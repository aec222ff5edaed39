"""The health port, for kubelets, Prometheus and `manage`: readiness with its reasons, metrics, paths."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST
from yarl import URL

from policies.engine.violation import prose
from webhook.configuration.settings import Health
from webhook.metrics import Metrics

BACKLOG = 1024
# How long connections may take to close after the last call.
LAST_WAIT = 0.5
# A gate returns the reasons why the process is not ready.
Gate = Callable[[], Iterable[str]]


class Readiness:
    """The gates on which readiness depends, and notes beside it.

    draining: whether the process is about to end. was_ready: whether it has ever been found ready.
    """

    def __init__(self, gates: Mapping[str, Gate] | None = None, notes: Mapping[str, Gate] | None = None) -> None:
        self.draining = False
        self.was_ready = False
        self._gates = dict(gates or {})
        self._notes = dict(notes or {})

    def add_gate(self, name: str, gate: Gate) -> None:
        """Make readiness depend on a gate."""
        self._gates[name] = gate

    def add_note(self, name: str, note: Gate) -> None:
        """Show notes with readiness that do not make the process unready."""
        self._notes[name] = note

    def notes(self) -> list[str]:
        """Problems that do not make the process unready, a line for each."""
        return [f"{name}: {reason}" for name, note in self._notes.items() for reason in note()]

    def unready(self) -> list[str]:
        """Why the process is not ready, a line for each reason; empty when it is."""
        reasons = [f"{name}: {reason}" for name, gate in self._gates.items() for reason in gate()]
        self.was_ready = self.was_ready or not reasons
        return ["draining: the service is shutting down", *reasons] if self.draining else reasons


PATHS: Final = "/paths"
"""The path on the health port at which a replica lists them, as a JSON array."""

Handler = Callable[[web.Request], Awaitable[web.Response]]


def application(readiness: Readiness, measures: Metrics, paths: Handler | None = None) -> web.Application:
    """An application with `/livez`, `/readyz` with its reasons, `/metrics`, and for replicas `/paths`."""

    async def livez(_http: web.Request) -> web.Response:
        """Answer, which shows that the process is alive."""
        return web.Response(text="ok\n")

    async def readyz(_http: web.Request) -> web.Response:
        """Whether the process is ready, and the reasons if not."""
        reasons = readiness.unready()
        lines = "".join(prose(f"- {line}\n") for line in (*reasons, *readiness.notes()))
        return web.Response(status=503 if reasons else 200, text=("not ready\n" if reasons else "ok\n") + lines)

    async def exposition(_http: web.Request) -> web.Response:
        """The metrics, for Prometheus."""
        return web.Response(body=measures.expose(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})

    app = web.Application()
    for path, handler in (("/livez", livez), ("/readyz", readyz), ("/metrics", exposition), (PATHS, paths)):
        if handler is not None:
            app.router.add_get(path, handler)
    return app


class PortError(Exception):
    """A port cannot be opened; the text says which one and why."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {error.strerror or error}; is another process using it?")


@asynccontextmanager
async def opened(app: web.Application, settings: Health) -> AsyncIterator[str]:
    """The health port, open during the block: its URL. Raises PortError."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=LAST_WAIT)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.port, backlog=BACKLOG).start()
    except OSError as error:
        await runner.cleanup()
        raise PortError(settings.host, settings.port, error) from None
    try:
        yield address("http", *runner.addresses[0][:2])
    finally:
        await runner.cleanup()


def address(scheme: str, host: str, port: int) -> str:
    """The URL of a socket's address, usable in a client."""
    return str(URL.build(scheme=scheme, host=host, port=port))
