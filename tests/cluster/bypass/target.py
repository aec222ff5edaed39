"""The objects with a label at one place each, and what the API server says of their kinds: what is tried with them."""

from __future__ import annotations

import json
from copy import deepcopy
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from cluster.objects import DISCOVERY, Resource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.client import HTTPResponse

    from cluster.apicalls import Caller
    from cluster.manifests import Manifest


class Kind(NamedTuple):
    """A kind in one version. versions: the same kind in the other ones."""

    resource: Resource
    subresources: tuple[str, ...]
    versions: tuple[Resource, ...]


def kinds(caller: Caller) -> dict[tuple[str, str], Kind]:
    """Every kind that is served, by apiVersion and kind."""
    result: dict[tuple[str, str], Kind] = {}
    for root in ("/api", "/apis"):
        for item in caller.send("GET", root, accept=DISCOVERY).body["items"]:
            result |= _of_group(root, item)
    return result


def of(known: Mapping[tuple[str, str], Kind], manifest: Manifest) -> Kind:
    """The kind of an object."""
    return known[manifest["apiVersion"], manifest["kind"]]


def _of_group(root: str, item: Manifest) -> dict[tuple[str, str], Kind]:
    group = item["metadata"].get("name", "")
    rows: list[tuple[Resource, tuple[str, ...]]] = []
    for version in item["versions"]:
        path = f"{root}/{group}/{version['version']}" if group else f"{root}/{version['version']}"
        for told in version["resources"]:
            resource = Resource(path, told["resource"], told["responseKind"]["kind"], told["scope"] == "Namespaced")
            rows.append((resource, tuple(each["subresource"] for each in told.get("subresources", ()))))
    return {
        (resource.api_version, resource.kind): Kind(
            resource, subresources, tuple(o for o, _ in rows if o.kind == resource.kind and o.root != resource.root)
        )
        for resource, subresources in rows
    }


RESERVED = "foo.coreweave.cloud/bar"
# As long as the reserved key, so that one can take the place of the other in a body of any encoding.
ORDINARY = "foo.coreweavexcloud/bar"
BEFORE = "foo.coreweave-cloud/bar"


class Reply(NamedTuple):
    """The HTTP status and the bytes of an answer."""

    code: int
    content: bytes

    @property
    def done(self) -> bool:
        """Whether the API server accepted the request."""
        return self.code < HTTPStatus.BAD_REQUEST


class Target:
    """One object that alice tries to write, with one key that she wants in it."""

    def __init__(self, caller: Caller, kind: Kind, manifest: Manifest, key: str) -> None:
        self._caller = caller
        self._manifest = manifest
        self.kind = kind
        self.key = key
        metadata = manifest["metadata"]
        self.name: str = metadata["name"]
        self.all = kind.resource.path(metadata.get("namespace", ""))
        self.one = f"{self.all}/{self.name}"

    @property
    def wanted(self) -> Manifest:
        """The object with the key."""
        return deepcopy(self._manifest)

    @property
    def before(self) -> Manifest:
        """The object with a harmless key in its place."""
        before: Manifest = json.loads(json.dumps(self._manifest).replace(self.key, BEFORE))
        return before

    def changed(self, resource: Resource, metadata: Manifest) -> Target:
        """The same object as another version has it, with further metadata."""
        manifest = self.wanted | {"apiVersion": resource.api_version}
        manifest["metadata"] |= metadata
        return Target(self._caller, self.kind._replace(resource=resource), manifest, self.key)

    def make(self) -> bool:
        """Make the object with the harmless key. Returns whether there is one to change now."""
        return self.send("POST", self.all, self.before).done

    def stored(self) -> Manifest:
        """The object as it is stored; empty if there is none."""
        response, content = self._caller.exchange("GET", self.one, b"")
        stored: Manifest = json.loads(content) if response.status == HTTPStatus.OK else {}
        return _unmanaged(stored) if stored else {}

    def all_stored(self) -> list[Manifest]:
        """The stored objects whose names begin with that of the target: what `generateName` makes as well."""
        items = self._caller.send("GET", self.all).body["items"]
        return [_unmanaged(item) for item in items if item["metadata"]["name"].startswith(self.name)]

    def send(self, method: str, path: str, body: Any, content_type: str = "application/json") -> Reply:
        """Send a JSON body as alice."""
        return self.send_bytes(method, path, json.dumps(body).encode(), content_type)

    def send_bytes(self, method: str, path: str, content: bytes, content_type: str = "application/json") -> Reply:
        """Send any body as alice."""
        response, said = self._caller.exchange(method, path, content, content_type, user="alice")
        return Reply(response.status, said)

    def encoded(self, media_type: str) -> Reply:
        """The stored object in another encoding, with the key instead of the harmless one."""
        return self._swapped(*self._caller.exchange("GET", self.one, b"", accept=media_type))

    def encoded_anew(self, media_type: str) -> Reply:
        """The same of an object that is not stored yet."""
        content = json.dumps(self.before).encode()
        return self._swapped(*self._caller.exchange("POST", f"{self.all}?dryRun=All", content, accept=media_type))

    def _swapped(self, response: HTTPResponse, content: bytes) -> Reply:
        return Reply(response.status, content.replace(BEFORE.encode(), self.key.encode()))

    def delete(self) -> None:
        """Remove what is stored, as the administrator."""
        for item in self.all_stored():
            options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
            self._caller.send("DELETE", f"{self.all}/{item['metadata']['name']}", options)


def _unmanaged(manifest: Manifest) -> Manifest:
    """The object without its managed fields: they name labels that were never written."""
    manifest["metadata"].pop("managedFields", None)
    return manifest


# So that no Pods come of what is written.
_STILL: dict[str, Manifest] = {
    "DaemonSet": {"updateStrategy": {"type": "OnDelete"}},
    "CronJob": {"suspend": True},
    "Job": {"suspend": True},
    **{key: {"replicas": 0} for key in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")},
}


def read(namespace: str, key: str) -> dict[str, dict[str, Manifest]]:
    """The objects of places.yaml in a Namespace, each with the key."""
    text = (Path(__file__).parents[1] / "places.yaml").read_text(encoding="utf-8")
    # Each object is another one, and none shares a part with others.
    rows = yaml.safe_load(text.replace("NAMESPACE", namespace).replace("KEY", key))
    found: dict[str, dict[str, Manifest]] = json.loads(json.dumps(rows))
    return found


def places(namespace: str, key: str) -> dict[str, Manifest]:
    """The objects by their place, each with the key. Names are still to be given."""
    rows = read(namespace, key)
    found = {**rows["own"], **rows["copied"]}
    for row in found.values():
        row.pop("path", None)
        if spec := _STILL.get(row["kind"]):
            row["spec"] |= spec
    return found
