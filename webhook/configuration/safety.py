"""Makes the exclusions from the settings: excluded requests are not sent, and rules ignore them if they are."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from policies.conditions import matchcondition
from policies.engine.facts import NAME_LABEL
from policies.engine.match import LabelSelector, SelectorRequirement
from policies.engine.rule import Hook, Rule
from policies.engine.safety import Safety, concerns_bootstrap
from webhook.configuration.settings import Settings


def safety(settings: Settings) -> Safety:
    """The exclusions. The service's own Namespace is always excluded."""
    chosen = settings.safety
    return Safety(frozenset({settings.cluster.namespace, *chosen.namespaces}), chosen.bootstrap)


def unasked(rules: Iterable[Rule], settings: Settings) -> list[Rule]:
    """The rules that are not off, with hooks that exclude the same requests.

    Hooks of one entry share their selectors, so an exclusion for a hook that refuses also applies to those beside it.
    Every entry excludes the service's own Namespace anyway.
    """
    chosen = settings.safety
    kept = [rule for rule in rules if rule.action != "off"]
    hooks = [hook for rule in kept for hook in rule.hooks if not hook.everywhere]
    entries = {(hook.phase, hook.group) for hook in hooks}
    coming_up = {(hook.phase, hook.group) for hook in hooks if chosen.bootstrap and concerns_bootstrap(hook.resources)}
    # The service's own Namespace distinguishes the requirement from those that clouds add (registration.kept).
    names = tuple(dict.fromkeys((settings.cluster.namespace, *chosen.namespaces)))
    others = (SelectorRequirement(NAME_LABEL, "NotIn", names),) if chosen.namespaces else ()
    condition = matchcondition.cluster_is_not_coming_up()

    def narrowed(hook: Hook) -> Hook:
        entry = hook.phase, hook.group
        if entry not in entries:
            return hook
        return replace(
            hook,
            everywhere=False,
            namespaces=LabelSelector((*hook.namespaces.requirements, *others)),
            conditions=(*hook.conditions, condition) if entry in coming_up else hook.conditions,
        )

    return [replace(rule, hooks=tuple(map(narrowed, rule.hooks))) for rule in kept]
