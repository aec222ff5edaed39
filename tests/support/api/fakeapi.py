"""A small API server on 127.0.0.1: lists in pages, watches, single objects, apply, delete, and failures on demand."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from aiohttp import web
from support.patience import PATIENCE

from policies.kubernetes.release import NEWEST
from policies.suite import merge_patch

NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
RESOURCE_GROUP = "/apis/resource.k8s.io"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"

_END = b""  # what ends a watch; nothing that is written is empty
_CUT = b"\0"  # what breaks its connection

Json = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Failure:
    """Overrides the answers to requests for a path that have all of `query`. method: empty for any."""

    path: str
    status: int
    body: Json | str
    times: int
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    method: str = ""

    def concerns(self, request: web.Request) -> bool:
        """Whether it applies to this request, and is not used up."""
        is_meant = self.path == request.path and self.method in ("", request.method)
        return bool(self.times) and is_meant and self.query.items() <= dict(request.query).items()


def status(code: int, message: str = "", **more: Any) -> Json:
    """A Status object."""
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code, **more}


def named(name: str, labels: Mapping[str, str] | None = None, namespace: str = "", **fields: Any) -> Json:
    """An object."""
    metadata: Json = {"name": name, "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:metadata": {}}}]}
    if namespace:
        metadata["namespace"] = namespace
    if labels is not None:
        metadata["labels"] = dict(labels)
    return {"metadata": metadata, **fields}


class FakeApi:
    """The server. Objects are put and deleted by the test; every write is an event for the watches."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self.failures: list[Failure] = []
        self.groups: dict[str, Json] = {"/version": {"gitVersion": f"v{NEWEST.proven}"}}
        self.expired: Literal["status", "event"] | None = None  # how the next watch is told that its version is gone
        self.version = 100
        self.held: asyncio.Event | None = None  # while it is there and not set, single objects are not answered
        self.slow: set[str] = set()  # paths at which nothing is answered
        self._objects: dict[str, dict[tuple[str, str], Json]] = defaultdict(dict)
        self._history: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self._watches: dict[str, list[asyncio.Queue[bytes]]] = defaultdict(list)
        self._watched = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the server and all open connections."""
        for path in list(self._watches):
            self.end(path)
        if self._runner is not None:
            await self._runner.cleanup()

    def put(self, path: str, item: Json) -> None:
        """Add an object or change one."""
        key = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
        change = "MODIFIED" if key in self._objects[path] else "ADDED"
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self._objects[path][key] = item
        self._happened(path, {"type": change, "object": item})

    def delete(self, path: str, name: str, namespace: str = "") -> None:
        """Delete an object."""
        item = self._objects[path].pop((namespace, name))
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self._happened(path, {"type": "DELETED", "object": item})

    def get(self, path: str, name: str) -> Json | None:
        """An object as it is stored."""
        return self._objects[path].get(("", name))

    def send(self, path: str, line: bytes | Json) -> None:
        """Write a line to the open watches, valid or not."""
        for watch in self._watches[path]:
            watch.put_nowait((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")

    def end(self, path: str) -> None:
        """End the open watches regularly, as after their timeout."""
        for watch in self._watches.pop(path, []):
            watch.put_nowait(_END)

    def deafen(self, path: str) -> None:
        """Send nothing more to the open watches, as over a connection that died unnoticed."""
        self._watches.pop(path, None)

    def cut(self, path: str) -> None:
        """Break the connections of the open watches."""
        for watch in self._watches.pop(path, []):
            watch.put_nowait(_CUT)

    def fail(self, path: str, code: int, body: Json | str, *, times: int = 1, **more: Any) -> None:
        """Answer requests for a path with an error, as often as given."""
        self.failures.append(Failure(path, code, body, times, **more))

    def install(self, group: str, versions: Mapping[str, Mapping[str, str]], *, namespaced: bool = True) -> None:
        """Serve these versions of a group, the first of which is preferred, each with kinds by their plurals."""
        self._forget(group)
        if group:
            listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
            self.groups[f"/apis/{group}"] = {"versions": listed, "preferredVersion": listed[0]}
        for version, kinds in versions.items():
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            resources = [
                {"name": f"{plural}{part}", "kind": kind, "namespaced": namespaced}
                for part in ("/status", "")
                for plural, kind in kinds.items()
            ]
            self.groups[root] = {"kind": "APIResourceList", "resources": resources}
            for plural in kinds:
                self.failures = [failure for failure in self.failures if failure.path != f"{root}/{plural}"]
                self._objects[f"{root}/{plural}"] = {}

    def install_devices(self, version: str = "v1") -> None:
        """Serve claims of devices, in one version."""
        names = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
        plurals = {f"{kind.lower()}{'es' if kind.endswith('s') else 's'}": kind for kind in names}
        self.install(RESOURCE_GROUP.removeprefix("/apis/"), {version: plurals})

    def uninstall(self, group: str) -> None:
        """Stop serving a group: first its objects go, then their watches."""
        self._forget(group)
        for path in [path for path in self._objects if path.startswith(f"/apis/{group}/")]:
            for namespace, name in list(self._objects[path]):
                self.delete(path, name, namespace)
            del self._objects[path]
            self.fail(path, 404, "404 page not found", times=9999)
            self.end(path)

    def _forget(self, group: str) -> None:
        root = f"/apis/{group}/" if group else "/api/v1/"
        self.groups = {path: body for path, body in self.groups.items() if not f"{path}/".startswith(root)}

    async def watched(self, path: str, watches: int = 1) -> None:
        """Wait until so many watches are open."""
        async with asyncio.timeout(PATIENCE), self._watched:
            await self._watched.wait_for(lambda: len(self._watches[path]) >= watches)

    def lists(self, path: str) -> list[dict[str, str]]:
        """The queries of the list requests for a path."""
        return [seen.query for seen in self.seen if seen.path == path and "watch" not in seen.query]

    def watches(self, path: str) -> list[dict[str, str]]:
        """The queries of the watch requests for a path."""
        return [seen.query for seen in self.seen if seen.path == path and "watch" in seen.query]

    def _happened(self, path: str, event: Json) -> None:
        line = json.dumps(event).encode()
        self._history[path].append((self.version, line))
        self.send(path, line)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(Seen(request.method, request.path, dict(request.query), request.headers, body))
        if request.path in self.slow:
            await asyncio.Event().wait()
        for failure in self.failures:
            if failure.concerns(request):
                failure.times -= 1
                return _respond(failure.status, failure.body, failure.headers)
        if request.path in self.groups:
            return _respond(200, self.groups[request.path])
        if request.method == "GET" and "watch" in request.query:
            return await self._watch(request)
        if request.method == "GET" and request.path in self._objects:
            return self._list(request)
        return await self._single(request, body)

    async def _single(self, request: web.Request, body: bytes) -> web.Response:
        path, _, name = request.path.rpartition("/")
        if self.held is not None:
            await self.held.wait()
        if request.method == "POST":
            self.put(request.path, json.loads(body))
            return _respond(201, json.loads(body))
        if request.method == "PATCH":
            merging = request.content_type == "application/merge-patch+json"
            before = self._objects[path].get(("", name)) if merging else None
            self.put(path, merge_patch(before, json.loads(body)))
        found = self._objects[path].get(("", name)) if path in self._objects else None
        if found is None:
            return _respond(404, status(404, f'"{name}" not found'))
        if request.method == "DELETE":
            self.delete(path, name)
            return _respond(200, {"kind": "Status", "status": "Success"})
        return _respond(200, found)

    def _list(self, request: web.Request) -> web.Response:
        if int(request.query.get("resourceVersion", "0")) > self.version:
            return _respond(504, status(504, "Too large resource version", details={"retryAfterSeconds": 1}))
        items = list(self._objects[request.path].values())
        if request.query.get("fieldSelector") == "spec.nodeName=":
            items = [item for item in items if not item.get("spec", {}).get("nodeName")]
        if "as=PartialObjectMetadataList" in request.headers["Accept"]:
            items = [{"metadata": item["metadata"]} for item in items]
        start = int(request.query.get("continue", "0"))
        end = start + int(request.query.get("limit", len(items)))
        metadata: Json = {"resourceVersion": str(self.version)}
        if end < len(items):
            metadata["continue"] = str(end)
        return _respond(200, {"metadata": metadata, "items": items[start:end]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        path, since = request.path, int(request.query["resourceVersion"])
        expired, self.expired = self.expired, None
        if expired == "status":
            return _respond(410, status(410, "too old resource version"))
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if expired == "event":
            event = {"type": "ERROR", "object": status(410, "too old resource version")}
            await response.write(json.dumps(event).encode() + b"\n")
            return response
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        for version, line in self._history[path]:
            if version > since:
                queue.put_nowait(line + b"\n")
        self._watches[path].append(queue)
        async with self._watched:
            self._watched.notify_all()
        while (line := await queue.get()) != _END:
            if line == _CUT:
                assert request.transport is not None
                request.transport.abort()
                break
            await response.write(line)
        return response


def _respond(code: int, body: Json | str, headers: Mapping[str, str] | None = None) -> web.Response:
    if isinstance(body, str):
        return web.Response(status=code, text=body, headers=headers)
    return web.json_response(body, status=code, headers=headers)


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
