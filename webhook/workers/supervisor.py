"""Runs several processes that share the port as one service: starts, restarts, checks and ends them.

The supervisor answers no reviews itself.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn

import structlog
from aiohttp import web
from msgspec import Struct
from yarl import URL

from webhook.cluster.api.clock import Backoff, Clock
from webhook.configuration.settings import Settings, SettingsError
from webhook.process import stop_signal
from webhook.sink import Sink
from webhook.version import VERSION
from webhook.workers.health import Roster
from webhook.workers.inventory import kept
from webhook.workers.worker import WorkerProcess

# With the pauses of Backoff and at least a second for each start, this takes about 15 s. By then, a file that was being
# replaced is complete; other problems need people.
DEATHS: Final = 5
# After a worker has lived for this many seconds, the pauses start again with the shortest.
STEADY: Final = 60.0
# The seconds that workers need to close, in addition to draining and grace.
MARGIN: Final = 5.0
# How long idle connections of the health port may take to close.
LAST_WAIT: Final = 0.5

# Returns the command line of a worker for its number and the path of its Unix socket for health.
Command = Callable[[int, Path], Sequence[str]]


class SupervisorError(Exception):
    """The service cannot start or go on; the text says why."""


class StartError(Exception):
    """The first worker could not start, and has logged the reason. code: its exit code, never 0."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the first worker ended with exit code {code}")
        self.code = code


class Pace(Struct, frozen=True):
    """Intervals in seconds.

    start: between attempts to reach a starting worker. look: between checks of a running worker; if it is killed, its
    counts since the last check are lost. hung: without an answer, until a worker is killed; a kubelet restarts after
    three probes, ten seconds apart.
    """

    start: float = 0.1
    look: float = 5.0
    hung: float = 30.0


_PACE: Final = Pace()
_CLOCK: Final = Clock()


async def supervise(settings: Settings, command: Callable[[int, Path, int], Sequence[str]], sink: Sink) -> None:
    """Serve with workers until SIGTERM or SIGINT. Raises SettingsError, StartError or SupervisorError.

    command: returns the command line of a worker for its number, its socket and the TLS port. sink: where the lines go
    that they log.
    """
    stopping = stop_signal()
    listen, health = settings.listen, settings.health
    async with AsyncExitStack() as stack:
        with _names(listen.host, listen.port):
            reserved = stack.enter_context(reserve(listen.host, listen.port))
        port = reserved.getsockname()[1]
        sockets = Path(stack.enter_context(TemporaryDirectory(prefix="cks-")))
        roster = Roster(listen.workers)
        roster.metrics.log = sink
        await stack.enter_async_context(kept(settings, roster, sockets))
        supervisor = Supervisor(roster, lambda number, path: command(number, path, port), sockets, sink.send)
        runner = web.AppRunner(roster.health_app(), access_log=None, shutdown_timeout=LAST_WAIT)
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        with _names(health.host, health.port):
            await web.TCPSite(runner, health.host, health.port).start()
        structlog.get_logger().info(
            "supervising", version=VERSION, workers=listen.workers, admission=_url("https", listen.host, port),
            health=_url("http", *runner.addresses[0][:2]),
        )  # fmt: skip
        await supervisor.run(stopping, listen.drain_seconds + listen.grace_seconds + MARGIN)
    structlog.get_logger().info("stopped")


