"""The baseline: the minimum that an admission webhook in Python does. `python -m benchmarks.echo CERT KEY PORT`.

It decodes the whole review into plain Python and allows it. It uses aiohttp, uvloop and msgspec like the service, but
has no rules, metrics, logs or deadlines.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import sys

import msgspec
import uvloop
from aiohttp import web

from benchmarks.bodies import TOLERATION

_PATCH = base64.b64encode(msgspec.json.encode([{"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION}]))


async def answer(http: web.Request) -> web.Response:
    """Allow the request, at /patch with the toleration."""
    review = msgspec.json.decode(await http.read())
    response = {"uid": review["request"]["uid"], "allowed": True}
    if http.path == "/patch":
        response |= {"patchType": "JSONPatch", "patch": _PATCH.decode()}
    body = msgspec.json.encode({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
    return web.Response(body=body, content_type="application/json")


async def serve(cert: str, key: str, port: int) -> None:
    """Serve over TLS on a port of 127.0.0.1 until the process ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_post("/mutate", answer)
    app.router.add_post("/validate", answer)
    app.router.add_post("/patch", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
