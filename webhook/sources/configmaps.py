"""Policies in ConfigMaps."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from policies.admissionpolicy.documents.reader import Part
from policies.kubernetes.release import NEWEST, Release
from webhook.files import manifest, yamlfile
from webhook.files.watch import LOOK_SECONDS
from webhook.sources import policyfiles
from webhook.sources.policyset import Content

if TYPE_CHECKING:
    from webhook.cluster.watches.policymaps import PolicyMaps


class ConfigMaps:
    """ConfigMaps of the service's Namespace. Each is a source, with all keys that end in .yaml, .yml or .json.

    reports: whether this process tells their owners what is wrong with them.
    """

    def __init__(self, maps: PolicyMaps, *, reports: bool = True) -> None:
        self._maps = maps
        self._reports = reports
        self._cache: Mapping[str, Content] = {}

    async def contents(self, release: Release) -> Mapping[str, Content]:
        """The contents of the ConfigMaps in the watch."""
        data = {name: policy_map.data for name, policy_map in self._maps.known.items()}
        self._cache = await asyncio.to_thread(contents, self._maps.namespace, data, release, self._cache)
        return self._cache

    async def changes(self) -> AsyncIterator[None]:
        """Yield after each change, and now and then without one, to repeat reports that failed."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._maps.changed.wait()
            self._maps.changed.clear()
            yield

    async def report(self, refused: Mapping[str, str]) -> None:
        """Report in annotations and Events which ConfigMaps are refused, or no longer are."""
        for name in list(self._maps.known) if self._reports else ():
            await self._maps.report(name, refused.get(source(self._maps.namespace, name), ""))


def source(namespace: str, name: str) -> str:
    """The name of a ConfigMap as a source of policies."""
    return f"ConfigMap {namespace}/{name}"


def contents(
    namespace: str,
    data: Mapping[str, Mapping[str, str]],
    release: Release = NEWEST,
    known: Mapping[str, Content] | None = None,
) -> Mapping[str, Content]:
    """The contents of a Namespace's ConfigMaps by source, as an API server of a release takes them.

    data: by name. known: earlier contents, which are reused.
    """
    current: dict[str, Content] = {}
    for name, texts in sorted(data.items()):
        version = hashlib.sha256(repr((release.name, sorted(texts.items()))).encode()).hexdigest()
        before = (known or {}).get(source(namespace, name))
        content = before if before and before.version == version else _of_keys(name, texts, release, version)
        current[source(namespace, name)] = content
    return current


def _of_keys(name: str, data: Mapping[str, str], release: Release, version: str) -> Content:
    parts: list[Part] = []
    problems: list[str] = []
    keys = sorted(key for key in data if key.endswith(manifest.SUFFIXES) and not policyfiles.is_suite(Path(key)))
    if not keys:
        problems.append(f"ConfigMap {name}: no key of its data ends in {', '.join(manifest.SUFFIXES)}")
    for key in keys:
        try:
            parts += policyfiles.parts(data[key], f"{name}/{key}", release)
        except yamlfile.FileError as error:
            problems.append(str(error))
    return Content(version, tuple(parts), "\n".join(problems))
