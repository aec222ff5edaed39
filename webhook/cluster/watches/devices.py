"""Follows ResourceClaims, their templates and DeviceClasses, if the cluster serves a usable version of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from webhook.cluster.api.clock import Clock
from webhook.cluster.api.discovery import Discovery, versions
from webhook.cluster.api.objects import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    ClaimObject,
    ClaimTemplateObject,
    DeviceClassObject,
    key_of,
    name_of,
)
from webhook.cluster.watches.cache import Cache
from webhook.cluster.watches.reflector import Reflector
from webhook.cluster.watches.tasks import cancelled, started

if TYPE_CHECKING:
    from webhook.cluster.api.client import Connection

GROUP = "resource.k8s.io"
# The versions with the structure that is read here, newest first. Older ones were never on by default.
VERSIONS = ("v1", "v1beta2", "v1beta1")
# The group may appear, disappear or change its version when the cluster is upgraded.
LOOK_AGAIN_SECONDS = 600.0


class Devices:
    """The device classes of claims; none if the cluster does not serve the group."""

    def __init__(self, api: Connection, clock: Clock) -> None:
        self.claims = Cache[ClaimObject, tuple[str, str], frozenset[str]](key_of, lambda item: item.spec.classes())
        self.templates = Cache[ClaimTemplateObject, tuple[str, str], frozenset[str]](
            key_of, lambda item: item.spec.spec.classes()
        )
        self.extended = Cache[DeviceClassObject, str, str](name_of, lambda item: item.spec.extended_resource_name)
        self._api = api
        self._clock = clock
        self._reflectors: tuple[Reflector[Any], ...] = (
            Reflector(api, CLAIMS, "", self.claims, clock),
            Reflector(api, CLAIM_TEMPLATES, "", self.templates, clock),
            Reflector(api, DEVICE_CLASSES, "", self.extended, clock),
        )
        self._version: str | None = None
        self._decided = False
        self._discovery = Discovery(GROUP, clock)
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Follow until cancelled, and check from time to time which version to use."""
        followers: list[asyncio.Task[NoReturn]] = []
        try:
            while True:
                version = await self._discovery.ask(self._choose)
                if version != self._version or not self._decided:
                    await cancelled(followers)
                    followers = self._follow(version)
                await self._clock.sleep(LOOK_AGAIN_SECONDS)
        finally:
            self._version, self._decided = None, False
            await cancelled(followers)

    def reflectors(self) -> Sequence[Reflector[Any]]:
        """What is followed now."""
        return self._reflectors if self._version is not None else ()

    def unsynced(self) -> list[str]:
        """Why not everything is known yet."""
        if not self._decided:
            return [self._discovery.waiting]
        if self._version is None:
            return []
        return [reason for reflector in self._reflectors for reason in reflector.unsynced()]

    def problems(self) -> list[str]:
        """Why not everything is up to date."""
        problems = [
            f"{reflector.resource.name}: {reflector.problem}" for reflector in self.reflectors() if reflector.problem
        ]
        return [*self._discovery.problems(), *problems]

    def _follow(self, version: str | None) -> list[asyncio.Task[NoReturn]]:
        """Start to follow a version, or nothing if it is None."""
        self._version, self._decided = version, True
        if version is None:
            self._log.info("no device claims", reason=f"{GROUP} is not served in {', '.join(VERSIONS)}")
            for cache in (self.claims, self.templates, self.extended):
                cache.replace([])
            return []
        self._log.info("device claims are followed", api_version=f"{GROUP}/{version}")
        for reflector in self._reflectors:
            reflector.path = f"/apis/{GROUP}/{version}/{reflector.resource.name}"
        return started(self._reflectors)

    async def _choose(self) -> str | None:
        """The version to use: the API server's preferred one if possible; None if no served version is usable."""
        served = await versions(self._api, GROUP)
        return next(
            (version for version in (*served[:1], *VERSIONS) if version in VERSIONS and version in served), None
        )
