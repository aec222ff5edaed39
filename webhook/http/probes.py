"""The health port, for kubelets and Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from webhook.http.paths import PATHS

Handler = Callable[[web.Request], Awaitable[web.Response]]


def application(livez: Handler, readyz: Handler, metrics: Handler, paths: Handler | None = None) -> web.Application:
    """An application with `/livez`, `/readyz` with its reasons, `/metrics`, and for replicas `/paths`."""
    app = web.Application()
    for path, handler in (("/livez", livez), ("/readyz", readyz), ("/metrics", metrics), (PATHS, paths)):
        if handler is not None:
            app.router.add_get(path, handler)
    return app
