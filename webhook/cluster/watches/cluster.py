"""Everything that the service follows in a cluster, and how long ago the API server last proved it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import structlog

from policies.kubernetes.release import NEWEST, Release, is_proven, nearest
from webhook.cluster.api.call import ApiClient, Call, send
from webhook.cluster.api.errors import Clock, ClusterError
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.watches.policies import NativePolicies, PolicyMaps
from webhook.cluster.watches.reflector import Following, Reflector

VERSION_SECONDS = 10.0
"""The time between questions for the version of the API server."""

_READ_SECONDS = 5.0


class ServedRelease(Following):
    """The release by whose rules the API server judges policies: that of its version, or the nearest one known.

    chosen: the release that the settings name, which counts whatever the version is; None if they name none. current:
    the release; the newest until the API server has answered. version: that of the API server; empty until then.
    """

    name = "version"

    def __init__(self, api: ApiClient, chosen: Release | None = None, clock: Clock | None = None) -> None:
        self._api = api
        self._chosen = chosen
        self._clock = clock or Clock()
        self._log = structlog.get_logger()
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

    async def run(self) -> NoReturn:
        """Ask until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(VERSION_SECONDS)

    def unsynced(self) -> list[str]:
        """Nothing after the first answer, also one that tells no version: policies can be judged without."""
        return [] if self._asked else ["version: the API server has not answered yet"]

    def problems(self) -> list[str]:
        """Why policies may not be judged exactly as by the API server."""
        if not self.version:
            return [f"version: {self._failure}; policies are judged as by {self.current.name}"] if self._failure else []
        return [] if self.is_proven else [f"{self.version}: {self._doubt()}"]

    async def changes(self) -> AsyncIterator[None]:
        """Yield at once, and after each change of the release, to everybody who follows them."""
        while True:
            yield
            await self._changed.wait()

    async def look(self) -> None:
        """Ask once. Another release counts from its second answer on: in an upgrade, servers of both answer."""
        version, before = "", self._seen
        try:
            version = str((await send(self._api, Call("GET", "/version", seconds=_READ_SECONDS))).get("gitVersion"))
            nearest(version)
        except ClusterError as error:
            self._failure = str(error)
        except ValueError as error:
            version, self._failure = "", f"the answer to GET /version cannot be read: {error}"
        self._asked, self._seen = True, version
        if version in ("", self.version):
            return
        release = self._chosen or nearest(version)
        if release != self.current:
            if self.version and version != before:
                return
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
        self.current, self.version = release, version
        if self.is_proven:
            self._log.info("release of the API server", version=version, release=release.name)
        else:
            self._log.warning("release of the API server", version=version, release=release.name, reason=self._doubt())

    def _doubt(self) -> str:
        if self._chosen is not None:
            return f"policies are judged as by {self.current.name}, which policies.kubernetes names"
        return f"not proven, policies are judged as by {self.current.known_as}, the nearest release"


# A watch that works has a bookmark every minute or two. One that was silent for three minutes is replaced, so a watch
# that is older than this has failed, perhaps several times.
STALE_SECONDS = 300.0
_CUT_OFF = "cut off: nothing was heard from the API server for {:.0f} s; facts about the cluster are that old"
_LOG_SECONDS = 60.0


class WatchAges:
    """The ages of all watches, and how long the API server has been silent.

    sources: what follows the cluster. patience: the seconds of silence after which this replica is not ready.
    """

    def __init__(self, sources: Iterable[Following], patience: float, clock: Clock | None = None) -> None:
        self._sources = tuple(sources)
        self._patience = patience
        self._clock = clock or Clock()
        self._log = structlog.get_logger()

    def ages(self) -> Mapping[str, float]:
        """Seconds since the last proof of life, by kind of object: of several watches of a kind the oldest."""
        now = self._clock.monotonic()
        ages: dict[str, float] = {}
        for reflector in self._reflectors:
            kind = reflector.resource.kind or reflector.resource.name
            ages[kind] = max(ages.get(kind, 0.0), now - reflector.fresh)
        return ages

    def silence(self) -> float:
        """Seconds since the last answer of the API server to any list or watch; 0 if nothing is followed.

        An answer that refuses is one. Whoever takes away a right must not make all replicas unready.
        """
        heard = [reflector.heard for reflector in self._reflectors]
        return self._clock.monotonic() - max(heard) if heard else 0.0

    def problems(self) -> list[str]:
        """What is stale, with reasons."""
        if (silence := self.silence()) >= STALE_SECONDS:
            return [_CUT_OFF.format(silence)]
        now = self._clock.monotonic()
        return [
            f"{reflector.resource.name}: not known to be up to date for {now - reflector.fresh:.0f} s"
            f": {reflector.problem or 'its watch is silent'}"
            for reflector in self._reflectors
            if now - reflector.fresh >= STALE_SECONDS
        ]

    def unready(self) -> list[str]:
        """Why this replica should not be asked, if it was cut off for too long."""
        silence, limit = self.silence(), f", longer than cluster.cutOffSeconds ({self._patience:.0f})"
        return [_CUT_OFF.format(silence) + limit] if silence >= self._patience else []

    async def run(self) -> NoReturn:
        """Log what is stale once a minute, until cancelled."""
        stale = False
        while True:
            if problems := self.problems():
                self._log.warning("watches are stale", reasons=problems)
            elif stale:
                self._log.info("watches are up to date again")
            stale = bool(problems)
            await self._clock.sleep(_LOG_SECONDS)

    @property
    def _reflectors(self) -> Iterable[Reflector[Any]]:
        return (reflector for source in self._sources for reflector in source.reflectors())


# How long to wait for the first lists before serving without them. Look-ups then ask the API server.
FIRST_SYNC = 10.0


class Followed(Following):
    """The facts, the release of the API server, and the sources of policies; None for those that are not followed."""

    def __init__(
        self, facts: ClusterFacts, release: ServedRelease, maps: PolicyMaps | None, natives: NativePolicies | None
    ) -> None:
        self.facts, self.release, self.maps, self.natives = facts, release, maps, natives
        self.parts = [part for part in (facts, release, maps, natives) if part is not None]

    def unsynced_policies(self) -> list[str]:
        """The sources of policies that have not arrived yet, with reasons."""
        return [reason for source in self.parts[2:] for reason in source.unsynced()]


@asynccontextmanager
async def follow(
    facts: ClusterFacts,
    *,
    maps_in: str = "",
    natives: bool = False,
    release: Release | None = None,
    seconds: float = FIRST_SYNC,
) -> AsyncIterator[Followed]:
    """Follow a cluster, and wait some seconds for the first lists.

    maps_in: the Namespace whose ConfigMaps may contain policies; empty for none. natives: whether to follow native
    policies. release: the one that the settings name, whatever the API server's is.
    """
    api = facts.api
    followed = Followed(
        facts,
        ServedRelease(api, release),
        PolicyMaps(api, maps_in) if maps_in else None,
        NativePolicies(api) if natives else None,
    )
    try:
        await followed.start()
        try:
            async with asyncio.timeout(seconds):
                while followed.unsynced():  # noqa: ASYNC110 - a few looks at start, at several caches
                    await asyncio.sleep(0.02)
        except TimeoutError:
            reasons = followed.unsynced()
            structlog.get_logger().warning("serving before the first lists arrived", reasons=reasons)
        yield followed
    finally:
        await followed.stop()
