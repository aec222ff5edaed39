"""A worker process as its supervisor sees it, from its start to its end."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from aiohttp import ClientError, ClientSession, ClientTimeout, UnixConnector

from webhook.http.paths import PATHS

# Time limits of answers in seconds. A kubelet waits one second for readiness, Prometheus ten for metrics.
_READY = 0.8
_COUNT = 5.0
_CHUNK = 64 * 1024


class Reply(NamedTuple):
    """A worker's answer about itself."""

    status: int
    body: bytes


class WorkerProcess:
    """A process that was started and may have ended.

    answered: whether it has ever answered, so that its start is over. was_ready: whether it was ever ready. metrics:
    its last metrics.
    """

    def __init__(self, process: Process, socket: Path, write: Callable[[bytes], object]) -> None:
        self.answered = False
        self.was_ready = False
        self.metrics = b""
        self._loop = asyncio.get_running_loop()
        self._started = self._heard = self._loop.time()
        self._process = process
        self._session = ClientSession(connector=UnixConnector(str(socket), force_close=True))
        self._end = asyncio.create_task(self._last(write))

    @classmethod
    async def start(cls, command: Sequence[str], socket: Path, write: Callable[[bytes], object]) -> Self:
        """Start a worker with a Unix socket for its health. `write` gets its stderr in whole lines.

        It has its own session, so that Ctrl-C on a terminal reaches only the supervisor, which ends it gracefully. Its
        standard input ends when the supervisor does.
        """
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stderr=PIPE, start_new_session=True)
        return cls(process, socket, write)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._end.done()

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return self._loop.time() - self._started

    @property
    def silence(self) -> float:
        """Seconds since it last answered, or since its start."""
        return self._loop.time() - self._heard

    @property
    def code(self) -> int:
        """The exit code after its end; negative for the signal that killed it."""
        assert self._process.returncode is not None  # noqa: S101 - asked for after the end
        return self._process.returncode

    def ending(self) -> str:
        """A description of how it ended."""
        if self.code >= 0:
            return f"exit code {self.code}"
        name = signal.Signals(-self.code).name
        return f"{name}, perhaps for lack of memory" if name == "SIGKILL" else name

    async def ends(self, within: float | None = None) -> bool:
        """Wait for its end, at most `within` seconds. Return whether it has ended."""
        await asyncio.wait([self._end], timeout=within)
        return self._end.done()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ready(self) -> Reply | None:
        """Its answer about readiness; None if there is none in time."""
        reply = await self._ask("/readyz", _READY)
        self.was_ready = self.was_ready or (reply is not None and reply.status == 200)
        return reply

    async def paths(self) -> Reply | None:
        """Its answer about the paths at which it answers reviews; None if there is none in time."""
        return await self._ask(PATHS, _READY)

    async def count(self) -> bool:
        """Ask for its metrics, and store them. Return whether it answered in time."""
        reply = await self._ask("/metrics", _COUNT)
        if reply is None or reply.status != 200:
            return False
        self.metrics = reply.body
        return True

    async def _ask(self, path: str, within: float) -> Reply | None:
        if self._session.closed:
            return None
        try:
            async with self._session.get(f"http://worker{path}", timeout=ClientTimeout(total=within)) as response:
                reply = Reply(response.status, await response.read())
        except (ClientError, OSError, TimeoutError):
            return None
        self.answered = True
        self._heard = self._loop.time()
        return reply

    async def _last(self, write: Callable[[bytes], object]) -> None:
        """Forward its output until it has ended and everything is read."""
        assert self._process.stderr is not None  # noqa: S101 - a pipe was asked for
        await _relay(self._process.stderr, write)
        await self._process.wait()
        await self._session.close()


async def _relay(stream: asyncio.StreamReader, write: Callable[[bytes], object]) -> None:
    """Write whole lines, because long lines of several processes on one pipe would get mixed."""
    rest = b""
    while chunk := await stream.read(_CHUNK):
        lines, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline:
            write(lines + newline)
    if rest:
        write(rest + b"\n")
