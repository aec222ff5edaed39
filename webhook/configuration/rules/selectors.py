"""Makes the rule `selectors` from the settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from policies.engine.rule import Hook, Rule
from policies.matchconditions import selectors_are_concerned
from policies.selectors.rule import RULE, NodeSelectors, reads
from policies.vocabulary import OLD_TYPE, RESERVED
from webhook.configuration.rules.hook import PODS
from webhook.configuration.rules.workloads import resources, with_templates
from webhook.configuration.settings import Settings

if TYPE_CHECKING:
    from policies.admissionpolicy.model import Policy

# The keys of which the policy node-selector tells whose values cannot work.
_TOLD_BY_PACK = ("node-selector", frozenset({OLD_TYPE, RESERVED}))


def selectors_rule(
    settings: Settings,
    others: Sequence[Rule],
    shipped: Iterable[Policy],
) -> Rule:
    """The rule.

    others: the rules whose entries it shares, which spares the API server the conversion of each object. Where one
    fails closed, it has an entry of its own: a warning is no reason to refuse anything. shipped: the policies of packs.
    """
    rows = with_templates(settings)
    templated = [row for row in rows.values() if row.group_kind != ("", "Pod")]
    policy, keys = _TOLD_BY_PACK
    told = keys if any(one.name == policy for one in shipped) else frozenset[str]()
    hooks = [hook for other in others if other.action != "off" for hook in other.hooks if hook.phase == "validate"]
    closed = {hook.group for hook in hooks if hook.failure_policy == "Fail"}
    own = {group: RULE if group in closed else group for group in ("pods", "topology")}
    concerned = selectors_are_concerned(templated)
    return Rule(
        RULE,
        (
            Hook("validate", own["pods"], PODS, "Ignore", (selectors_are_concerned(()),), everywhere=True),
            Hook("validate", own["topology"], resources(templated), "Ignore", (concerned,), "*", everywhere=True),
        ),
        settings.selectors.action,
        reads(rows.values()),
        settings.selectors.namespace_selector.label_selector,
        validate=NodeSelectors(rows, settings.organization.id, told).validate,
    )
