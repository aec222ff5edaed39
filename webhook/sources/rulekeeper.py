"""Rules without policies, and the parameters that several sets of policies follow: neither needs the CEL engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from policies.engine.ruleset import RuleSet
from webhook.configuration import rules
from webhook.configuration.configuration import LoadedConfiguration
from webhook.configuration.rules import PolicyRules
from webhook.configuration.settings import SettingsError

if TYPE_CHECKING:
    from policies.admissionpolicy.evaluation.parameters import ParametersKey
    from webhook.sources.policykeeper import FollowedParameters


class RuleKeeper:
    """Replaces PolicyKeeper if there are no policies, packs included, and needs no CEL engine. Raises SettingsError."""

    complete = True
    rules: PolicyRules = rules.NO_POLICIES

    def __init__(self, loaded: LoadedConfiguration) -> None:
        self.ruleset = _built(loaded)

    async def reconfigure(self, loaded: LoadedConfiguration) -> None:
        """Make the rules for a new configuration. Raises SettingsError; the rules are unchanged then."""
        self.ruleset = await asyncio.to_thread(_built, loaded)


def _built(loaded: LoadedConfiguration) -> RuleSet:
    if unknown := rules.unknown_names(loaded.settings):
        raise SettingsError("\n".join(unknown))
    cluster = loaded.settings.cluster
    return rules.build(loaded.settings, catalog=loaded.catalog, clustered=cluster.is_given)


class SharedParameters:
    """Follows for several sets at once. followed: the parameters of the cluster."""

    def __init__(self, followed: FollowedParameters) -> None:
        self._followed = followed
        self._keys: dict[object, tuple[ParametersKey, ...]] = {}

    def part(self) -> FollowedParameters:
        """What one more set of policies follows."""
        return _Part(self._follow)

    async def _follow(self, part: object, keys: Iterable[ParametersKey]) -> None:
        self._keys[part] = tuple(keys)
        await self._followed.follow(dict.fromkeys(key for kept in self._keys.values() for key in kept))


class _Part:
    """What one set of policies follows."""

    def __init__(self, follow: Callable[[object, Sequence[ParametersKey]], Awaitable[None]]) -> None:
        self._follow = follow

    async def follow(self, keys: Iterable[ParametersKey]) -> None:
        """Follow exactly these for this set from now on."""
        await self._follow(self, tuple(keys))
