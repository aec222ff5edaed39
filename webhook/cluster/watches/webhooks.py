"""The webhook configurations by which the API server knows the service, as they are in the cluster now."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cryptography.x509 import Certificate

from certs.bundle import Bundle
from certs.errors import PemError
from policies.engine.request import JsonObject
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.objects import Resource, WholeObject, whole
from webhook.cluster.replicas.registration import GROUP, PLURALS, path
from webhook.cluster.watches.cache import Change
from webhook.cluster.watches.devices import cancelled
from webhook.cluster.watches.reflector import Reflector
from webhook.registration.configuration import API_VERSION, is_own
from webhook.registration.drift import is_unregistered

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient


class Webhooks:
    """The two configurations of a name.

    changed: set when either of them may be another one; whoever waits for it clears it. noticed: called then, for
    somebody else who waits.
    """

    def __init__(
        self, api: ApiClient, name: str, clock: Clock | None = None, noticed: Callable[[], None] = lambda: None
    ) -> None:
        clock = clock or Clock()
        self.changed = asyncio.Event()
        self._name = name
        self._noticed = noticed
        self._seen = {kind: _Seen(kind, self._notice) for kind in PLURALS}
        selector = (("fieldSelector", f"metadata.name={name}"),)
        self._reflectors = [
            Reflector(api, Resource(PLURALS[kind], whole, query=selector), path(kind), seen, clock)
            for kind, seen in self._seen.items()
        ]
        self._tasks: list[asyncio.Task[Any]] = []

    @property
    def known(self) -> Mapping[str, JsonObject]:
        """The configurations that there are, whole, by kind."""
        return {kind: seen.configuration for kind, seen in self._seen.items() if seen.configuration is not None}

    @property
    def seen(self) -> frozenset[str]:
        """The kinds of which there has been one since this process follows them."""
        return frozenset(kind for kind, seen in self._seen.items() if seen.ever)

    @property
    def unregistered(self) -> bool:
        """Whether they were announced to go for good.

        That holds while they are gone, and ends when they are there without the announcement.
        """
        return any(seen.unregistered for seen in self._seen.values())

    async def start(self) -> None:
        """Begin to follow; `unsynced` says whether the first lists have arrived."""
        self._tasks = [asyncio.create_task(each.run(), name=each.resource.name) for each in self._reflectors]

    async def stop(self) -> None:
        """End what is under way."""
        await cancelled(self._tasks)

    def unsynced(self) -> list[str]:
        """Why not both are known yet, and what to do where a right is missing."""
        return [
            f"{reason}{self._hint(each.resource.name) if each.status == 403 else ''}"
            for each in self._reflectors
            for reason in each.unsynced()
        ]

    def trusts(self, authority: Certificate) -> bool:
        """Whether the API server was told of a CA: every entry of the service has it in its caBundle.

        Where nothing is registered nobody calls, so yes; where it is not known yet, no.
        """
        if self.unsynced():
            return False
        entries = [entry for each in self.known.values() for entry in each.get("webhooks") or () if is_own(entry)]
        bundles = {entry["clientConfig"].get("caBundle", "") for entry in entries}
        return all(authority in bundle for bundle in map(_bundle, bundles))

    def _notice(self) -> None:
        self.changed.set()
        self._noticed()

    def _hint(self, resource: str) -> str:
        return (
            f"; a ClusterRole must allow the service's account to list and watch {resource} "
            f"named {self._name} in {GROUP}"
        )


class _Seen:
    """What was seen of the configuration of one kind."""

    def __init__(self, kind: str, notice: Callable[[], None]) -> None:
        self.configuration: JsonObject | None = None
        self.unregistered = self.ever = False
        self._kind = kind
        self._notice = notice

    def replace(self, objects: Sequence[WholeObject]) -> None:
        """Take a whole list. One that is gone was last seen as it is remembered."""
        self.configuration = None
        for item in objects:
            self._take(item)
        self._notice()

    def changed(self, change: Change, item: WholeObject) -> None:
        """Take one event; a deletion shows the object as it was last."""
        self._take(item)
        if change == "DELETED":
            self.configuration = None
        self._notice()

    def _take(self, item: WholeObject) -> None:
        # What it is, the items of a list do not say.
        self.configuration = {**item.content, "apiVersion": API_VERSION, "kind": self._kind}
        self.unregistered, self.ever = is_unregistered(self.configuration), True


def _bundle(encoded: str) -> Bundle:
    """The CAs of a caBundle; none where it cannot be read, or is empty and stands for the system's."""
    try:
        return Bundle.from_pem(base64.b64decode(encoded, validate=True))
    except (PemError, binascii.Error):
        return Bundle()
