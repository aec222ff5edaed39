"""The policies in force: the contents of files, ConfigMaps and the cluster, each accepted or refused as a whole.

A source is a directory of files or a ConfigMap. If it has errors, or contradicts the others, its last good contents
stay in force, so that a mistake removes no policy anywhere. Policies that kube-apiserver enforces may also request
rules for pod templates.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document, Report, Spot
from policies.admissionpolicy.documents.reader import Loaded, Part, together
from policies.admissionpolicy.model import Policy
from policies.cel.environment import Dialect
from policies.engine.request import JsonObject
from policies.kubernetes.release import NEWEST, Release
from webhook.files import manifest, walk, yamlfile
from webhook.files.walk import LOOK_SECONDS
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles
from webhook.sources.reading import Content, Readings, Unit

if TYPE_CHECKING:
    from webhook.cluster.watches.policies import PolicyMaps


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
# Sources that need each other are refused one after the other so many times, and then together.
_ROUNDS = 8


def updated(
    current: PolicySet,
    newest: Mapping[str, Content],
    today: date,
    reserved: Collection[str] = (),
    release: Release = NEWEST,
) -> PolicySet:
    """The set with the newest content of each source that has no errors.

    today: to warn of exceptions that have ended or soon will. reserved: names that no policy may have. release: the one
    by whose rules the policies are judged. What one source is refused for keeps back only others that name the same
    objects. Raises RuntimeError if what is in force has errors itself.
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
    owned = {source: {(part.kind, part.name) for part in content.parts} for source, content in kept.items()}
    for count in range(_ROUNDS + 2 * len(kept)):
        # Of two objects with the same name the second one is reported: that of the source that did not have it before.
        order = sorted(
            ((source, part) for source, content in chosen.items() for part in content.parts),
            key=lambda each: (each[1].kind, each[1].name) not in owned[each[0]],
        )
        errors = together((part for _, part in order), complete=True).errors
        if not errors:
            loaded = together([part for content in chosen.values() for part in content.parts], today, complete=True)
            return PolicySet(chosen, policyfiles.of(loaded, release), refused)
        sources = {part.report.document.name: source for source, part in order}
        problems: dict[str, list[str]] = {}
        for error in errors:
            problems.setdefault(sources[error.file], []).append(str(error))
        new = [source for source in problems if chosen[source] is not kept[source]]
        if new and count < _ROUNDS:
            for source in new:
                refused[source], chosen[source] = "\n".join(problems[source]), kept[source]
            continue
        # Unchanged sources need something that was removed, such as the policy of a binding.
        lines = (line for lines in problems.values() for line in lines)
        reason = "\n".join(["others need what is no longer there:", *lines])
        both = {source: (*kept[source].parts, *chosen.get(source, _NOTHING).parts) for source in kept}
        changed = [source for source in _linked(problems, both) if chosen.get(source) is not kept[source]]
        gone = [source for source in changed if source not in chosen]
        for source in gone or changed:  # without one that is gone it is unknown which one removed it
            refused.setdefault(source, reason)
            chosen[source] = kept[source]
    raise RuntimeError("what was in force contradicts itself")


def _linked(sources: Iterable[str], parts: Mapping[str, Iterable[Part]]) -> list[str]:
    """Those of the sources, and all others that name the same objects, directly or through more sources."""
    names = {
        source: [
            (part.kind.removesuffix("Binding"), name) for part in its for name in (part.name, part.policy_name) if name
        ]
        for source, its in parts.items()
    }
    by_name: dict[tuple[str, str], list[str]] = {}
    for source, its in names.items():
        for name in its:
            by_name.setdefault(name, []).append(source)
    linked, pending = set[str](), list(sources)
    while pending:
        source = pending.pop()
        linked.add(source)
        for name in names[source]:
            pending += by_name.pop(name, ())
    return [source for source in parts if source in linked]


def contents(
    units: Iterable[Unit], known: Mapping[str, Content], before: Mapping[str, Content] = MappingProxyType({})
) -> Mapping[str, Content]:
    """The contents of sources by name. known: of units. before: of sources of which not all units are read yet."""
    by_source: dict[str, list[Unit]] = {}
    for unit in units:
        by_source.setdefault(unit.source, []).append(unit)
    made: dict[str, Content] = {}
    for source, its in by_source.items():
        if all(unit.name in known for unit in its):
            version = hashlib.sha256(repr([(unit.name, unit.version) for unit in its]).encode()).hexdigest()
            read_ = [known[unit.name] for unit in its]
            problems = [content.problem for content in read_ if content.problem]
            parts = tuple(part for content in read_ for part in content.parts)
            made[source] = Content(version, parts, "\n".join(problems))
        elif source in before:
            made[source] = before[source]
    return made


async def read(units: Sequence[Unit], release: Release) -> Mapping[str, Content]:
    """The contents of sources by name, for once."""
    return contents(units, await Readings().all(units, release))


