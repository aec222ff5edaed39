"""The health port, for kubelets and Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web

from webhook import metrics
from webhook.http.paths import PATHS
from webhook.http.readiness import Readiness
from webhook.metrics import Metrics

Handler = Callable[[web.Request], Awaitable[web.Response]]


def application(readiness: Readiness, measures: Metrics, paths: Handler | None = None) -> web.Application:
    """An application with `/livez`, `/readyz` with its reasons, `/metrics`, and for replicas `/paths`."""

    async def livez(_http: web.Request) -> web.Response:
        """Answer, which shows that the process is alive."""
        return web.Response(text="ok\n")

    async def readyz(_http: web.Request) -> web.Response:
        """Whether the process is ready, and the reasons if not."""
        reasons = readiness.unready()
        lines = "".join(f"- {line}\n" for line in (*reasons, *readiness.notes()))
        return web.Response(status=503 if reasons else 200, text=("not ready\n" if reasons else "ok\n") + lines)

    async def exposition(_http: web.Request) -> web.Response:
        """The metrics, for Prometheus."""
        return web.Response(body=measures.expose(), headers={hdrs.CONTENT_TYPE: metrics.CONTENT_TYPE})

    app = web.Application()
    for path, handler in (("/livez", livez), ("/readyz", readyz), ("/metrics", exposition), (PATHS, paths)):
        if handler is not None:
            app.router.add_get(path, handler)
    return app
