"""Reads single Namespaces that the watch does not know, or not yet: one just made, or one that does not exist."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from policies.engine.facts import NAME_LABEL, Namespace
from policies.engine.lookup import FactUnavailable
from policies.kubernetes.name import is_dns_label
from webhook.cluster.api.call import Call, fetch
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ApiError, ClusterError
from webhook.cluster.api.objects import NAMESPACES, namespace_of
from webhook.cluster.api.wire import UNREADABLE

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

PATH = "/api/v1/namespaces"
# Long enough for the evaluation that asked and for those beside it; short enough for a Namespace that is made, changed
# or deleted before the watch says so. Where there is a watch, its word comes first.
KEPT_SECONDS = 5.0
# The longest that the API server waits for a webhook, so nobody is still interested afterwards.
READ_SECONDS = 30.0


class NamespaceReads:
    """Answers of direct reads, kept for a few seconds. Reads of the same Namespace at the same time are one."""

    def __init__(self, api: ApiClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._answers: dict[str, tuple[float, Namespace]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def get(self, name: str) -> Namespace | None:
        """The Namespace, if it was read just now. One that does not exist has its name and name label alone."""
        until, namespace = self._answers.get(name, (0.0, None))
        return namespace if self._clock.monotonic() < until else None

    async def read(self, name: str, seconds: float) -> None:
        """Read a Namespace, so that `get` has them. Raises FactUnavailable."""
        task = self._running.get(name)
        if task is None:
            task = self._running[name] = asyncio.create_task(self._read(name), name=f"read namespace {name}")
            task.add_done_callback(lambda done: self._ended(name, done))
        # Neither one caller's deadline nor its end may take the answer from the others.
        done, _ = await asyncio.wait([task], timeout=seconds)
        what = f"namespace {name} could not be read"
        if not done:
            raise FactUnavailable(f"{what}: the API server at {self._api.configuration.host} took over {seconds:.1f} s")
        if task.cancelled():
            raise FactUnavailable(f"{what}: the service is shutting down")
        if error := task.exception():
            raise FactUnavailable(f"{what}: {error}") from error

    async def stop(self) -> None:
        """Give up the reads that are under way."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _read(self, name: str) -> None:
        # Anything else cannot be the name of a Namespace, and must not become part of a path either.
        namespace = await self._ask(name) if is_dns_label(name) else None
        now = self._clock.monotonic()
        self._answers = {known: answer for known, answer in self._answers.items() if answer[0] > now}
        self._answers[name] = (now + KEPT_SECONDS, namespace or _missing(name))

    async def _ask(self, name: str) -> Namespace | None:
        """The Namespace, None for a Namespace that does not exist. Raises ClusterError."""
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
            task.exception()  # looked at, for the case that nobody waits any more


def _missing(name: str) -> Namespace:
    labels = {NAME_LABEL: name}
    return Namespace(labels, msgspec.json.encode({"metadata": {"name": name, "labels": labels}}))
