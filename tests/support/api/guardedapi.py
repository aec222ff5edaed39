"""The small API server with optimistic locking, like the real one: nobody overwrites a version not read before."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web
from support.api.fakeapi import FakeApi, Json, status


class GuardedApi(FakeApi):
    """Creates what does not exist, and replaces what is still in the version that the writer read.

    written: method, path and body of the writes that were accepted, in their order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str, str, Json]] = []

    async def _single(self, request: web.Request, body: bytes) -> web.Response:
        if request.method not in ("POST", "PUT"):
            return await super()._single(request, body)
        if self.held is not None:
            await self.held.wait()
        item: Json = json.loads(body)
        path = request.path if request.method == "POST" else request.path.rpartition("/")[0]
        found = self.get(path, item["metadata"]["name"])
        if refusal := _refusal(request.method, item, found):
            return web.json_response(refusal, status=refusal["code"])
        item["metadata"].pop("namespace", None)  # it is in the path, by which objects are found here
        self.put(path, item)
        self.written.append((request.method, request.path, item))
        return web.json_response(item, status=201 if request.method == "POST" else 200)


def _refusal(method: str, item: Json, found: Any) -> Json | None:
    name = item["metadata"]["name"]
    if method == "POST":
        return status(409, f'"{name}" already exists', reason="AlreadyExists") if found else None
    if found is None:
        return status(404, f'"{name}" not found', reason="NotFound")
    if item["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
        return status(409, f'the object "{name}" has been modified', reason="Conflict")
    return None
