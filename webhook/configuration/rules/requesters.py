"""The requesters whom the rules `labels` and `guard` leave alone."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from policies import matchconditions
from policies.engine.rule import HookCondition
from policies.engine.safety import Exemptions
from webhook.configuration.settings import Requesters, Settings


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
    condition = matchconditions.requester_is_not_exempt(exempt_ones, namespaces)
    return replace(exempt_ones, service_accounts=(*exempt_ones.service_accounts, *configured)), condition
