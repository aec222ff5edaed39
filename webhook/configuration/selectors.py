"""Makes the rule for selectors from the settings, with its hooks for the API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from policies.conditions.matchcondition import selectors_are_concerned
from policies.engine.match import ResourceRule
from policies.engine.rule import Hook, Rule
from policies.objects.workload import Workload
from policies.selectors.rule import RULE, NodeSelectors, reads
from policies.vocabulary.keys import OLD_TYPE, RESERVED
from webhook.configuration.settings import Settings

if TYPE_CHECKING:
    from policies.admissionpolicy.model import Policy

# The keys of which the policy node-selector tells whose values cannot work.
_TOLD_BY_PACK = ("node-selector", frozenset({OLD_TYPE, RESERVED}))
_PODS = (ResourceRule(("CREATE",), ("",), ("pods",), ("v1",)),)


def rule(
    settings: Settings,
    rows: Mapping[tuple[str, str], Workload],
    resources: tuple[ResourceRule, ...],
    others: Sequence[Rule],
    shipped: Iterable[Policy],
) -> Rule:
    """The rule, for all Namespaces. rows: the kinds with pod templates; resources: of those that are not Pods.

    others: the rules whose entries it shares, which spares the API server the conversion of each object. Where one
    fails closed, it has an entry of its own: a warning is no reason to refuse anything. shipped: the policies of packs.
    """
    policy, keys = _TOLD_BY_PACK
    told = keys if any(one.name == policy for one in shipped) else frozenset[str]()
    hooks = [hook for other in others if other.action != "off" for hook in other.hooks if hook.phase == "validate"]
    closed = {hook.group for hook in hooks if hook.failure_policy == "Fail"}
    own = {group: RULE if group in closed else group for group in ("pods", "topology")}
    concerned = selectors_are_concerned(row for row in rows.values() if row.group_kind != ("", "Pod"))
    return Rule(
        RULE,
        (
            Hook("validate", own["pods"], _PODS, "Ignore", (selectors_are_concerned(()),), everywhere=True),
            Hook("validate", own["topology"], resources, "Ignore", (concerned,), "*", everywhere=True),
        ),
        settings.selectors.action,
        reads(rows.values()),
        validate=NodeSelectors(rows, settings.organization.id, told).validate,
    )
