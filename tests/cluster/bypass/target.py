"""An object with a label at one place, as it is before an attempt and as the attempt would have it."""

from __future__ import annotations

import json
from copy import deepcopy
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from cluster.apicalls import Caller
    from cluster.bypass.kinds import Kind
    from cluster.manifests import Manifest
    from cluster.objects import Resource

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
        return _reply(*self._caller.exchange(method, path, content, content_type, user="alice"))

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


def _reply(response: HTTPResponse, content: bytes) -> Reply:
    return Reply(response.status, content)
