"""The policies in force: the contents of files, ConfigMaps and the cluster, each accepted or refused as a whole.

A source is a directory of files or a ConfigMap. If it has errors, or contradicts the others, its last good contents
stay in force, so that a mistake removes no policy anywhere. Policies that kube-apiserver enforces may also request
rules for pod templates.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct

from policies.admissionpolicy.documents import reader
from policies.admissionpolicy.documents.document import Document, Report, Spot
from policies.admissionpolicy.documents.reader import Loaded, Part, portable, together
from policies.admissionpolicy.evaluation.compilation import LARGE, compile_policy
from policies.admissionpolicy.model import Policy
from policies.cel.environment import Dialect
from policies.engine.request import JsonObject
from policies.kubernetes.release import NEWEST, Release
from webhook.child import KILLED, Child, ChildError
from webhook.files import manifest, walk, yamlfile
from webhook.files.walk import LOOK_SECONDS
from webhook.files.yamlfile import FileError
from webhook.limits import COMPILING
from webhook.sources import policyfiles
from webhook.sources.policyfiles import PolicyFiles

if TYPE_CHECKING:
    from webhook.cluster.watches.policies import PolicyMaps


QUICK, SLOW = COMPILING._replace(seconds=1), COMPILING
"""What the children of most sources may use, and those of the ones that take longer, so that others need not wait."""
# A child may wait for its processor so many times as long as it may use it.
_PATIENCE = 60
# The seconds that a look waits for what is new, and a start for what takes long.
_LOOK, _START = 3.0, 60.0


class Unit(NamedTuple):
    """What is read as a whole: a file, a ConfigMap or an object.

    source: the place that it belongs to. name: as people know it, no other unit has it. version: units with equal names
    and versions have equal contents. read: returns its parts, or raises FileError.
    """

    source: str
    name: str
    version: str
    read: Callable[[], tuple[Part, ...]]


class Content(NamedTuple):
    """The contents of a unit or a source, or why it cannot be read. Contents with equal versions are equal."""

    version: str
    parts: tuple[Part, ...] = ()
    problem: str = ""


class Readings:
    """The contents of units, each version of which is read once. changed: set after each that took long.

    waiting: by name the units that take long, or wait for such, and are not read yet.

    There are two children at most: one for units that have not ended any, one for those that have.
    """

    def __init__(self) -> None:
        self._known: dict[str, Content] = {}
        self.waiting: dict[str, Unit] = {}
        self._slow: set[str] = set()
        self._ended = Counter[str]()  # children, by source
        self._tasks: dict[bool, asyncio.Task[None]] = {}
        self._release = NEWEST
        self._is_late = False
        self._running: tuple[Child, Sequence[Unit]] | None = None  # of the units that have not ended any
        self._end = monotonic() + _START
        self.changed = asyncio.Event()

    @property
    def is_done(self) -> bool:
        """Whether all is read, or has had its time."""
        return not self.waiting or monotonic() > self._end

    async def of(self, units: Sequence[Unit], release: Release) -> Mapping[str, Content]:
        """The contents of units by name, as an API server of a release takes them, without those that take long."""
        asked = {unit.name: unit for unit in units}
        self._release = release
        self._known = {name: content for name, content in self._known.items() if name in asked}
        new = {name: unit for name, unit in asked.items() if self._version(name) != unit.version}
        self.waiting = {name: new[name] for name in (*self.waiting, *new) if name in new}
        self._slow &= asked.keys()
        self._ended = Counter({unit.source: self._ended[unit.source] for unit in units})
        first = self._next(slow=False)[:1]
        if self._running is not None and first and self._in_force(first[0]) and first[0] not in self._running[1]:
            child, self._running = self._running[0], None
            child.kill()
        self._start(slow=True)
        self._start(slow=False)
        if first:
            ended, pending = await asyncio.wait([self._tasks[False]], timeout=_LOOK)
            self._is_late = bool(pending)
            for task in ended:
                task.result()
        return {name: self._known[name] for name, unit in asked.items() if self._version(name) == unit.version}

    async def all(self, units: Sequence[Unit], release: Release) -> Mapping[str, Content]:
        """The contents of all units, which may take long."""
        contents = await self.of(units, release)
        while self.waiting:
            await asyncio.wait([task for task in self._tasks.values() if not task.done()])
            contents = await self.of(units, release)
        return contents

    def _version(self, name: str) -> str | None:
        return self._known[name].version if name in self._known else None

    def _next(self, *, slow: bool) -> list[Unit]:
        """What is read next: new versions of what is in force, else the rest, first of who has ended few children."""
        units = [unit for unit in self.waiting.values() if (unit.name in self._slow) == slow]
        return sorted(
            [unit for unit in units if self._in_force(unit)] or units, key=lambda unit: self._ended[unit.source]
        )

    def _in_force(self, unit: Unit) -> bool:
        """Whether an earlier version was read without a problem."""
        return unit.name in self._known and not self._known[unit.name].problem

    def _start(self, *, slow: bool) -> None:
        """Read the units of one sort, if there are any and nothing does."""
        if self._next(slow=slow) and (slow not in self._tasks or self._tasks[slow].done()):
            self._tasks[slow] = asyncio.create_task(self._run(slow=slow))

    async def _run(self, *, slow: bool) -> None:
        while units := self._next(slow=slow)[: 1 if slow else None]:
            done, reason = await self._read(units, slow=slow)
            if reason and len(done) < len(units):
                unit = units[len(done)]
                self._ended[unit.source] += 1
                if not slow and not done:
                    self._slow.add(unit.name)
                    self._start(slow=True)
                elif slow and reason == KILLED:
                    # There was no processor, process or memory for it, for which it need not be at fault.
                    await asyncio.sleep(LOOK_SECONDS)
                elif slow:
                    took_long = reason.startswith("took")
                    what = f"{reason} to compile" if took_long else f"the process that compiled it {reason}"
                    done = {unit.name: Content(unit.version, problem=f"{unit.name}: {what}")}
            for name, content in done.items():
                if name in self.waiting and self.waiting[name].version == content.version:
                    self._known[name] = content
                    del self.waiting[name]
                if not content.problem:
                    self._slow.discard(name)
            if slow or self._is_late:
                self.changed.set()

    async def _read(self, units: Sequence[Unit], *, slow: bool) -> tuple[dict[str, Content], str]:
        """What a child has read before its end, and what ended it before it had read all."""
        limits = SLOW if slow else QUICK
        try:
            child = Child(partial(_read, units, self._release), limits)
        except ChildError:
            return {}, KILLED
        if not slow:
            self._running = child, units
        timer = asyncio.get_running_loop().call_later(limits.seconds * _PATIENCE, child.kill)
        try:
            end = await asyncio.shield(child.ended)
        finally:
            timer.cancel()
            child.kill()
        done: dict[str, Content] = {}
        for unit, content in zip(units, end.results(), strict=False):
            done[unit.name] = content
            await asyncio.sleep(0)  # a large one takes some ms
        if slow or self._running is not None:  # else it is nobody's fault: something urgent came
            return done, end.reason
        return done, ""


def _read(units: Iterable[Unit], release: Release) -> Iterator[Content]:
    """The contents of units, each after its policies were compiled. Runs in a child."""
    for unit in units:
        content = here(unit)
        for part in content.parts:
            if isinstance(part.value, Policy):
                compile_policy(part.value, release).load(LARGE)
        yield content._replace(parts=tuple(map(portable, content.parts)))


def here(unit: Unit) -> Content:
    """The content of a unit, read in this process."""
    try:
        return Content(unit.version, unit.read())
    except FileError as error:
        return Content(unit.version, problem=str(error))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a defect met by what somebody wrote must not end what is in force
        return Content(unit.version, problem=f"{unit.name}: cannot be read: {type(error).__name__}: {error}")


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
