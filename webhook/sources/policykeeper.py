"""Keeps the rules up to date with the sources of policies, without a moment in which there are none."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

import structlog

from policies.admissionpolicy.evaluation.compilation import Compiler
from policies.admissionpolicy.evaluation.inputs import ParametersKey, parameter_keys
from policies.admissionpolicy.model import Policy
from policies.cel.program import Program
from policies.engine.request import mapping
from policies.engine.rule import RuleSet
from policies.kubernetes.release import NEWEST, Release
from policies.topology.topology import Catalog
from webhook.cluster.watches.cluster import ServedRelease
from webhook.cluster.watches.parameters import ClusterParameters
from webhook.cluster.watches.policies import NativePolicies
from webhook.configuration import rules
from webhook.configuration.configuration import LoadedConfiguration, changed_names, flattened_changes
from webhook.configuration.rules import PolicyRules
from webhook.configuration.rulesettings import PackSettings
from webhook.configuration.settings import Settings, SettingsError
from webhook.files.walk import LOOK_SECONDS
from webhook.metrics import Metrics, ShadowMetrics
from webhook.sources import policyset
from webhook.sources.policyset import Content, Directories, Native, PolicySet, Readings, Source

T = TypeVar("T")


class InCluster(NamedTuple):
    """What a cluster provides: its release, and if they are used the parameters of policies, and its own policies.

    unsynced: returns which of its policies have not arrived yet, with reasons. reports: whether this process tells
    the owners of its policies what is wrong with them.
    """

    release: ServedRelease
    parameters: ClusterParameters | None
    natives: NativePolicies | None
    unsynced: Callable[[], list[str]]
    reports: bool = False


class PolicyKeeper:
    """Reads all sources again when one of them may have changed.

    rules: those of the policies. ruleset: these and the built-in ones. complete: whether all sources have been read
    once, those that take long, too; before that, other replicas may know policies that are missing here.
    """

    def __init__(
        self,
        settings: Settings,
        sources: Sequence[Source],
        metrics: Metrics | ShadowMetrics,
        catalog: Catalog,
        cluster: InCluster | None = None,
        log: structlog.typing.FilteringBoundLogger | None = None,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._sources = sources
        self._metrics = metrics
        self._cluster = cluster
        self._log = log or structlog.get_logger()
        self._compiler = Compiler(self._note_fault)
        self._looking = asyncio.Lock()
        self._readings = Readings()
        self._contents: Mapping[str, Content] = {}
        self._native_contents: Mapping[str, Content] = {}
        self._seen: Mapping[str, str] | None = None
        self._clustered = settings.cluster.is_given
        self.complete = False
        self.rules = rules.NO_POLICIES
        self.ruleset = rules.build(settings, catalog=catalog, clustered=self._clustered)
        self._made = _Made(self._release, policyset.EMPTY, Native(), {}, (), self.rules, self.ruleset)

    def _note_fault(self, policy: Policy, program: Program, error: Exception) -> None:
        """Count a fault of generated code, which only costs time, and log the first one of each expression."""
        self._metrics.expression_faults.inc()
        if program.faults == 1:
            text, place = program.source.text, f"{program.source.name}:{program.source.line}"
            self._log.warning(
                "generated code failed", policy=policy.name, expression=text, place=place, error=repr(error)
            )

    def unused(self) -> list[str]:
        """The sources whose current contents are not in force, with reasons: a text for each source."""
        stays = "what was loaded before stays in force"
        refused = [f"{source}: refused, {stays}:\n{why}" for source, why in self._made.refused.items()]
        refused += self._made.native.problems
        return refused + [f"{name}: is not compiled yet; until then {stays}" for name in self._readings.waiting]

    def file_of(self, policy: str) -> str:
        """The file in which a policy stands; for one in a ConfigMap, the ConfigMap's name and the key."""
        return next((known.origin.file for known in self._made.policies if known.name == policy), "")

    async def start(self) -> None:
        """Load the policies. Raises SettingsError for refused files, because nobody relies on them yet.

        It waits for all of these files, but of what others write only for what does not take long.
        """
        await self.look()
        while self._contents.keys() < {*self._settings.policies.directories}:
            await self._readings.changed.wait()
            self._readings.changed.clear()
            await self.look()
        refused = self._made.refused
        reasons = [refused[path] for path in self._settings.policies.directories if path in refused]
        if reasons:
            raise SettingsError("\n".join(dict.fromkeys(reasons)))
        self._check_names(self._settings, self.rules)

    def _check_names(self, settings: Settings, policies: PolicyRules) -> None:
        """Raises SettingsError for unknown names in exceptions if no source can bring them later."""
        is_final = not self._sources and (self._cluster is None or self._cluster.natives is None)
        if is_final and (unknown := rules.unknown_names(settings, policies)):
            raise SettingsError("\n".join(unknown))

    async def run(self, changed: Callable[[], Awaitable[None]]) -> NoReturn:
        """Follow the sources, and call `changed` after each change of the rules, to put them into force."""
        wake = asyncio.Event()

        async def listen(changes: Callable[[], AsyncIterator[None]]) -> NoReturn:
            while True:
                try:
                    async for _ in changes():
                        wake.set()
                except Exception:  # noqa: BLE001 - as below
                    self._log.exception("could not follow policies")
                await asyncio.sleep(LOOK_SECONDS)
                wake.set()

        async with asyncio.TaskGroup() as group:
            for source in self._sources:
                group.create_task(listen(source.changes))
            events = [self._readings.changed]
            if self._cluster is not None:
                group.create_task(listen(self._cluster.release.changes))
                events += [self._cluster.natives.changed] if self._cluster.natives is not None else []
            for event in events:
                group.create_task(listen(partial(_changes, event)))
            while True:
                await wake.wait()
                wake.clear()
                try:
                    before = self._made
                    if await self.look(before):
                        await changed()
                        await self._follow(self._made)
                    for source in self._sources:
                        await source.report(self._made.refused)
                    if self._cluster is not None and self._cluster.natives is not None and self._cluster.reports:
                        await self._cluster.natives.report(self._made.native.refused)
                except Exception:  # noqa: BLE001 - whatever it is, the next change must be looked at again
                    self._log.exception("could not check policies")

    async def look(self, before: _Made | None = None) -> bool:
        """Read the sources. Return whether the rules have changed.

        before: what is in force meanwhile, and still needs its parameters. Refused contents change nothing, but are
        logged and counted.
        """
        async with self._looking:
            complete = self._cluster is None or not self._cluster.unsynced()
            read = await _collected_later(self._read())
            self.complete = self.complete or (complete and self._readings.is_done)
            if read is None:
                return False
            versions, made = read
            await self._follow(made, *([] if before is None else [before]))
            last = self._made
            for source, reason in made.refused.items():
                if last.refused.get(source) != reason:
                    self._log.error("policies refused", source=source, reason=reason)
            if made.is_new:
                after = made.named
                changes = {kind: changed_names(before, after[kind]) for kind, before in last.named.items()}
                policies = changes.pop("policies")
                others = flattened_changes(changes)
                release = {} if made.release == last.release else {"kubernetes": made.release.name}
                self._log.info("policies loaded", policies=len(after["policies"]), **policies, **others, **release)
            self._seen = versions
            self._put(made)
            return made.is_new

    async def reconfigure(self, loaded: LoadedConfiguration) -> None:
        """Make the rules for a new configuration, with the current policies.

        Raises SettingsError if the configuration cannot be used; the rules are unchanged then.
        """
        async with self._looking:
            before = self._settings, self._catalog
            self._settings, self._catalog = loaded
            try:
                last = self._made
                made = await _collected_later(
                    asyncio.to_thread(self._ruled, last.release, last.set, last.native, last.refused)
                )
                self._check_names(self._settings, made.rules)
            except BaseException:
                self._settings, self._catalog = before
                raise
            self._put(made)

    async def _read(self) -> tuple[Mapping[str, str], _Made] | None:
        """The versions of the current contents, and what is made from them; None if they have not changed."""
        release = self._release
        natives = {} if self._cluster is None or self._cluster.natives is None else self._cluster.natives.known
        units = [unit for source in self._sources for unit in await source.units(release)]
        native_units = policyset.native_units(natives, release)
        read = await self._readings.of([*units, *native_units], release)
        newest = self._contents = policyset.contents(units, read, self._contents)
        self._native_contents = policyset.contents(native_units, read, self._native_contents)
        native = policyset.native(natives, self._native_contents)
        inside = f"{release.name} {native.version}"
        versions = {"": inside, **{name: content.version for name, content in newest.items()}}
        return (
            None if versions == self._seen else (versions, await asyncio.to_thread(self._make, release, newest, native))
        )

    @property
    def _release(self) -> Release:
        """The release by whose rules policies are to be judged from now on."""
        return (self._settings.policies.release or NEWEST) if self._cluster is None else self._cluster.release.current

    async def _follow(self, *made: _Made) -> None:
        if self._cluster is not None and self._cluster.parameters is not None:
            await self._cluster.parameters.follow((key for part in made for key in part.parameter_keys), self)

    def _make(self, release: Release, newest: Mapping[str, Content], native: Native) -> _Made:
        """What is made from the current contents, without rules if these have not changed. Runs in a thread."""
        last = self._made
        before = last.release, last.set.versions, last.native.version
        try:
            policies = policyset.updated(last.set, newest, datetime.now(UTC).date(), rules.reserved(), release)
            if self._seen is not None and before == (release, policies.versions, native.version):
                return last._replace(refused=policies.refused, is_new=False)
            return self._ruled(release, policies, native, policies.refused)
        except Exception as error:  # noqa: BLE001 - a defect met by what somebody wrote must not end what is in force
            self._log.exception("could not read policies")
            changed = [name for name, content in newest.items() if content.version != last.set.versions.get(name)]
            reason = f"it cannot be read: {type(error).__name__}: {error}"
            return last._replace(refused=dict.fromkeys(changed, reason), is_new=False)

    def _ruled(self, release: Release, policy_set: PolicySet, native: Native, refused: Mapping[str, str]) -> _Made:
        self._compiler.begin(release)
        policies = rules.of_policies(self._settings, policy_set.files, self._compiler, native)
        ruleset = rules.build(self._settings, (), policies, self._catalog, clustered=self._clustered)
        warnings = map(str, policy_set.files.loaded.warnings)
        doubts = [*warnings, *rules.unknown_names(self._settings, policies), *native.problems]
        return _Made(release, policy_set, native, refused, doubts, policies, ruleset)

    def _put(self, made: _Made) -> None:
        """Count what is loaded, log what is replaced or doubtful, and have it in force: all changes together."""
        self._metrics.policies_loaded((policy.kind for policy in made.policies), refused=bool(made.refused))
        if (replaced := made.rules.replaced) and replaced != self._made.rules.replaced:
            self._log.info("shipped policies replaced by others of their names", policies=list(replaced))
        for doubt in made.doubts:
            if doubt not in self._made.doubts:
                self._log.warning("policy is doubtful", reason=doubt)
        self._made, self.rules, self.ruleset = made, made.rules, made.ruleset


