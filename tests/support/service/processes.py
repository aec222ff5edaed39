"""The real service in a separate process, on ports of 127.0.0.1."""

import asyncio
import json
import os
import signal
import socket
import ssl
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml
from support.builders import Json
from support.packmodes import OFF
from support.patience import PATIENCE, until
from support.service.commands import COMMAND
from support.service.reviews import answer_of
from support.service.wire import Reply, Wire, connected, head

from certs.plan import replace_file

_HOST = "127.0.0.1"


@contextmanager
def free_port() -> Iterator[int]:
    """A port that nobody listens on. Within the block no other process is given it, and the service can open it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((_HOST, 0))
        yield int(held.getsockname()[1])


def replace(file: Path, content: str | bytes) -> None:
    """Replace a file's content in one step, so that a process that follows it never reads a part."""
    replace_file(file, content.encode() if isinstance(content, str) else content, 0o600)


class Service:
    """One process of `cks-admission serve`; it ends, if need be by force, with the block it is used in.

    settings: sections of the configuration that differ from quick defaults. VERB, BEGUN: of another kind of process.
    """

    VERB, BEGUN = "serve", "serving"

    def __init__(self, directory: Path, *arguments: str, **settings: Json) -> None:
        self.certs = directory / "certs"
        self._config = directory / "cks.yaml"
        self._arguments = arguments
        quick: dict[str, Json] = {
            "listen": {"host": _HOST, "port": 0, "drainSeconds": 0.5},
            "health": {"host": _HOST, "port": 0},
            "tls": {"directory": str(self.certs), "checkSeconds": 0.05},
            "log": {"format": "json"},
            "packs": dict(OFF),
        }
        merged = {section: {**quick.get(section, {}), **settings.get(section, {})} for section in {**quick, **settings}}
        self._config.write_text(yaml.safe_dump(merged), encoding="utf-8")
        self.events: list[Json] = []
        self.noise: list[str] = []
        self._process: Process | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        command = [str(COMMAND), self.VERB, "--config", str(self._config), *self._arguments]
        environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        self._process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, env=environment)
        reading = asyncio.create_task(self._read())
        self._stack.push_async_callback(asyncio.wait, [reading])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        assert self.process.stdout is not None
        await self.process.stdout.read()  # child processes hold it too, and may end after it
        await self._stack.aclose()

    async def _read(self) -> None:
        """Read the process' log: events, and other lines."""
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            line = raw.decode().rstrip("\n")
            if line.startswith("{"):
                self.events.append(json.loads(line))
            else:
                self.noise.append(line)

    @property
    def process(self) -> Process:
        """The process, once it has been started."""
        assert self._process is not None
        return self._process

    async def event(self, name: str, count: int = 1) -> Json:
        """Wait for an event of this name, the first one by default."""
        ended = self.process
        await until(lambda: len(self._named(name)) >= count or ended.returncode is not None)
        found = self._named(name)
        assert len(found) >= count, f"ended with {ended.returncode}: {self.events[-3:]} {self.noise[-3:]}"
        return found[count - 1]

    def _named(self, name: str) -> list[Json]:
        return [event for event in self.events if event["event"] == name]

    async def port(self) -> int:
        """The TLS port, once it is open."""
        return int((await self.event("serving"))["admission"].rpartition(":")[2])

    async def ask(self, path: str) -> Reply:
        """A probe of the health port."""
        port = int((await self.event(self.BEGUN))["health"].rpartition(":")[2])
        async with connected(port) as wire:
            await wire.send(head(path, 0, method="GET"))
            return await wire.reply()

    async def shows(self, text: str, path: str = "/metrics") -> Reply:
        """Wait until a page of the health port has a text; the page."""
        async with asyncio.timeout(PATIENCE):
            while text not in (reply := await self.ask(path)).text:
                pass
        return reply

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Wire]:
        """A connection to the TLS port."""
        async with connected(await self.port(), self.context()) as wire:
            yield wire

    async def answer(self, sent: bytes, path: str = "/validate") -> Json:
        """The answer to a review on a connection of its own."""
        async with self.connection() as wire:
            return answer_of((await wire.call(sent, path)).body)

    def context(self) -> ssl.SSLContext:
        """Trust in the service's own CA."""
        return ssl.create_default_context(cafile=self.certs / "ca-bundle.crt")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    async def ended(self, within: float = PATIENCE) -> int:
        """Wait for the end of the process; its exit code."""
        async with asyncio.timeout(within):
            return await self.process.wait()


async def until_closed(port: int) -> None:
    """Wait until no process listens on a port any more."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with connected(port):
                    await asyncio.sleep(0.01)
            except ConnectionRefusedError:
                return
            except ConnectionResetError:
                continue  # it was closed while this connection was being made
