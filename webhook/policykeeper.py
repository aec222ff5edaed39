"""Keeps the rules as the sources of policies want them, without a moment in which there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, NoReturn

import structlog

from policies.admissionpolicy.compilation import Compiler
from policies.admissionpolicy.model import Policy
from policies.ruleset import RuleSet
from webhook import policyset, rules
from webhook.metrics import Metrics
from webhook.policyset import Content, PolicySet
from webhook.policysources import LOOK_SECONDS, Source
from webhook.rules import PolicyRules
from webhook.settings import Settings, SettingsError


class PolicyKeeper:
    """Reads all sources again when one of them may have changed.

    rules: those of the policies. ruleset: these, and the built-in ones.
    """

    def __init__(self, settings: Settings, sources: Sequence[Source], metrics: Metrics) -> None:
        self._settings = settings
        self._sources = sources
        self._metrics = metrics
        self._log = structlog.get_logger()
        self._compiler = Compiler()
        self._seen: dict[str, str] = {}
        self._set = policyset.EMPTY
        self._refused: Mapping[str, str] = {}
        self._doubts: Sequence[str] = ()
        self.rules = rules.NO_POLICIES
        self.ruleset = RuleSet([])

    def unused(self) -> list[str]:
        """What the sources hold now that is not in force, and why: a text for each source."""
        return [
            f"{source}: refused, what was loaded before stays in force:\n{why}" for source, why in self._refused.items()
        ]

    async def start(self) -> None:
        """Load the policies. Raises SettingsError for files that are refused: nobody relies on them yet."""
        await self.look()
        reasons = [self._refused[path] for path in self._settings.policies.directories if path in self._refused]
        if reasons:
            raise SettingsError("\n".join(dict.fromkeys(reasons)))

    async def look(self) -> bool:
        """Read the sources, and say whether the rules are other ones now.

        What is refused is told to the log, the metrics and the source itself, and changes nothing.
        """
        newest: dict[str, Content] = {}
        for source in self._sources:
            newest |= await source.contents()
        seen = {name: content.version for name, content in newest.items()}
        if seen == self._seen:
            return False
        made = await asyncio.to_thread(self._made, newest)
        self._seen = seen
        self._tell(made)
        for source in self._sources:
            await source.report(made.refused)
        self._refused, self._doubts = made.refused, made.doubts
        if made.rules is None:
            return False
        self._set, self.rules, self.ruleset = made.set, made.rules, made.ruleset
        return True

    async def run(self, changed: Callable[[], Awaitable[None]]) -> NoReturn:
        """Follow the sources, and call a function after each change of the rules."""
        wake = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for source in self._sources:
                group.create_task(self._listen(source, wake))
            while True:
                await wake.wait()
                wake.clear()
                try:
                    if await self.look():
                        await changed()
                except Exception:  # noqa: BLE001 - whatever it is, the next change must be looked at again
                    self._log.exception("policies could not be looked at")

    async def _listen(self, source: Source, wake: asyncio.Event) -> NoReturn:
        while True:
            try:
                async for _ in source.changes():
                    wake.set()
            except Exception:  # noqa: BLE001 - as above
                self._log.exception("changes of policies could not be followed")
            await asyncio.sleep(LOOK_SECONDS)
            wake.set()

    def _made(self, newest: Mapping[str, Content]) -> _Made:
        """What the sources come to now; no rules where they are as they were. Runs in a thread."""
        found = policyset.updated(self._set, newest, datetime.now(UTC).date())
        if found.versions == self._set.versions:
            return _Made(self._set, found.refused, self._doubts)
        self._compiler.begin()
        try:
            policies = rules.of_policies(self._settings, found.files, self._compiler)
            ruleset = rules.build(self._settings, (), policies)
        except SettingsError as error:
            before = self._set.versions
            changed = [name for name, version in found.versions.items() if before.get(name) != version]
            return _Made(self._set, {**dict.fromkeys(changed, str(error)), **found.refused}, self._doubts)
        doubts = [*map(str, found.files.loaded.warnings), *rules.unknown_names(self._settings, policies)]
        return _Made(found, found.refused, tuple(doubts), policies, ruleset)

    def _tell(self, made: _Made) -> None:
        for source, reason in made.refused.items():
            if self._refused.get(source) != reason:
                self._log.error("policies refused", source=source, reason=reason)
        self._metrics.policies_loaded(_kinds(made.set), refused=bool(made.refused))
        if made.rules is not None:
            before, after = _by_name(self._set), _by_name(made.set)
            self._log.info(
                "policies loaded",
                policies=len(after),
                added=sorted(after.keys() - before.keys()),
                removed=sorted(before.keys() - after.keys()),
                changed=sorted(name for name in after.keys() & before.keys() if after[name] is not before[name]),
            )
        for doubt in made.doubts:
            if doubt not in self._doubts:
                self._log.warning("policy is doubtful", reason=doubt)


class _Made(NamedTuple):
    """What a look at the sources comes to. rules: None where those in force stay. doubts: what is no error."""

    set: PolicySet
    refused: Mapping[str, str]
    doubts: Sequence[str]
    rules: PolicyRules | None = None
    ruleset: RuleSet = RuleSet([])


def _by_name(found: PolicySet) -> Mapping[str, Policy]:
    return {policy.name: policy for policy in found.files.loaded.policies}


def _kinds(found: PolicySet) -> Iterable[str]:
    return [policy.kind for policy in found.files.loaded.policies]