class _Made(NamedTuple):
    """The result of reading the sources. is_new: whether its rules are not those in force before. doubts: warnings.

    release: the one by whose rules policies are judged.
    """

    release: Release
    set: PolicySet
    native: Native
    refused: Mapping[str, str]
    doubts: Sequence[str]
    rules: PolicyRules
    ruleset: RuleSet
    is_new: bool = True

    @property
    def policies(self) -> Sequence[Policy]:
        return (*self.set.files.loaded.policies, *self.native.loaded.policies, *self.rules.shipped)

    @property
    def named(self) -> Mapping[str, Mapping[str, object]]:
        """All objects in the sources, by kind and name."""
        files, native = self.set.files.loaded, self.native.loaded
        return {
            "policies": {policy.name: policy for policy in self.policies},
            "bindings": {binding.name: binding for binding in (*files.bindings, *native.bindings)},
            "exceptions": {written.value.name: written.value for written in files.exceptions},
            "objects": {_name(document.value): document.value for document in files.context if document.value},
        }

    @property
    def parameter_keys(self) -> frozenset[ParametersKey]:
        loaded, native = self.set.files.loaded, self.native.loaded
        return parameter_keys(loaded.policies, loaded.bindings) | parameter_keys(native.policies, native.bindings)


def _name(value: Any) -> str:
    """The name of an object beside the policies, such as `ConfigMap team-a/limits`."""
    metadata = mapping(value, "metadata")
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{value.get('kind')} {namespace}{metadata.get('name')}" if isinstance(value, dict) else ""


