"""A small API server whose Pods can be opened by JSON Patches, as the placer does."""

from __future__ import annotations

import json
from collections import Counter

import jsonpatch
from aiohttp import web
from support.api.fakeapi import GuardedApi, Json, _respond, status
from support.gangs.world import RACK, World

from policies.topology.placement import GATE
from webhook.cluster.placer.gatekeeper import CHANGED

NODES, PODS, JOBS = "/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs"
EVENTS = "/api/v1/namespaces/team/events"


class PodApi(GuardedApi):
    """An API server with Pods, Events and Leases.

    patches: how often each Pod was to be patched. unanswered: names of Pods whose next patch is carried out, and
    answered as if it was not known whether it is. refused: the answer to every patch, if there is one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patches: Counter[str] = Counter()
        self.unanswered: set[str] = set()
        self.refused: tuple[int, str] | None = None

    def load(self, world: World) -> None:
        """Take the objects of a small cluster."""
        self.install("batch", {"v1": {"jobs": "Job"}})
        for path, objects in ((NODES, world.nodes), (JOBS, world.roots), (PODS, world.pods)):
            for obj in objects.values():
                self.put(path, json.loads(json.dumps(obj)))

    def pod(self, name: str) -> Json | None:
        """A Pod as it is stored."""
        return self._objects[PODS].get(("team", name))

    def racks(self) -> dict[str, str]:
        """The racks that are required of opened Pods, by their names; empty for Pods behind the gate."""
        found = {}
        for (_, name), pod in self._objects[PODS].items():
            gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]
            text = json.dumps(pod["spec"].get("affinity", {}).get("nodeAffinity", {}))
            found[name] = "" if GATE in gates else text.partition(f'"{RACK}", "operator": "In", "values": ["')[2][:1]
        return found

    def events(self, reason: str = "") -> list[str]:
        """The messages of the Events with a reason, in the order in which they were written."""
        events = [json.loads(seen.body) for seen in self.seen if seen.method == "POST" and seen.path == EVENTS]
        return [event["message"] for event in events if event["reason"] == reason]

    def bookmark(self) -> None:
        """Prove to the watches that nothing has changed."""
        for path in (NODES, PODS):
            self.send(path, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}})

    async def _single(self, request: web.Request, body: bytes) -> web.Response:
        _, _, name = request.path.rpartition("/")
        if request.method == "GET" and request.path.endswith("/pods"):
            wanted = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
            found = self.pod(wanted)
            return _respond(200, {"metadata": {"resourceVersion": "1"}, "items": [found] if found else []})
        if request.method == "PATCH" and request.content_type == "application/json-patch+json":
            return self._patched(name, json.loads(body))
        return await super()._single(request, body)

    def _patched(self, name: str, patch: list[Json]) -> web.Response:
        self.patches[name] += 1
        pod = self.pod(name)
        if pod is None:
            return _respond(404, status(404, f'pods "{name}" not found'))
        if self.refused is not None:
            return _respond(self.refused[0], status(*self.refused))
        try:
            changed = jsonpatch.apply_patch(pod, patch)
        except jsonpatch.JsonPatchException as error:
            return _respond(422, status(422, CHANGED, reason="Invalid", details={"cause": str(error)}))
        self.put(PODS, changed)
        if name in self.unanswered:
            self.unanswered.discard(name)
            return _respond(504, status(504, "etcdserver: request timed out"))
        return _respond(200, changed)
