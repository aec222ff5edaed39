"""Makes the rule `guard` from the settings."""

from __future__ import annotations

from collections.abc import Iterable

from policies import guard
from policies.engine.match import ResourceRule
from policies.engine.rule import Action, Hook, Rule
from policies.matchconditions import takes_away
from webhook.configuration.rules.requesters import exempt
from webhook.configuration.settings import Settings

_LOUDER = ("off", "warn", "deny")
_NAMESPACES = ResourceRule(("UPDATE", "DELETE"), ("",), ("namespaces", "namespaces/finalize"), ("v1",))
_NODES = ResourceRule(("UPDATE",), ("",), ("nodes",), ("v1",))


def guard_rule(settings: Settings, control_plane_namespaces: Iterable[str]) -> Rule:
    """The rule. It fails open even where it refuses: without the service people must be able to repair Nodes."""
    chosen = settings.guard
    exempt_ones, condition = exempt(settings, chosen.exempt, control_plane_namespaces)
    made = guard.Guard(chosen.namespaces, chosen.taints, exempt_ones)
    modes = ((chosen.namespaces, _NAMESPACES), (chosen.taints, _NODES))
    resources = tuple(resource for mode, resource in modes if mode != "off")
    concerned = takes_away(namespaces=chosen.namespaces != "off", taints=chosen.taints != "off")
    hook = Hook("validate", "guard", resources, "Ignore", (concerned, condition), "Cluster", everywhere=True)
    action: Action = max(chosen.namespaces, chosen.taints, key=_LOUDER.index)
    return Rule(guard.RULE, (hook,), action, guard.READS, validate=made.validate)
