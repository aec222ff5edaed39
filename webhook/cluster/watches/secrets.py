"""The Secret with the CA that all replicas share: followed by its name, and written in the version that was read."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import msgspec
from msgspec import Struct

from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ApiError
from webhook.cluster.api.objects import FollowedResource, WholeObject, name_of, whole
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.tasks import cancelled

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

# For people who look for what belongs to the service; whoever set others keeps them.
_LABELS = {"app.kubernetes.io/name": "cks-admission", "app.kubernetes.io/managed-by": "cks-admission"}
_SECONDS = 15.0


class _Known(Struct, frozen=True):
    content: Mapping[str, Any]
    stored: Mapping[str, bytes]


class AuthoritySecret:
    """One Secret, as a place for files. title: how people are told of it. changed: set when it may be another one."""

    def __init__(
        self,
        api: ApiClient,
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
        self._path = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets"
        self._known = Cache[WholeObject, str, _Known](name_of, _known, self._noticed)
        self._clock = clock or Clock()
        self._listed = False
        self._reflector = self._anew()
        self._task: asyncio.Task[Any] | None = None

    @property
    def exists(self) -> bool:
        """Whether there is such a Secret, as far as is known."""
        return self._name in self._known.by_key

    @property
    def stored(self) -> Mapping[str, bytes]:
        """Its data by key; none where it does not exist. What does not decode is empty, as a file that was damaged."""
        known = self._known.by_key.get(self._name)
        return known.stored if known else {}

    @property
    def current(self) -> bool:
        """Whether a list has arrived since `reread`; since the start where there was none."""
        return self._reflector.synced.is_set()

    async def start(self) -> None:
        """Begin to follow; `unsynced` says whether the first list has arrived."""
        self._follow()

    def reread(self) -> None:
        """List it anew, and follow it from there: the connection of the watch may be dead, and nobody has noticed."""
        if self._task is not None:
            self._reflector = self._anew()
            self._follow()

    async def stop(self) -> None:
        """End what is under way."""
        await cancelled([self._task] if self._task else [])

    def unsynced(self) -> list[str]:
        """Why it is not known yet what the Secret holds, and what to do where a right is missing."""
        return [] if self._listed else self.stale()

    def stale(self) -> list[str]:
        """Why it may be another one than is known, since no list has arrived since `reread`; as `unsynced`."""
        right = self._right(f"list and watch the secret {self._name}")
        return [reason + (right if self._reflector.status == 403 else "") for reason in self._reflector.unsynced()]

    async def write(self, contents: Mapping[str, bytes]) -> None:
        """Put these contents in place of what the Secret has under the same keys; make it where it is not known.

        Raises ApiError with status 409 where it is another one by now than is known here: what it holds will be known
        in a moment, and is to be decided about anew. Raises ClusterError where it cannot be written.
        """
        known = self._known.by_key.get(self._name)
        call = self._creation(contents) if known is None else self._replacement(known, contents)
        try:
            body = await fetch(self._api, call)
        except ApiError as error:
            raise self._worded(error) from error
        # Not left to the watch: until it comes, another decision would be made about what was there before. The watch
        # cannot bring anything older any more, since nothing happened between what was known and this. A list that is
        # under way can, for a moment: what is decided then is refused as of an older version.
        self._known.changed("MODIFIED", whole(msgspec.Raw(body)))

    def _anew(self) -> Reflector[WholeObject]:
        resource = FollowedResource(self.title, whole, query=(("fieldSelector", f"metadata.name={self._name}"),))
        return Reflector(self._api, resource, self._path, self._known, self._clock)

    def _follow(self) -> None:
        self._task = asyncio.create_task(_after(self._task, self._reflector), name=self.title)

    def _noticed(self) -> None:
        self._listed = True
        self.changed.set()

    def _creation(self, contents: Mapping[str, bytes]) -> Call:
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": self._name, "labels": _LABELS},
            "data": _encoded(contents),
        }
        return Call("POST", self._path, body=body, seconds=_SECONDS)

    def _replacement(self, known: _Known, contents: Mapping[str, bytes]) -> Call:
        """The whole Secret as it was read, its version too: one that has changed since is not overwritten."""
        metadata = known.content["metadata"]
        body = {
            **known.content,
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**metadata, "labels": {**_LABELS, **(metadata.get("labels") or {})}},
            "data": {**(known.content.get("data") or {}), **_encoded(contents)},
        }
        return Call("PUT", f"{self._path}/{quote(self._name, safe='')}", body=body, seconds=_SECONDS)

    def _worded(self, error: ApiError) -> ApiError:
        remedy, status = "", error.status
        if status == 404 and self.exists:
            status = 409  # deleted since it was read
        elif status == 403:
            remedy = self._right(f"create secrets, and to update {self._name} among them")
        elif status == 422:
            remedy = f"; delete {self.title}, and it is made anew"
        return ApiError(f"{self.title} could not be written: {error}{remedy}", status, error.retry_after)

    def _right(self, verbs: str) -> str:
        return f"; a Role in namespace {self._namespace} must allow the service's account to {verbs}"


async def _after(earlier: asyncio.Task[Any] | None, reflector: Reflector[WholeObject]) -> NoReturn:
    """Follow once what followed before has ended, which might bring something older."""
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
