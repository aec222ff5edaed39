"""Makes the rule `guard` from the settings, and the requesters whom both guards leave alone."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from policies import guard
from policies.conditions import matchcondition
from policies.conditions.guard import takes_away
from policies.engine.match import ResourceRule
from policies.engine.requester import Exemptions
from policies.engine.rule import Action, Hook, HookCondition, Rule
from webhook.configuration.settings import Requesters, Settings

_LOUDER = ("off", "warn", "deny")
_NAMESPACES = ResourceRule(("UPDATE", "DELETE"), ("",), ("namespaces", "namespaces/finalize"), ("v1",))
_NODES = ResourceRule(("UPDATE",), ("",), ("nodes",), ("v1",))


def rule(settings: Settings, control_plane_namespaces: Iterable[str]) -> Rule:
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


def exempt(
    settings: Settings, more: Requesters, control_plane_namespaces: Iterable[str]
) -> tuple[Exemptions, HookCondition]:
    """The requesters of labels.exempt and more, and the condition that is false for them."""
    built_in, common = Exemptions(), settings.labels.exempt
    exempt_ones = Exemptions(
        users=(*built_in.users, *common.users, *more.users),
        groups=(*built_in.groups, *common.groups, *more.groups),
        service_accounts=(*built_in.service_accounts, *common.service_accounts, *more.service_accounts),
    )
    configured = tuple(f"{namespace}/*" for namespace in common.control_plane_namespaces)
    namespaces = sorted({*control_plane_namespaces, *common.control_plane_namespaces})
    condition = matchcondition.requester_is_not_exempt(exempt_ones, namespaces)
    return replace(exempt_ones, service_accounts=(*exempt_ones.service_accounts, *configured)), condition
