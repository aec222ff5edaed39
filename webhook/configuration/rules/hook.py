"""The hooks of built-in rules for the API server."""

from __future__ import annotations

from policies.engine.match import ResourceRule
from policies.engine.rule import Action, FailurePolicy, Hook, HookCondition

WRITES = ("CREATE", "UPDATE")


PODS = (ResourceRule(("CREATE",), ("",), ("pods",), ("v1",)),)


def mutation(group: str, resources: tuple[ResourceRule, ...], conditions: tuple[HookCondition, ...] = ()) -> Hook:
    """A mutating hook. It fails open, so that it never refuses objects."""
    return Hook("mutate", group, resources, "Ignore", conditions, everywhere=True)


def validation(
    group: str, resources: tuple[ResourceRule, ...], action: Action, conditions: tuple[HookCondition, ...] = ()
) -> Hook:
    """A validating hook. If it refuses objects, it excludes those that a cluster cannot do without."""
    return Hook("validate", group, resources, failure_policy(action), conditions, everywhere=action != "deny")


def failure_policy(action: Action) -> FailurePolicy:
    """The failure policy for an action: a rule that refuses fails closed, a rule that only reports fails open."""
    return "Fail" if action == "deny" else "Ignore"
