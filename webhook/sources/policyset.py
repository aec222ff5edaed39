"""The policies in force: the contents of files, ConfigMaps and the cluster, each accepted or refused as a whole.

A source is a directory of files or a ConfigMap. If it has errors, or contradicts the others, its last good contents
stay in force, so that a mistake removes no policy anywhere. Policies that kube-apiserver enforces may also request
rules for pod templates.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from policies.admissionpolicy.documents.document import Document
from policies.admissionpolicy.documents.reader import Loaded, Part, parts, together
from policies.admissionpolicy.model import Policy
from policies.cel.environment import Dialect
from policies.engine.request import JsonObject
from policies.kubernetes.release import NEWEST, Release
from webhook.files import manifest, walk, yamlfile
from webhook.files.walk import LOOK_SECONDS
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles

if TYPE_CHECKING:
    from webhook.cluster.watches.policies import NativePolicies, PolicyMaps


class Content(NamedTuple):
    """The contents of a source, or why it cannot be read. Contents with equal versions are equal."""

    version: str
    parts: tuple[Part, ...] = ()
    problem: str = ""


class PolicySet(Struct, frozen=True):
    """contents: what is in force, by source. refused: why the newest content is not in force, by source."""

    contents: Mapping[str, Content]
    files: PolicyFiles
    refused: Mapping[str, str]

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of what is in force, by source."""
        return {source: content.version for source, content in self.contents.items()}


EMPTY = PolicySet({}, policyfiles.of(Loaded()), {})
_NOTHING = Content("")


def updated(
    current: PolicySet,
    newest: Mapping[str, Content],
    today: date,
    reserved: Collection[str] = (),
    release: Release = NEWEST,
) -> PolicySet:
    """The set with the newest content of each source that has no errors.

    today: to warn of exceptions that have ended or soon will. reserved: names that no policy may have. release: the one
    by whose rules the policies are judged.
    """
    kept = {source: current.contents.get(source, _NOTHING) for source in {**current.contents, **newest}}
    refused = {source: content.problem for source, content in newest.items() if content.problem}
    chosen: dict[str, Content] = {}
    for source, content in newest.items():
        stays = source in refused or content.version == kept[source].version
        chosen[source] = kept[source] if stays else content
        taken = "\n".join(
            f"{part.place}: metadata.name: {part.name!r} is the name of a built-in rule\n"
            "hint: give the policy another name"
            for part in chosen[source].parts
            if isinstance(part.value, Policy) and part.name in reserved
        )
        if taken:
            refused[source], chosen[source] = taken, kept[source]
    while True:
        # Of two objects with the same name the second one is reported, so unchanged sources come first.
        order = sorted(chosen, key=lambda source: chosen[source] is not kept[source])
        errors = together([part for source in order for part in chosen[source].parts], complete=True).errors
        if not errors:
            loaded = together([part for content in chosen.values() for part in content.parts], today, complete=True)
            return PolicySet(chosen, policyfiles.of(loaded, release), refused)
        sources = {part.report.document.name: source for source in order for part in chosen[source].parts}
        problems: dict[str, list[str]] = {}
        for error in errors:
            problems.setdefault(sources[error.file], []).append(str(error))
        new = [source for source in problems if chosen[source] is not kept[source]]
        gone = [source for source in current.contents if source not in chosen]
        for source in new:
            refused[source], chosen[source] = "\n".join(problems[source]), kept[source]
        if not new:
            # Unchanged sources need something that was removed, such as the policy of a binding.
            reason = "\n".join(
                ["others need what is no longer there:", *(line for lines in problems.values() for line in lines)]
            )
            if not gone:  # another source removed it, and it is unknown which one
                changed = [source for source in kept if chosen.get(source) is not kept[source]]
                files = current.files._replace(release=release)
                return replace(current, files=files, refused={**dict.fromkeys(changed, reason), **refused})
            refused |= dict.fromkeys(gone, reason)
            chosen |= {source: current.contents[source] for source in gone}


class Source(Protocol):
    """One place with policies, or several of one sort."""

    async def contents(self, release: Release) -> Mapping[str, Content]:
        """The current contents, by the name of the place, as an API server of a release takes them."""

    def changes(self) -> AsyncIterator[None]:
        """Yields whenever the contents may have changed."""

    async def report(self, refused: Mapping[str, str]) -> None:
        """Report refused contents to the owners. refused: reasons by the name of the place."""


