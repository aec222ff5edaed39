"""The policies in the shadow, from their files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog

from policies.kubernetes.release import Release
from webhook.configuration.configuration import LoadedConfiguration
from webhook.configuration.packs import PackSettings
from webhook.configuration.settings import Settings
from webhook.measures.shadow import ShadowMetrics
from webhook.sources.directories import Directories
from webhook.sources.policykeeper import FollowedRelease, InCluster, PolicyKeeper


class CurrentRelease:
    """A release whose changes another set of policies follows; here it is looked at whenever files are."""

    def __init__(self, followed: FollowedRelease) -> None:
        self._followed = followed

    @property
    def current(self) -> Release:
        """The release now."""
        return self._followed.current

    async def changes(self) -> AsyncIterator[None]:
        """Yield never."""
        await asyncio.Event().wait()
        yield


def shadow_keeper(loaded: LoadedConfiguration, metrics: ShadowMetrics, cluster: InCluster | None) -> PolicyKeeper:
    """The keeper of the policies in the shadow. What it cannot use is told, and changes nothing else."""
    log = structlog.get_logger().bind(shadow=True)
    settings = shadowed(loaded.settings)
    return PolicyKeeper(settings, [Directories(settings.policies.directories)], metrics, loaded.catalog, cluster, log)


def shadowed(settings: Settings) -> Settings:
    """The settings for policies in the shadow: their directories, and no packs. Exceptions are those in force."""
    off = PackSettings(mode="off")
    packs = settings.packs.model_copy(update=dict.fromkeys(type(settings.packs).model_fields, off))
    policies = settings.policies.model_copy(update={"directories": settings.policies.shadow})
    return settings.model_copy(update={"packs": packs, "policies": policies, "exceptions": ()})
