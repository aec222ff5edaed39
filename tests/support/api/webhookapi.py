"""The small API server, which applies, merges and replaces webhook configurations as the real one does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from aiohttp import web
from support.api.fakeapi import MUTATING, VALIDATING, FakeApi, Json, status

PATHS = {"MutatingWebhookConfiguration": MUTATING, "ValidatingWebhookConfiguration": VALIDATING}
POLICIES = {
    kind: f"/apis/admissionregistration.k8s.io/v1/{plural}"
    for kind, plural in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    )
}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/cks-admission/leases"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
NAME = "cks-admission"


class WebhookApi(FakeApi):
    """Server-side apply for one manager: what it applied before and not now goes, what others added stays."""

    def __init__(self) -> None:
        super().__init__()
        self._applied: dict[tuple[str, str], Json] = {}
        self._uids = 0
        self._objects |= {path: {} for path in (*PATHS.values(), *POLICIES.values(), ROLES, LEASES)}

    def configuration(self, kind: str) -> Json:
        """A copy of the only configuration of a kind, to be changed and put."""
        found: Json = json.loads(json.dumps(self.get(PATHS[kind], NAME)))
        return found

    def writes(self) -> list[tuple[str, str]]:
        """Method and kind of each write of a webhook configuration."""
        kinds = {f"{path}/{NAME}": kind for kind, path in PATHS.items()}
        return [(seen.method, kinds[seen.path]) for seen in self.seen if seen.method != "GET" and seen.path in kinds]

    def put(self, path: str, item: Json) -> None:
        """Give a new object a uid."""
        if "uid" not in item["metadata"]:
            self._uids += 1
            item["metadata"]["uid"] = f"uid-{self._uids}"
        super().put(path, item)

    async def _single(self, request: web.Request, body: bytes) -> web.Response:
        path, _, name = request.path.rpartition("/")
        is_policy = path in POLICIES.values() and request.content_type == "application/apply-patch+yaml"
        if is_policy:
            self.put(path, {**(self.get(path, name) or {}), **json.loads(body)})
        if is_policy or path not in PATHS.values() or request.method not in ("PATCH", "PUT"):
            return web.json_response(self.get(path, name)) if is_policy else await super()._single(request, body)
        if self.held is not None:
            await self.held.wait()
        found, given = self.get(path, name), json.loads(body)
        if request.content_type == "application/merge-patch+json":
            return await super()._single(request, body) if found else _refused(404, f'"{name}" not found')
        if request.method == "PUT":
            if found is None or found["metadata"]["resourceVersion"] != given["metadata"]["resourceVersion"]:
                return _refused(409, "the object has been modified")
            given = _without_empty_conditions(given)
        else:
            if given["metadata"].pop("uid", "") not in ("", (found or given)["metadata"].get("uid")):
                return _refused(409, "uid mismatch")
            given, self._applied[path, name] = merged(found, given, self._applied.get((path, name), {})), given
        if any({"url", "service"} <= entry["clientConfig"].keys() for entry in given["webhooks"]):
            return _refused(422, "webhooks[0].clientConfig: exactly one of url or service is required")
        if given != found:
            self.put(path, json.loads(json.dumps(given)))
        return web.json_response(self.get(path, name))


def merged(found: Json | None, given: Json, before: Json) -> Json:
    """The result of an apply. Maps are merged, as are lists whose items have names; other values are replaced."""
    if found is None:
        return _without_empty_conditions(given)
    metadata = _map(found["metadata"], given["metadata"], before.get("metadata", {}))
    for place in ("labels", "annotations"):
        metadata[place] = _map(*(each.get("metadata", {}).get(place, {}) for each in (found, given, before)))
    metadata["ownerReferences"] = _items(
        "uid", *(each.get("metadata", {}).get("ownerReferences", []) for each in (found, given, before))
    )
    entries: list[Json] = []
    old, new, was = (_named(each.get("webhooks", [])) for each in (found, given, before))
    for name in old | new:
        if name not in new:
            entries += [] if name in was else [old[name]]
            continue
        there, last = old.get(name, {}), was.get(name, {})
        entry = _map(there, new[name], last)
        versions = (there, new[name], last)
        entry["clientConfig"] = _map(*(each.get("clientConfig", {}) for each in versions))
        entry["matchConditions"] = _items("name", *(each.get("matchConditions", []) for each in versions))
        entries.append(entry)
    return _without_empty_conditions({**found, "metadata": metadata, "webhooks": entries})


def _map(found: Json, given: Json, before: Json) -> Json:
    return {**{key: value for key, value in found.items() if key in given or key not in before}, **given}


def _items(key: str, found: list[Json], given: list[Json], before: list[Json]) -> list[Json]:
    own = {each[key] for each in (*given, *before)}
    return [*given, *(each for each in found if each[key] not in own)]


def _named(items: Iterable[Json]) -> dict[str, Json]:
    return {item["name"]: item for item in items}


def _without_empty_conditions(configuration: Json) -> Json:
    """As it is stored: an empty list is left out."""
    for entry in configuration["webhooks"]:
        if not entry.get("matchConditions"):
            entry.pop("matchConditions", None)
    return configuration


def _refused(code: int, message: str) -> web.Response:
    answer: dict[str, Any] = status(code, message)
    return web.json_response(answer, status=code)
