"""What policies in the shadow are asked about: what the API server sends because of the policies in force. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from policies.engine.comparison import placed, unsent
from policies.engine.rule import Phase
from policies.engine.ruleset import RuleSet
from webhook.configuration.rules import PolicyRules

PHASE: Phase = "validate"
"""The phase in which they are asked."""
_SHOWN = 5  # kinds of requests in a text


class Unasked(NamedTuple):
    """A policy that is not asked about all that it is for, so that its counts do not show what it would do."""

    policy: str
    about: str
    reason: str
    remedy: str

    @property
    def text(self) -> str:
        """All of it as a line."""
        return f"{self.policy} is not asked about {self.about}: {self.reason}; {self.remedy}"


def validating(policies: PolicyRules) -> tuple[str, ...]:
    """The names of the policies that are asked."""
    return tuple(rule.name for rule in policies.rules if rule.validate is not None)


def beside(policies: PolicyRules, ruleset: RuleSet, real: RuleSet) -> RuleSet:
    """The rules of policies in the shadow, where they are asked. ruleset: theirs. real: the rules in force."""
    names = validating(policies)
    groups = {
        rule.name: dict.fromkeys(hook.group for hook in rule.hooks if hook.phase == PHASE)
        for rule in real.rules
        if rule.name in names
    }
    exceptions = tuple(dict.fromkeys((*real.exceptions, *ruleset.exceptions)))
    return placed(RuleSet(ruleset.rules, exceptions, real.safety), names, groups, PHASE)


def unasked(policies: PolicyRules, rules: RuleSet, real: RuleSet) -> tuple[Unasked, ...]:
    """The policies that are not asked about all that they are for. rules: theirs, where they are asked."""
    return tuple(_unasked(policies, rules, real))


def _unasked(policies: PolicyRules, rules: RuleSet, real: RuleSet) -> Iterator[Unasked]:
    names = {rule.name for rule in policies.rules}
    for name in policies.names:
        if name not in names:
            yield Unasked(
                name, "anything", "it is a mutating policy", "see what it changes by check --diff, and replay"
            )
    hooks = [hook for rule in real.rules for hook in rule.hooks]
    for rule in rules.rules:
        if about := unsent(rule, hooks):
            more = f"; and {len(about) - _SHOWN} more" if len(about) > _SHOWN else ""
            reason = "no policy in force with its failurePolicy is for that, so the API server does not send all of it"
            remedy = "put the policy into force with validationActions: [Audit], or run audit on what exists"
            yield Unasked(rule.name, "; ".join(about[:_SHOWN]) + more, reason, remedy)