class Source(Protocol):
    """One place with policies, or several of one sort."""

    async def units(self, release: Release) -> Sequence[Unit]:
        """What is to be read, as an API server of a release takes it."""

    def changes(self) -> AsyncIterator[None]:
        """Yields whenever the contents may have changed."""

    async def report(self, refused: Mapping[str, str]) -> None:
        """Report refused contents to the owners. refused: reasons by the name of the place."""


class Directories:
    """Files and directories, each of which is a source."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths

    async def units(self, release: Release) -> Sequence[Unit]:
        """The files, and what keeps others from being read. A thread opens them, so that reviews do not wait."""
        return await asyncio.to_thread(lambda: [unit for path in self._paths for unit in _files(path, release)])

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


def _files(path: str, release: Release) -> Iterator[Unit]:
    """The files at a path, and a unit of its name that tells whether they are all."""
    problem, passed = "", list[str]()
    try:
        passed = manifest.passed_over(path)
        for file in policyfiles.files(path):
            text = yamlfile.content(file)
            version = f"{hashlib.sha256(text).hexdigest()} {release.name}"
            yield Unit(path, str(file), version, partial(policyfiles.parts, text, str(file), release))
    except OSError as error:
        problem = f"{error.filename}: cannot be read: {error.strerror}"

    def listed() -> tuple[Part, ...]:
        if problem:
            raise yamlfile.FileError(problem)
        top = Spot(Report(Document(value=None, name=path, places=lambda _: (1, 1))))
        for line in passed:
            top.warn(line)
        return (Part(report=top.report),) if passed else ()

    yield Unit(path, f"{path} itself", repr((problem, passed)), listed)


class ConfigMaps:
    """ConfigMaps of the service's Namespace. Each is a source, with all keys that end in .yaml, .yml or .json.

    reports: whether this process tells their owners what is wrong with them.
    """

    def __init__(self, maps: PolicyMaps, *, reports: bool = True) -> None:
        self._maps = maps
        self._reports = reports

    async def units(self, release: Release) -> Sequence[Unit]:
        """The ConfigMaps in the watch."""
        data = {name: policy_map.data for name, policy_map in self._maps.known.items()}
        return configmap_units(self._maps.namespace, data, release)

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


def configmap_units(namespace: str, data: Mapping[str, Mapping[str, str]], release: Release) -> list[Unit]:
    """The ConfigMaps of a Namespace. data: by name."""
    units = []
    for name, texts in sorted(data.items()):
        version = hashlib.sha256(repr((release.name, sorted(texts.items()))).encode()).hexdigest()
        source = configmap_source(namespace, name)
        units.append(Unit(source, source, version, partial(_of_keys, name, texts, release)))
    return units


def _of_keys(name: str, data: Mapping[str, str], release: Release) -> tuple[Part, ...]:
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
    if problems:
        raise yamlfile.FileError("\n".join(problems))
    return tuple(parts)


class Native(NamedTuple):
    """The policies with their bindings, and the names of all policies of the cluster. refused: why not others."""

    version: str = ""
    loaded: Loaded = Loaded()
    refused: Mapping[str, str] = MappingProxyType({})
    names: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """A line for each policy that is refused."""
        return [f"no rules for {name}: {why}" for name, why in self.refused.items()]


def native_units(policies: Mapping[str, Sequence[JsonObject]], release: Release) -> list[Unit]:
    """The cluster's own policies that request derived rules, with their bindings.

    policies: by name; a policy that does not request rules without its objects. release: that of the API server.
    """
    units = []
    for source, documents in policies.items():
        for value in documents:
            metadata = value["metadata"]
            # The generation does not count changes to annotations.
            revision = metadata.get("uid"), metadata.get("generation"), metadata.get("annotations"), release.name
            name = f"{value['kind']} {metadata['name']}"
            # It has no lines; it is stored, so it may use what a new one may not.
            document = Document(value=value, name=name, places=lambda _: (1, 1))
            dialect = Dialect(release, stored=True)
            units.append(Unit(source, name, repr(revision), partial(reader.parts, document, dialect)))
    return units


async def read_native(policies: Mapping[str, Sequence[JsonObject]], release: Release) -> Native:
    """The usable policies of a cluster, for once."""
    return native(policies, await read(native_units(policies, release), release))


def native(policies: Mapping[str, Sequence[JsonObject]], known: Mapping[str, Content]) -> Native:
    """The usable policies, without those that cannot be used here: kube-apiserver still enforces these.

    known: the contents by name of the policy.
    """
    usable: list[Part] = []
    refused: dict[str, str] = {}
    versions = {name: known[name].version if name in known else "" for name in policies}
    for name, content in known.items():
        problem = content.problem or "; ".join(error.text for error in together(content.parts).errors)
        if problem:
            refused[name] = problem
        else:
            usable += content.parts
    return Native(repr(versions), together(usable), refused, tuple(policies))
