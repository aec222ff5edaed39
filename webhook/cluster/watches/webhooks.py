"""Follows the service's webhook configurations in the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from policies.engine.request import JsonObject
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.objects import FollowedResource, WholeObject, whole
from webhook.cluster.replicas.registration import GROUP, PLURALS, path
from webhook.cluster.watches.cache import Change
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.tasks import Followers
from webhook.registration.configurations import API_VERSION
from webhook.registration.drift import is_unregistered
from webhook.registration.state import WatchState

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection


class Webhooks(Followers):
    """The two configurations with a name.

    changed: set when either of them may have changed; its waiter clears it. noticed: called at the same time, for
    another waiter.
    """

    def __init__(
        self, api: Connection, name: str, clock: Clock | None = None, noticed: Callable[[], None] = lambda: None
    ) -> None:
        clock = clock or Clock()
        self.changed = asyncio.Event()
        self._name = name
        self._noticed = noticed
        self._latest = {kind: _Latest(kind, self._notice) for kind in PLURALS}
        selector = (("fieldSelector", f"metadata.name={name}"),)
        self._reflectors = [
            Reflector(api, FollowedResource(PLURALS[kind], whole, query=selector), path(kind), latest, clock)
            for kind, latest in self._latest.items()
        ]

    @property
    def state(self) -> WatchState:
        """The current state of the watches."""
        return WatchState(
            synced=all(reflector.synced.is_set() for reflector in self._reflectors),
            current={
                kind: latest.configuration for kind, latest in self._latest.items() if latest.configuration is not None
            },
            ever=frozenset(kind for kind, latest in self._latest.items() if latest.ever),
            unregistered=any(latest.unregistered for latest in self._latest.values()),
        )

    def unsynced(self) -> list[str]:
        """Why not both are known yet, with a remedy if a right is missing."""
        return [
            f"{reason}{self._hint(reflector.resource.name) if reflector.status == 403 else ''}"
            for reflector in self._reflectors
            for reason in reflector.unsynced()
        ]

    def _notice(self) -> None:
        self.changed.set()
        self._noticed()

    def _hint(self, resource: str) -> str:
        return (
            f"; a ClusterRole must allow the service's account to list and watch {resource} "
            f"named {self._name} in {GROUP}"
        )


class _Latest:
    """The latest configuration of one kind."""

    def __init__(self, kind: str, notice: Callable[[], None]) -> None:
        self.configuration: JsonObject | None = None
        self.unregistered = self.ever = False
        self._kind = kind
        self._notice = notice

    def replace(self, objects: Sequence[WholeObject]) -> None:
        """Handle a list. If the configuration is gone, its last state still tells whether it was unregistered."""
        self.configuration = None
        for item in objects:
            self._take(item)
        self._notice()

    def changed(self, change: Change, item: WholeObject) -> None:
        """Handle one event. A deletion contains the last state of the object."""
        self._take(item)
        if change == "DELETED":
            self.configuration = None
        self._notice()

    def _take(self, item: WholeObject) -> None:
        # The items of a list have no apiVersion and kind.
        self.configuration = {**item.content, "apiVersion": API_VERSION, "kind": self._kind}
        self.unregistered, self.ever = is_unregistered(self.configuration), True
