"""Everything that the service follows in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from webhook.cluster.facts.facts import ClusterFacts
from webhook.cluster.facts.references import WORKLOADS, GroupKind
from webhook.cluster.facts.release import ServedRelease
from webhook.cluster.facts.scheduling import Ask
from webhook.cluster.watches.nativepolicies import NativePolicies
from webhook.cluster.watches.policymaps import PolicyMaps
from webhook.cluster.watches.reflector import Reflector

if TYPE_CHECKING:
    from policies.kubernetes.release import Release
    from webhook.cluster.api.client import Connection

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
            structlog.get_logger().warning("serving before the cluster's facts have arrived", reasons=reasons)
        yield followed
    finally:
        for source in running:
            await source.stop()
        await api.close()
