"""The release of Kubernetes that the API server is of, followed when the cluster is upgraded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from policies.kubernetes.release import NEWEST, Release, is_proven, nearest
from webhook.cluster.api.call import Call, send
from webhook.cluster.api.clock import Clock
from webhook.cluster.api.errors import ClusterError
from webhook.cluster.watches.reflector import cancelled

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

    from webhook.cluster.watches.reflector import Reflector

SECONDS = 10.0
"""The time between questions."""

_READ_SECONDS = 5.0


class ServedRelease:
    """The release by whose rules the API server judges policies: that of its version, or the nearest one known.

    chosen: the release that the settings name, which counts whatever the version is; None if they name none. current:
    the release; the newest until the API server has answered. version: that of the API server; empty until then.
    """

    def __init__(self, api: ApiClient, chosen: Release | None = None, clock: Clock | None = None) -> None:
        self._api = api
        self._chosen = chosen
        self._clock = clock or Clock()
        self._log = structlog.get_logger()
        self._task: list[asyncio.Task[NoReturn]] = []
        self._changed = asyncio.Event()
        self._asked = False
        self._seen = ""
        self._failure = ""
        self.current = chosen or NEWEST
        self.version = ""

    @property
    def is_proven(self) -> bool:
        """Whether it is proven that policies are judged as by this API server."""
        return is_proven(self.version) and nearest(self.version) == self.current

    @property
    def known(self) -> Release | None:
        """The release; None until the API server has told its version, unless the settings name one."""
        return self.current if self.version or self._chosen else None

    async def start(self) -> None:
        """Begin to ask."""
        self._task = [asyncio.create_task(self._run(), name="version")]

    async def stop(self) -> None:
        """Ask no more."""
        await cancelled(self._task)
        self._task = []

    def unsynced(self) -> list[str]:
        """Nothing after the first answer, also one that tells no version: policies can be judged without."""
        return [] if self._asked else ["version: the API server has not told it yet"]

    def reflectors(self) -> list[Reflector[Any]]:
        """Nothing, because no watch tells of versions."""
        return []

    def problems(self) -> list[str]:
        """Why policies may not be judged exactly as by the API server."""
        if not self.version:
            return [f"version: {self._failure}; policies are judged as by {self.current.name}"] if self._failure else []
        return [] if self.is_proven else [f"{self.version}: {self._doubt()}"]

    async def changes(self) -> AsyncIterator[None]:
        """Yield after each change of the release."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            yield

    async def look(self) -> None:
        """Ask once. Another release counts from its second answer on: in an upgrade, servers of both answer."""
        version, before = await self._answer(), self._seen
        self._asked, self._seen = True, version
        if version in ("", self.version):
            return
        release = self._chosen or nearest(version)
        if release != self.current:
            if self.version and version != before:
                return
            self._changed.set()
        self.current, self.version = release, version
        if self.is_proven:
            self._log.info("release of the API server", version=version, release=release.name)
        else:
            self._log.warning("release of the API server", version=version, release=release.name, reason=self._doubt())

    async def _answer(self) -> str:
        """The version of the API server; empty if it does not tell one."""
        try:
            return await _version(self._api)
        except ClusterError as error:
            self._failure = str(error)
            return ""

    async def _run(self) -> NoReturn:
        while True:
            await self.look()
            await self._clock.sleep(SECONDS)

    def _doubt(self) -> str:
        if self._chosen is not None:
            return f"policies are judged as by {self.current.name}, which policies.kubernetes names"
        return f"not proven, policies are judged as by {self.current.name}, the nearest release"


async def _version(api: ApiClient) -> str:
    """The version of the API server, such as `v1.37.2`. Raises ClusterError, also for what is no version."""
    version = str((await send(api, Call("GET", "/version", seconds=_READ_SECONDS))).get("gitVersion"))
    try:
        nearest(version)
    except ValueError as error:
        raise ClusterError(f"the answer to GET /version cannot be read: {error}") from error
    return version
