"""Follows and writes a Secret whose contents all replicas share. A write requires the version that was read."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from webhook.cluster.api.call import Call, Connection, fetch, resource_path
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ApiError
from webhook.cluster.api.objects import FollowedResource, WholeObject, name_of, whole
from webhook.cluster.watches.reflector import Cache, Following, Reflector, cancelled

# These labels help people find the service's objects. Labels that others set are kept.
_LABELS = {"app.kubernetes.io/name": "cks-admission", "app.kubernetes.io/managed-by": "cks-admission"}
_SECONDS = 15.0


class _Known(Struct, frozen=True):
    content: Mapping[str, Any]
    stored: Mapping[str, bytes]


class SecretStore(Following):
    """One Secret as a store for files. title: its name in messages. changed: set when it may have changed."""

    def __init__(
        self,
        api: Connection,
        namespace: str,
        name: str,
        clock: Clock | None = None,
        *,
        changed: asyncio.Event | None = None,
    ) -> None:
        self.changed = changed or asyncio.Event()
        self.title = f"Secret {namespace}/{name}"
        self._api = api
        self._namespace, self._name = namespace, name
        self._path = resource_path("v1", "secrets", namespace)
        self._known = Cache[WholeObject, str, _Known](name_of, _known, self._noticed)
        self._clock = clock or Clock()
        self._listed = False
        self._anew()

    @property
    def exists(self) -> bool:
        """Whether the Secret exists, as far as is known."""
        return self._name in self._known.by_key

    @property
    def stored(self) -> Mapping[str, bytes]:
        """Its data by key; none if it does not exist. A value that cannot be decoded is empty, like a damaged file."""
        known = self._known.by_key.get(self._name)
        return known.stored if known else {}

    @property
    def current(self) -> bool:
        """Whether a list has arrived since the last `reread` or, without one, since the start."""
        return self._reflector.synced.is_set()

    async def start(self) -> None:
        """Begin to follow; `unsynced` tells whether the first list has arrived."""
        self._follow()

    def reread(self) -> None:
        """List it again, and follow it from there, because the watch's connection may be dead unnoticed."""
        if self.task is not None:
            self._anew()
            self._follow()

    def unsynced(self) -> list[str]:
        """Why the Secret is not known yet, with a remedy if a right is missing."""
        return [] if self._listed else self.stale()

    def stale(self) -> list[str]:
        """Why the Secret may have changed: no list has arrived since `reread`. In the form of `unsynced`."""
        return self._reflector.unsynced()

    async def write(self, contents: Mapping[str, bytes]) -> None:
        """Replace the contents of these keys, or create the Secret if none is known.

        Raises ApiError with status 409 if the Secret has changed since it was read: the change will arrive soon, and
        the caller should decide again. Raises ClusterError if it cannot be written.
        """
        known = self._known.by_key.get(self._name)
        # The whole Secret in the version that was read, so that later changes are not lost.
        content: Mapping[str, Any] = known.content if known else {"type": "Opaque", "metadata": {"name": self._name}}
        labels = {**_LABELS, **(content["metadata"].get("labels") or {})}
        encoded = {key: base64.b64encode(value).decode("ascii") for key, value in contents.items()}
        made = {
            **content,
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**content["metadata"], "labels": labels},
            "data": {**(content.get("data") or {}), **encoded},
        }
        method, path = ("PUT", f"{self._path}/{self._name}") if known else ("POST", self._path)
        call = Call(method, path, body=made, seconds=_SECONDS)
        try:
            body = await fetch(self._api, call)
        except ApiError as error:
            remedy, status = "", error.status
            if status == 404 and self.exists:
                status = 409  # it was deleted since it was read
            elif status == 403:
                remedy = "; " + self._right(f"create secrets, and to update {self._name} among them")
            elif status == 422:
                remedy = f"; delete {self.title}, and it is made anew"
            raise ApiError(f"{self.title} could not be written: {error}{remedy}", status, error.retry_after) from error
        # Do not wait for the watch: until it shows the change, decisions would be based on the old contents. The watch
        # cannot deliver anything older, because nothing happened between the known version and this one. A list in
        # progress can, for a moment, but writes based on it are refused because of their old version.
        self._known.changed("MODIFIED", whole(msgspec.Raw(body)))

    def _anew(self) -> None:
        resource = FollowedResource(self.title, whole, query=(("fieldSelector", f"metadata.name={self._name}"),))
        right = self._right(f"list and watch the secret {self._name}")
        self._reflector = Reflector(self._api, resource, self._path, self._known, self._clock, right=right)
        self.parts = [self._reflector]

    def _follow(self) -> None:
        earlier, reflector = self.task, self._reflector

        async def follow() -> None:
            await cancelled([earlier])  # it could still deliver older contents
            await reflector.run()

        self.task = asyncio.create_task(follow(), name=self.title)

    def _noticed(self) -> None:
        self._listed = True
        self.changed.set()

    def _right(self, verbs: str) -> str:
        return f"a Role in namespace {self._namespace} must allow the service's account to {verbs}"


def _known(item: WholeObject) -> _Known:
    stored = dict[str, bytes]()
    for key, text in (item.content.get("data") or {}).items():
        try:
            stored[key] = base64.b64decode(str(text), validate=True)
        except (binascii.Error, ValueError):
            stored[key] = b""
    return _Known(item.content, stored)
