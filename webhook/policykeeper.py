"""Keeps the rules as the sources of policies want them, without a moment in which there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NoReturn

import structlog

from policies.admissionpolicy.compilation import Compiler
from policies.admissionpolicy.model import Policy
from policies.rule import Rule
from policies.ruleset import RuleSet
from webhook import policyset, rules
from webhook.metrics import Metrics
from webhook.policyset import Content, PolicySet
from webhook.policysources import LOOK_SECONDS, Source
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
        self.rules: Sequence[Rule] = ()
        self.ruleset: RuleSet = rules.build(settings)

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
        found, refused, made = await asyncio.to_thread(self._made, newest)
        self._seen = seen
        self._tell(found, refused)
        for source in self._sources:
            await source.report(refused)
        if made is None:
            return False
        self._set, (self.rules, self.ruleset) = found, made
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

    def _made(
        self, newest: Mapping[str, Content]
    ) -> tuple[PolicySet, Mapping[str, str], tuple[Sequence[Rule], RuleSet] | None]:
        """The new set, what is refused, and the rules; no rules where the set is what it was. Runs in a thread."""
        found = policyset.updated(self._set, newest)
        if found.contents == self._set.contents:
            return found, found.refused, None
        self._compiler.begin()
        try:
            of_policies = rules.of_policies(self._settings, found.files, self._compiler)
            return found, found.refused, (of_policies, rules.build(self._settings, (), of_policies))
        except SettingsError as error:
            changed = [name for name in newest if newest[name] != self._set.contents.get(name)]
            return self._set, {**dict.fromkeys(changed, str(error)), **found.refused}, None

    def _tell(self, found: PolicySet, refused: Mapping[str, str]) -> None:
        for source, reason in refused.items():
            if self._refused.get(source) != reason:
                self._log.error("policies refused", source=source, reason=reason)
        self._refused = refused
        self._metrics.policies_loaded(_count(found), refused=bool(refused))
        if found.contents == self._set.contents:
            return
        before, after = _by_name(self._set), _by_name(found)
        self._log.info(
            "policies loaded",
            policies=len(after),
            added=sorted(after.keys() - before.keys()),
            removed=sorted(before.keys() - after.keys()),
            changed=sorted(name for name in after.keys() & before.keys() if after[name] is not before[name]),
        )
        new = {*found.files.loaded.warnings} - {*self._set.files.loaded.warnings}
        for warning in found.files.loaded.warnings:
            if warning in new:
                self._log.warning("policy is doubtful", reason=str(warning))


def _by_name(found: PolicySet) -> Mapping[str, Policy]:
    return {policy.name: policy for policy in found.files.loaded.policies}


def _count(found: PolicySet) -> Iterable[str]:
    return [policy.kind for policy in found.files.loaded.policies]
