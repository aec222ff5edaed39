"""Rules without policies, which need no CEL engine."""

from __future__ import annotations

import asyncio

from policies.engine.ruleset import RuleSet
from webhook.configuration import rules
from webhook.configuration.configuration import LoadedConfiguration
from webhook.configuration.rules import PolicyRules
from webhook.configuration.settings import SettingsError


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
