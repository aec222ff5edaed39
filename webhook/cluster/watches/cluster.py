"""Everything that the service follows in a cluster, and how long ago the API server last proved it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import structlog

from webhook.cluster.api.clock import Clock
from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.facts.release import ServedRelease
from webhook.cluster.facts.scheduling import Ask
from webhook.cluster.facts.workloads import WORKLOADS, GroupKind
from webhook.cluster.watches.policies import NativePolicies, PolicyMaps
from webhook.cluster.watches.reflector import Reflector

if TYPE_CHECKING:
    from policies.kubernetes.release import Release
    from webhook.cluster.api.client import Connection


# A watch that works has a bookmark every minute or two. One that was silent for three minutes is replaced, so a watch
# that is older than this has failed, perhaps several times.
STALE_SECONDS = 300.0
_LOG_SECONDS = 60.0


class Source(Protocol):
    """Something that follows objects of the cluster."""

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""


class WatchAges:
    """The ages of all watches, and how long the API server has been silent.

    sources: what follows the cluster. patience: the seconds of silence after which this replica is not ready.
    """

    def __init__(self, sources: Iterable[Source], patience: float, clock: Clock | None = None) -> None:
        self._sources = tuple(sources)
        self._patience = patience
        self._clock = clock or Clock()
        self._log = structlog.get_logger()

    def ages(self) -> Mapping[str, float]:
        """Seconds since the last proof of life, by kind of object: of several watches of a kind the oldest."""
        now = self._clock.monotonic()
        ages: dict[str, float] = {}
        for reflector in self._reflectors():
            kind = reflector.resource.kind or reflector.resource.name
            ages[kind] = max(ages.get(kind, 0.0), now - reflector.fresh)
        return ages

    def silence(self) -> float:
        """Seconds since the last answer of the API server to any list or watch; 0 if nothing is followed.

        An answer that refuses is one. Whoever takes away a right must not make all replicas unready.
        """
        heard = [reflector.heard for reflector in self._reflectors()]
        return self._clock.monotonic() - max(heard) if heard else 0.0

    def problems(self) -> list[str]:
        """What is stale, with reasons."""
        if (silence := self.silence()) >= STALE_SECONDS:
            return [f"cut off: {_heard(silence)}"]
        now = self._clock.monotonic()
        return [
            f"{reflector.resource.name}: not known to be up to date for {now - reflector.fresh:.0f} s"
            f": {reflector.problem or 'its watch is silent'}"
            for reflector in self._reflectors()
            if now - reflector.fresh >= STALE_SECONDS
        ]

    def unready(self) -> list[str]:
        """Why this replica should not be asked, if it was cut off for too long."""
        silence = self.silence()
        if silence < self._patience:
            return []
        return [f"cut off: {_heard(silence)}, longer than cluster.cutOffSeconds ({self._patience:.0f})"]

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

    def _reflectors(self) -> Iterable[Reflector[Any]]:
        return (reflector for source in self._sources for reflector in source.reflectors())


def _heard(silence: float) -> str:
    return f"nothing was heard from the API server for {silence:.0f} s; what is known of the cluster is that old"


# How long to wait for the first lists before serving without them. Look-ups then ask the API server.
FIRST_SYNC = 10.0


class Followed(NamedTuple):
    """The facts, the release of the API server, and the sources of policies; None for those that are not followed."""

    facts: ClusterFacts
    release: ServedRelease
    maps: PolicyMaps | None
    natives: NativePolicies | None

    def unsynced(self) -> list[str]:
        """What has not arrived yet, with reasons."""
        return [reason for source in self if source is not None for reason in source.unsynced()]

    def reflectors(self) -> list[Reflector[Any]]:
        """What is followed now."""
        return [reflector for source in self if source is not None for reflector in source.reflectors()]

    def unsynced_policies(self) -> list[str]:
        """The sources of policies that have not arrived yet, with reasons."""
        sources = (self.maps, self.natives)
        return [reason for source in sources if source is not None for reason in source.unsynced()]


@asynccontextmanager
async def follow(
    api: Connection,
    *,
    nodes: bool,
    topologies: bool,
    maps_in: str,
    natives: bool,
    workloads: Iterable[GroupKind] = WORKLOADS,
    devices: bool = True,
    priorities: bool = False,
    pools: bool = False,
    support: Ask | None = None,
    release: Release | None = None,
) -> AsyncIterator[Followed]:
    """Follow a cluster over a connection, which is closed at the end, and wait a while for the first lists.

    nodes, topologies, natives, devices, priorities, pools: whether to follow Nodes, Topology objects, native policies,
    device claims, PriorityClasses, node pools.
    maps_in: the Namespace whose ConfigMaps may contain policies; empty for none. workloads: the kinds that may name a
    topology. support: asks what the cluster does about topology constraints of workloads; None if nobody needs to know.
    release: the one that the settings name, whatever the API server's is.
    """
    followed = Followed(
        ClusterFacts(
            api,
            watch_nodes=nodes,
            watch_topologies=topologies,
            watch_devices=devices,
            watch_priorities=priorities,
            watch_pools=pools,
            workloads=workloads,
            support=support,
        ),
        ServedRelease(api, release),
        PolicyMaps(api, maps_in) if maps_in else None,
        NativePolicies(api) if natives else None,
    )
    running = [source for source in followed if source is not None]
    try:
        for source in running:
            await source.start()
        try:
            async with asyncio.timeout(FIRST_SYNC):
                while followed.unsynced():  # noqa: ASYNC110 - a few looks at start, at several caches
                    await asyncio.sleep(0.02)
        except TimeoutError:
            reasons = followed.unsynced()
            structlog.get_logger().warning("serving before the first lists arrived", reasons=reasons)
        yield followed
    finally:
        for source in running:
            await source.stop()
        await api.close()