class Directories:
    """Files and directories, each of which is a source. Unchanged files are not parsed again."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._known: dict[Path, tuple[str, tuple[Part, ...]]] = {}

    async def contents(self, release: Release) -> Mapping[str, Content]:
        """The contents of the files. A thread reads them, so that reviews in flight do not wait."""
        return await asyncio.to_thread(self.read, release)

    def read(self, release: Release) -> Mapping[str, Content]:
        """The current contents of the files, as an API server of a release takes them."""
        known, self._known = self._known, {}
        return {path: self._content(path, release, known) for path in self._paths}

    def _content(self, path: str, release: Release, known: Mapping[Path, tuple[str, tuple[Part, ...]]]) -> Content:
        version = hashlib.sha256()
        parts_read: list[Part] = []
        problems: list[str] = []
        try:
            for file in policyfiles.files(path):
                content = file.read_bytes()
                digest = f"{hashlib.sha256(content).hexdigest()} {release.name}"
                version.update(f"{file}\n{digest}\n".encode())
                before = known.get(file)
                try:
                    if before is None or before[0] != digest:
                        before = digest, policyfiles.parts(content, str(file), release)
                except yamlfile.FileError as error:
                    problems.append(str(error))
                    continue
                self._known[file] = before
                parts_read += before[1]
        except OSError as error:
            problems.append(f"{error.filename}: cannot be read: {error.strerror}")
            version.update(problems[-1].encode())
        return Content(version.hexdigest(), tuple(parts_read), "\n".join(problems))

    async def changes(self) -> AsyncIterator[None]:
        """Yield after a change in a file, or after a few seconds without one."""
        while True:
            existing = [path for path in self._paths if os.path.exists(path)]  # noqa: ASYNC240, PTH110 - a few, seldom
            if not existing:
                await asyncio.sleep(walk.LOOK_SECONDS)
                yield
                continue
            async for _ in walk.changes(existing):
                yield

    async def report(self, refused: Mapping[str, str]) -> None:
        """Do nothing: the log, the metrics and the readiness tell what is refused."""


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
        self._cache = await asyncio.to_thread(configmap_contents, self._maps.namespace, data, release, self._cache)
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
            await self._maps.report(name, refused.get(configmap_source(self._maps.namespace, name), ""))


def configmap_source(namespace: str, name: str) -> str:
    """The name of a ConfigMap as a source of policies."""
    return f"ConfigMap {namespace}/{name}"


def configmap_contents(
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
        before = (known or {}).get(configmap_source(namespace, name))
        content = before if before and before.version == version else _of_keys(name, texts, release, version)
        current[configmap_source(namespace, name)] = content
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


ParsedNatives = Mapping[tuple[str, str], tuple[Part, ...]]
"""The parts of each object, by its name and version."""


class Natives:
    """The cluster's own policies that request derived rules."""

    def __init__(self, policies: NativePolicies) -> None:
        self._policies = policies
        self._cache: ParsedNatives = {}

    def read(self, release: Release) -> Native:
        """The current policies as an API server of a release has them, without those that cannot be used here.

        kube-apiserver still enforces these.
        """
        native, self._cache = load_natives(self._policies.known, self._cache, release)
        return native

    async def changes(self) -> AsyncIterator[None]:
        """Yield after each change."""
        while True:
            await self._policies.changed.wait()
            self._policies.changed.clear()
            yield


class Native(NamedTuple):
    """The policies with their bindings, the problems of others, and the names of all policies of the cluster."""

    version: str = ""
    loaded: Loaded = Loaded()
    problems: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def load_natives(
    policies: Mapping[str, Sequence[JsonObject]], known: ParsedNatives, release: Release = NEWEST
) -> tuple[Native, ParsedNatives]:
    """The usable policies, and the parsed objects. known: objects that were parsed before, which are reused.

    policies: by name; a policy that does not request rules without its objects. release: that of the API server.
    """
    usable: list[Part] = []
    problems: list[str] = []
    parsed: dict[tuple[str, str], tuple[Part, ...]] = {}
    version = hashlib.sha256(release.name.encode())
    for name, documents in policies.items():
        version.update(repr(name).encode())
        group: list[Part] = []
        for value in documents:
            metadata = value["metadata"]
            # The generation does not count changes to annotations.
            revision = metadata.get("uid"), metadata.get("generation"), metadata.get("annotations"), release.name
            key = f"{value['kind']} {metadata['name']}", repr(revision)
            version.update(repr(key).encode())
            if (made := known.get(key)) is None:  # it has no lines; it is stored, so it may use what a new one may not
                document = Document(value=value, name=key[0], places=lambda _: (1, 1))
                made = parts(document, Dialect(release, stored=True))
            parsed[key] = made
            group += parsed[key]
        if errors := together(group).errors:
            problems.append(f"no rules for {name}: {'; '.join(error.text for error in errors)}")
        else:
            usable += group
    return Native(version.hexdigest(), together(usable), tuple(problems), tuple(policies)), parsed
