"""The health port, for kubelets and Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.Response]]


def application(livez: Handler, readyz: Handler, metrics: Handler) -> web.Application:
    """An application with `/livez`, `/readyz` with its reasons, and `/metrics`."""
    app = web.Application()
    for path, handler in (("/livez", livez), ("/readyz", readyz), ("/metrics", metrics)):
        app.router.add_get(path, handler)
    return app
