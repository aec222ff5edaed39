"""ResourceClaims, their templates and DeviceClasses: followed where the cluster serves them, in a version it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import structlog

from webhook.cluster.cache import Cache
from webhook.cluster.call import Call, fetch
from webhook.cluster.clock import Backoff, Clock
from webhook.cluster.errors import ApiError, ClusterError
from webhook.cluster.objects import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    ClaimObject,
    ClaimTemplateObject,
    DeviceClassObject,
    key_of,
    name_of,
)
from webhook.cluster.reflector import Reflector
from webhook.cluster.wire import UNREADABLE

if TYPE_CHECKING:
    from kubernetes.aio.client import ApiClient

GROUP = "resource.k8s.io"
# Those whose claims have the shapes that are read here, newest first. Older ones were never on by default.
VERSIONS = ("v1", "v1beta2", "v1beta1")
# The group comes, goes and changes its version when the cluster is upgraded.
LOOK_AGAIN_SECONDS = 600.0


class _Version(msgspec.Struct):
    version: str


class _Group(msgspec.Struct, rename="camel"):
    versions: list[_Version]
    preferred_version: _Version | None = None

    def choose(self) -> str | None:
        """The version to use: the one that the API server prefers if possible; None if none will do."""
        served = [version.version for version in self.versions]
        preferred = [self.preferred_version.version] if self.preferred_version else []
        return next((version for version in (*preferred, *VERSIONS) if version in VERSIONS and version in served), None)


_GROUP = msgspec.json.Decoder(_Group)


class Devices:
    """What is known of claims for devices; nothing where the cluster has none."""

    def __init__(self, api: ApiClient, clock: Clock) -> None:
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
        self._problem: str | None = None
        self._log = structlog.get_logger()

    async def run(self) -> NoReturn:
        """Follow until cancelled, and look from time to time whether the version is still the one to use."""
        followers: list[asyncio.Task[NoReturn]] = []
        try:
            while True:
                version = await self._discover()
                if version != self._version or not self._decided:
                    await cancelled(followers)
                    followers = self._follow(version)
                await self._clock.sleep(LOOK_AGAIN_SECONDS)
        finally:
            self._version, self._decided = None, False
            await cancelled(followers)

    def unsynced(self) -> list[str]:
        """Why not everything is known yet."""
        if not self._decided:
            return [f"{GROUP}: not known yet whether it is served: {self._problem or 'waiting for the API server'}"]
        if self._version is None:
            return []
        return [reason for reflector in self._reflectors for reason in reflector.unsynced()]

    def problems(self) -> list[str]:
        """Why not everything is up to date."""
        found = [(GROUP, self._problem)]
        if self._version is not None:
            found += [(reflector.resource.name, reflector.problem) for reflector in self._reflectors]
        return [f"{name}: {problem}" for name, problem in found if problem]

    def _follow(self, version: str | None) -> list[asyncio.Task[NoReturn]]:
        """Start to follow a version; None for none."""
        self._version, self._decided = version, True
        if version is None:
            self._log.info("no device claims", reason=f"{GROUP} is not served in {', '.join(VERSIONS)}")
            for cache in (self.claims, self.templates, self.extended):
                cache.replace([])
            return []
        self._log.info("device claims are followed", api_version=f"{GROUP}/{version}")
        for reflector in self._reflectors:
            reflector.path = f"/apis/{GROUP}/{version}/{reflector.resource.name}"
        return [asyncio.create_task(reflector.run(), name=reflector.resource.name) for reflector in self._reflectors]

    async def _discover(self) -> str | None:
        """The version to use, None for none; asks until there is an answer."""
        backoff = Backoff(self._clock)
        while True:
            try:
                version = _GROUP.decode(await fetch(self._api, Call("GET", f"/apis/{GROUP}"))).choose()
            except (ClusterError, *UNREADABLE) as error:
                if isinstance(error, ApiError) and error.status == 404:
                    version = None
                else:
                    self._problem = str(error)
                    self._log.warning("discovery failed", group=GROUP, reason=self._problem)
                    await backoff.wait(error.retry_after if isinstance(error, ApiError) else 0.0)
                    continue
            self._problem = None
            return version


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    running = list(tasks)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
