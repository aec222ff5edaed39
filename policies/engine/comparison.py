"""Compares what two sets of policies say to one request: whose verdict differs, and with what sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from policies.engine.engine import Answer, Decision, failure_text
from policies.engine.match import ResourceRule, common
from policies.engine.request import Operation
from policies.engine.rule import Hook, Phase, Rule, RuleSet
from policies.engine.violation import describe

Consequence = Literal["refuse", "warn", "admit"]
Outcome = Literal["same", "refuse", "warn", "admit"]
OUTCOMES: tuple[Outcome, ...] = ("same", "refuse", "warn", "admit")
_OPERATIONS: tuple[str, ...] = get_args(Operation)


class Judgement(Struct, frozen=True):
    """What a policy says to a request. verdict: its decision's. message: its sentence; empty if it admits."""

    verdict: str
    refuses: bool = False
    message: str = ""

    @property
    def consequence(self) -> Consequence:
        """What the requester notices: a refusal, a warning or nothing."""
        if self.refuses:
            return "refuse"
        return "warn" if self.verdict in ("warn", "error") else "admit"


ADMISSION = Judgement("admit")
_ORDER: Mapping[Consequence, int] = {"refuse": 2, "warn": 1, "admit": 0}


class Change(Struct, frozen=True):
    """A policy that would judge a request otherwise."""

    policy: str
    then: Judgement
    now: Judgement


def judged(decision: Decision) -> Judgement:
    """What a decision says."""
    failure = decision.failure
    if failure is not None:
        return Judgement(decision.verdict, decision.denies, failure_text(decision.rule, failure.error, failure.policy))
    return Judgement(decision.verdict, decision.denies, describe(decision.violations, {decision.rule: decision.more}))


def strongest(judgements: Iterable[tuple[str, Judgement]]) -> dict[str, Judgement]:
    """The judgement of each rule that has the gravest consequence; of equal ones the first."""
    chosen: dict[str, Judgement] = {}
    for rule, judgement in judgements:
        before = chosen.get(rule)
        if before is None or _ORDER[judgement.consequence] > _ORDER[before.consequence]:
            chosen[rule] = judgement
    return chosen


def judgements(answer: Answer) -> dict[str, Judgement]:
    """What each rule says in an answer."""
    if answer.unanimity is not None:
        return dict.fromkeys((decision.rule for decision in answer.decisions), ADMISSION)
    return strongest((decision.rule, judged(decision)) for decision in answer.decisions)


def compared(
    then: Mapping[str, Judgement], now: Mapping[str, Judgement], policies: Iterable[str]
) -> Iterator[tuple[Outcome, Change]]:
    """What would become of each policy's verdict. A policy without one was not asked, does not match, and admits."""
    for policy in policies:
        if policy in then or policy in now:
            change = Change(policy, then.get(policy, ADMISSION), now.get(policy, ADMISSION))
            same = change.then.consequence == change.now.consequence
            yield "same" if same else change.now.consequence, change


def placed(new: RuleSet, policies: Collection[str], groups: Mapping[str, Collection[str]], phase: Phase) -> RuleSet:
    """The new rules of some policies, in the groups in which the old ones of their names are asked.

    A policy whose failurePolicy changes belongs to another call of the API server, in which nothing is known of its old
    verdict. groups: those of the old ones by name; what is not there is asked where it belongs.
    """
    rules = []
    for rule in new.rules:
        if rule.name in policies:
            hooks = [hook for hook in rule.hooks if hook.phase == phase]
            moved = (replace(hook, group=group) for hook in hooks for group in groups.get(rule.name, (hook.group,)))
            rules.append(replace(rule, hooks=tuple(dict.fromkeys(moved))))
    return RuleSet(rules, new.exceptions, new.safety)


def unsent(policy: Rule, registered: Iterable[Hook]) -> tuple[str, ...]:
    """Which requests that a rule is for the API server does not send, or not all of them, such as `CREATE pods`.

    registered: the hooks of the rules in force, by which the API server is asked to send requests. Those with
    conditions that the rule does not have send only a part.
    """
    known = tuple(registered)
    lacking: dict[str, list[str]] = {}
    for hook in policy.hooks:
        beside = [
            other
            for other in known
            if (other.phase, other.group) == (hook.phase, hook.group) and set(other.conditions) <= set(hook.conditions)
        ]
        sent = [resources for other in beside for resources in other.resources]
        for rule in hook.resources:
            operations = _OPERATIONS if "*" in rule.operations else rule.operations
            versions = "" if "*" in rule.versions else f" ({', '.join(rule.versions)})"
            for group, resource, operation in product(rule.groups, rule.resources, operations):
                part = ResourceRule((operation,), (group,), (resource,), rule.versions)
                if not any(part.intersection(other) == part for other in sent):
                    lacking.setdefault(f"{resource}{group and f'.{group}'}{versions}", []).append(operation)
        selected = common(other.namespaces for other in beside).requirements if beside else ()
        for requirement in selected:
            if requirement not in hook.namespaces.requirements:
                values = f" ({', '.join(requirement.values)})" if requirement.values else ""
                lacking[f"of Namespaces without {requirement.key} {requirement.operator}{values}"] = ["requests"]
    return tuple(f"{', '.join(dict.fromkeys(operations))} {what}" for what, operations in lacking.items())