class Supervisor:
    """Keeps the workers of a roster running.

    command: returns the command line of a worker. sockets: a directory for their sockets, which nobody else may enter.
    write: writes the lines that they log.
    """

    def __init__(
        self,
        roster: Roster,
        command: Command,
        sockets: Path,
        write: Callable[[bytes], object],
        *,
        pace: Pace = _PACE,
        clock: Clock = _CLOCK,
    ) -> None:
        self._roster = roster
        self._command = command
        self._sockets = sockets
        self._write = write
        self._pace = pace
        self._clock = clock
        self._log = structlog.get_logger()
        self._begun = asyncio.Event()  # worker 1 has started, so the others can start, too

    async def run(self, stopping: asyncio.Future[signal.Signals], within: float) -> None:
        """Keep the workers running until a signal arrives, then forward it and give them `within` seconds to end.

        Raises StartError if the first worker does not start, and SupervisorError if one ends repeatedly.
        """
        keeping = asyncio.create_task(self._keep_all())
        either: list[asyncio.Future[Any]] = [keeping, stopping]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        self._roster.draining = True
        if stopping.done():
            received = stopping.result()
            self._log.info("stopping", signal=received.name)
        else:
            received = signal.SIGTERM
            self._log.critical("giving up", reason=str(keeping.exception()))
        keeping.cancel()
        await asyncio.wait([keeping])  # otherwise a worker that is just being started would be overlooked
        await self._end(received, within)
        with suppress(asyncio.CancelledError):
            await keeping

    async def _keep_all(self) -> None:
        """Keep all workers running. The first starts alone, so that it reports configuration errors only once."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in self._roster.numbers:
                    group.create_task(self._keep(number))
                    await self._begun.wait()
        except* (StartError, SupervisorError) as failures:
            raise failures.exceptions[0] from None

    async def _keep(self, number: int) -> NoReturn:
        """Keep one worker running, one process after the other."""
        backoff = Backoff(self._clock)
        deaths = 0
        while True:
            worker = await self._live(number)
            if not self._begun.is_set():
                if worker.code > 0:
                    raise StartError(worker.code)
                raise SupervisorError(f"the first worker ended by {worker.ending()} before it served")
            deaths = 0 if worker.was_ready else deaths + 1
            if deaths == DEATHS:
                raise SupervisorError(
                    f"worker {number} ended {DEATHS} times in a row before it was ready, "
                    f"the last time by {worker.ending()}; its own messages say why"
                )
            if worker.age >= STEADY:
                backoff.reset()
            await backoff.wait()
            self._roster.metrics.worker_restarts.inc()

    async def _live(self, number: int) -> WorkerProcess:
        """Start a worker and look after it until it has ended."""
        path = self._sockets / str(number)
        path.unlink(missing_ok=True)
        try:
            worker = await WorkerProcess.start(self._command(number, path), path, self._write)
        except OSError as error:
            raise SupervisorError(f"worker {number} cannot be started: {error.strerror or error}") from None
        self._roster.enter(number, worker)
        self._log.info("worker started", worker=number, pid=worker.pid)
        while not await worker.ends(self._pace.look if worker.answered else self._pace.start):
            await self._look(number, worker)
        self._roster.leave(number, worker)
        self._log.error(
            "worker ended", worker=number, pid=worker.pid, reason=worker.ending(), seconds=round(worker.age, 1)
        )
        return worker

    async def _look(self, number: int, worker: WorkerProcess) -> None:
        if not worker.was_ready:
            await worker.ready()
        if not worker.answered:
            return  # a start may take any time
        self._begun.set()
        await worker.count()
        if worker.silence >= self._pace.hung and worker.running:
            self._log.error("worker hangs", worker=number, pid=worker.pid, seconds=round(worker.silence, 1))
            worker.signal(signal.SIGKILL)
            await worker.ends()  # it may take a while to die, and needs no more checks

    async def _end(self, received: signal.Signals, within: float) -> None:
        """Forward the signal, and kill the remaining workers after `within` seconds."""
        running = {number: worker for number, worker in self._roster.workers() if worker.running}
        for worker in running.values():
            worker.signal(received)
        await asyncio.gather(*(worker.ends(within) for worker in running.values()))
        for number, worker in running.items():
            if worker.running:
                self._log.error(
                    "worker killed", worker=number, pid=worker.pid, reason=f"still there after {within:g} s"
                )
                worker.signal(signal.SIGKILL)
        await asyncio.gather(*(worker.ends() for worker in running.values()))


def reserve(host: str, port: int) -> socket.socket:
    """A socket that reserves a port for the service's processes; 0 means any free port.

    It gets no connections itself, because it does not listen.

    Raises SettingsError if the system cannot share ports, and OSError if this port is not free. Another process that
    shares the port counts, too, because it would get some of the connections.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise SettingsError("listen.workers: this system has no SO_REUSEPORT, by which processes share a port; use 1")
    family, _, _, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]  # fmt: skip
    _bound_socket(family, address, socket.SO_REUSEADDR).close()  # fails if another process has the port
    return _bound_socket(family, address, socket.SO_REUSEADDR, socket.SO_REUSEPORT)


def _bound_socket(family: socket.AddressFamily, address: Any, *options: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in options:
            made.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:  # as in asyncio, where :: and 0.0.0.0 are two addresses
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


@contextmanager
def _names(host: str, port: int) -> Iterator[None]:
    """Add to errors which port could not be opened."""
    try:
        yield
    except OSError as error:
        problem = f"{error.strerror or error}; is another process using it?"
        raise SupervisorError(f"cannot listen on {host}:{port}: {problem}") from None


def _url(scheme: str, host: str, port: int) -> str:
    return str(URL.build(scheme=scheme, host=host, port=port))
