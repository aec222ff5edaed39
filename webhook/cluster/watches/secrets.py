"""Follows and writes a Secret whose contents all replicas share. A write requires the version that was read."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from webhook.cluster.api.call import Call, Connection, fetch, resource_path
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ApiError
from webhook.cluster.api.objects import FollowedResource, WholeObject, name_of, whole
from webhook.cluster.watches.reflector import Cache, Reflector, cancelled

# These labels help people find the service's objects. Labels that others set are kept.
_LABELS = {"app.kubernetes.io/name": "cks-admission", "app.kubernetes.io/managed-by": "cks-admission"}
_SECONDS = 15.0


class _Known(Struct, frozen=True):
    content: Mapping[str, Any]
    stored: Mapping[str, bytes]


class SecretStore:
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
        self._reflector = self._anew()
        self._task: asyncio.Task[Any] | None = None

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
        if self._task is not None:
            self._reflector = self._anew()
            self._follow()

    async def stop(self) -> None:
        """Stop following."""
        await cancelled([self._task] if self._task else [])

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return [self._reflector]

    def unsynced(self) -> list[str]:
        """Why the Secret is not known yet, with a remedy if a right is missing."""
        return [] if self._listed else self.stale()

    def stale(self) -> list[str]:
        """Why the Secret may have changed: no list has arrived since `reread`. In the form of `unsynced`."""
        return self._reflector.unsynced(self._right(f"list and watch the secret {self._name}"))

    async def write(self, contents: Mapping[str, bytes]) -> None:
        """Replace the contents of these keys, or create the Secret if none is known.

        Raises ApiError with status 409 if the Secret has changed since it was read: the change will arrive soon, and
        the caller should decide again. Raises ClusterError if it cannot be written.
        """
        known = self._known.by_key.get(self._name)
        head = {"apiVersion": "v1", "kind": "Secret"}
        if known is None:
            made = {
                **head,
                "type": "Opaque",
                "metadata": {"name": self._name, "labels": _LABELS},
                "data": _encoded(contents),
            }
            call = Call("POST", self._path, body=made, seconds=_SECONDS)
        else:
            # The whole Secret in the version that was read, so that later changes are not lost.
            metadata, data = known.content["metadata"], known.content.get("data") or {}
            labels = {**_LABELS, **(metadata.get("labels") or {})}
            made = {
                **known.content,
                **head,
                "metadata": {**metadata, "labels": labels},
                "data": {**data, **_encoded(contents)},
            }
            call = Call("PUT", resource_path("v1", "secrets", self._namespace, self._name), body=made, seconds=_SECONDS)
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

    def _anew(self) -> Reflector[WholeObject]:
        resource = FollowedResource(self.title, whole, query=(("fieldSelector", f"metadata.name={self._name}"),))
        return Reflector(self._api, resource, self._path, self._known, self._clock)

    def _follow(self) -> None:
        self._task = asyncio.create_task(_after(self._task, self._reflector), name=self.title)

    def _noticed(self) -> None:
        self._listed = True
        self.changed.set()

    def _right(self, verbs: str) -> str:
        return f"a Role in namespace {self._namespace} must allow the service's account to {verbs}"


async def _after(earlier: asyncio.Task[Any] | None, reflector: Reflector[WholeObject]) -> NoReturn:
    """Follow after the earlier task has ended, because that could still deliver older contents."""
    await cancelled([earlier] if earlier else [])
    await reflector.run()


def _known(item: WholeObject) -> _Known:
    return _Known(item.content, {key: _decoded(text) for key, text in (item.content.get("data") or {}).items()})


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _encoded(contents: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(content).decode("ascii") for key, content in contents.items()}
