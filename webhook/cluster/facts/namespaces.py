"""Reads single Namespaces that the watch does not know: new ones, and ones that do not exist."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from policies.engine.facts import NAME_LABEL, Namespace
from policies.engine.interruption import FactUnavailable
from policies.kubernetes.name import is_dns_label
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.objects import NAMESPACES, namespace_of
from webhook.cluster.api.wire import UNREADABLE

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

PATH = "/api/v1/namespaces"
# Long enough for the current evaluation and for concurrent ones; short enough in case the Namespace is created, changed
# or deleted before the watch shows it. What the watch knows takes precedence.
KEPT_SECONDS = 5.0
# The longest time that the API server waits for a webhook; afterwards nobody needs the answer.
READ_SECONDS = 30.0


class NamespaceReads:
    """Reads Namespaces and caches the answers for a few seconds. Concurrent reads of a Namespace are one request."""

    def __init__(self, api: ApiClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._answers: dict[str, tuple[float, Namespace]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def get(self, name: str) -> Namespace | None:
        """The Namespace, if it was read recently. One that does not exist has only its name and name label."""
        until, namespace = self._answers.get(name, (0.0, None))
        return namespace if self._clock.monotonic() < until else None

    async def read(self, name: str, seconds: float) -> None:
        """Read a Namespace for `get`. Raises FactUnavailable."""
        task = self._running.get(name)
        if task is None:
            task = self._running[name] = asyncio.create_task(self._read(name), name=f"read namespace {name}")
            task.add_done_callback(lambda done: self._ended(name, done))
        # If one caller times out or is cancelled, the others still get the answer.
        done, _ = await asyncio.wait([task], timeout=seconds)
        what = f"namespace {name} could not be read"
        if not done:
            raise FactUnavailable(f"{what}: the API server at {self._api.configuration.host} took over {seconds:.1f} s")
        if task.cancelled():
            raise FactUnavailable(f"{what}: the service is shutting down")
        if error := task.exception():
            raise FactUnavailable(f"{what}: {error}") from error

    async def stop(self) -> None:
        """Cancel the current reads."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _read(self, name: str) -> None:
        # Any other string is not the name of a Namespace, and must not become part of a path.
        namespace = await self._ask(name) if is_dns_label(name) else None
        now = self._clock.monotonic()
        self._answers = {known: answer for known, answer in self._answers.items() if answer[0] > now}
        self._answers[name] = (now + KEPT_SECONDS, namespace or _missing(name))

    async def _ask(self, name: str) -> Namespace | None:
        """The Namespace; None if it does not exist. Raises ClusterError."""
        call = Call("GET", f"{PATH}/{name}", seconds=READ_SECONDS)
        try:
            return namespace_of(NAMESPACES.decode(msgspec.Raw(await fetch(self._api, call))))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        except UNREADABLE as error:
            raise ClusterError(f"the answer to GET {call.path} is not a Namespace: {error}") from error

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        del self._running[name]
        if not task.cancelled():
            task.exception()  # retrieve it, in case nobody waits any more


def _missing(name: str) -> Namespace:
    labels = {NAME_LABEL: name}
    return Namespace(labels, msgspec.json.encode({"metadata": {"name": name, "labels": labels}}))
