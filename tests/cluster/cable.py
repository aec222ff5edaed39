"""A connection to the API server that can be cut."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.controlplane import ControlPlane


class Cable:
    """A connection to the API server that can be cut: what is open breaks, and nothing new gets through.

    kubeconfig: of who uses it, by default the administrator.
    """

    def __init__(self, control_plane: ControlPlane, kubeconfig: Path | None = None) -> None:
        host, _, port = control_plane.server.removeprefix("https://").partition(":")
        self._target = host, int(port)
        chosen = kubeconfig or control_plane.kubeconfig("admin")
        self._content = yaml.safe_load(chosen.read_text(encoding="utf-8"))
        self._open: set[asyncio.StreamWriter] = set()
        self.cut = False

    async def plugged(self, path: Path, stack: AsyncExitStack) -> Path:
        """Listen, and write a kubeconfig that leads here."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        stack.callback(self.sever)
        stack.callback(server.close)
        self._content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.to_thread(path.write_text, yaml.safe_dump(self._content), encoding="utf-8")
        return path

    def sever(self) -> None:
        """Break what is open."""
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:  # it restarts
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        await asyncio.gather(_copied(reader, far_writer), _copied(far_reader, writer))
        self._open -= {writer, far_writer}


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.close()
