"""A way to the API server on which some requests are answered with 429 once, as by one that has too many."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Self

import yaml
from aiohttp import ClientConnectionError, ClientSession, TCPConnector, web

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path
    from types import TracebackType

    from cluster.controlplane import ControlPlane

SECONDS = 1
"""How long whoever is refused is asked to wait."""


class Throttle:
    """The way, from `async with` to the end of the block, for an account with a token.

    refused: the first request for each of these paths is refused. times: when these were asked for.
    """

    def __init__(self, control_plane: ControlPlane, account: Path, refused: Collection[str]) -> None:
        self._server, self._refused = control_plane.server, refused
        self._content = yaml.safe_load(account.read_text(encoding="utf-8"))
        self._context = ssl.create_default_context(cafile=str(control_plane.ca_file))
        self.times: dict[str, list[float]] = {}

    async def __aenter__(self) -> Self:
        """Listen."""
        self._session = ClientSession(connector=TCPConnector(ssl=self._context))
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        _, port, *_ = self._runner.addresses[0]
        self._content["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close everything."""
        await self._runner.cleanup()
        await self._session.close()

    def kubeconfig(self, path: Path) -> Path:
        """Write the kubeconfig that leads this way."""
        path.write_text(yaml.safe_dump(self._content), encoding="utf-8")
        return path

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        times = self.times.setdefault(request.path, []) if request.path in self._refused else []
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1 and request.path in self._refused:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "message": "too many"}
            return web.json_response(status, status=429, headers={"Retry-After": str(SECONDS)})
        headers = {name: request.headers[name] for name in ("Accept", "Authorization")}
        async with self._session.get(f"{self._server}{request.path_qs}", headers=headers) as answer:
            kept = {"Content-Type": answer.headers["Content-Type"]}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            try:
                async for part in answer.content.iter_any():
                    await response.write(part)
            except ClientConnectionError:
                return response  # whoever watched has gone
            return response