async def _changes(event: asyncio.Event) -> AsyncIterator[None]:
    while True:
        await event.wait()
        event.clear()
        yield


async def _collected_later(making: Awaitable[T]) -> T:
    """The result of making policies, which the garbage collector ignores, now and later.

    A thousand policies are some hundred thousand objects. Traversing them takes the collector tenths of a second, in
    which no review is answered. Replaced policies are freed nevertheless, because they are not in reference cycles.
    """
    gc.disable()
    try:
        made = await making
        if made is not None:
            gc.freeze()
    finally:
        gc.enable()
    return made


def shadow_keeper(loaded: LoadedConfiguration, metrics: ShadowMetrics, cluster: InCluster | None) -> PolicyKeeper:
    """The keeper of the shadow policies. What it cannot use is told, and changes nothing else."""
    log = structlog.get_logger().bind(shadow=True)
    settings = shadowed(loaded.settings)
    return PolicyKeeper(settings, [Directories(settings.policies.directories)], metrics, loaded.catalog, cluster, log)


def shadowed(settings: Settings) -> Settings:
    """The settings for shadow policies: their directories, and no packs. Exceptions are those in force."""
    off = PackSettings(mode="off")
    packs = settings.packs.model_copy(update=dict.fromkeys(type(settings.packs).model_fields, off))
    policies = settings.policies.model_copy(update={"directories": settings.policies.shadow})
    return settings.model_copy(update={"packs": packs, "policies": policies, "exceptions": ()})
